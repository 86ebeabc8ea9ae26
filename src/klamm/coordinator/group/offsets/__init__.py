"""Committed offsets: committing, fetching, deleting, expiry."""
