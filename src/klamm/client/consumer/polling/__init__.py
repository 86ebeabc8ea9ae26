"""A poll: the caller's thread, the client's thread, and their communication."""
