"""The partitions that this broker leads: appending, flushing, reading, waiting."""
