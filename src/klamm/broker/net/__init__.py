"""Sockets: listening, connections, requests in, answers out in order."""
