"""A poll: the caller's side, the client's thread, and what passes between them."""
