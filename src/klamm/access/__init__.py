"""Access control lists: what they are, and what follows from them. Pure: used by broker, client and tools."""
