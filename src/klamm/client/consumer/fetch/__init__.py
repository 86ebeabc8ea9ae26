"""Prefetching, and the data of a fetch."""
