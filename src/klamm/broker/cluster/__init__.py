"""The cluster as this broker knows it: topics, leaders, producer ids, and changing them."""
