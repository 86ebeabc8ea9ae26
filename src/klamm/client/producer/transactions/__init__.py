"""Transactions as a producer sees them: states, requests, errors. No threads here, no sockets, no clock."""
