"""Positions and commits: where the consumer stands, and what it has written down of it."""
