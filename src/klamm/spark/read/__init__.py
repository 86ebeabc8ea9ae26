"""Reading topics as a batch or a stream."""
