"""Groups by script: the real coordinator, the real client, no sockets, virtual time."""
