"""PostgreSQL as the store of a cluster: its metadata, and the partition logs themselves."""
