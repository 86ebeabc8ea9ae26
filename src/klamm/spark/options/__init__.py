"""The options of a query, read and checked before anything runs."""
