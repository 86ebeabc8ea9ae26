"""Transactions of a producer: states, requests, errors. Without threads, sockets and clock."""
