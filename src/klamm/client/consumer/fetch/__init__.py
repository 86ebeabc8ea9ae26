"""Fetching ahead of the caller, and what a fetch brought."""
