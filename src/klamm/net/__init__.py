"""Connections to the brokers of a cluster: transport, versions, metadata, coroutines over requests.

Below broker and client, so that a broker can talk to another one. Sans-IO but for `reactor`, which owns the
sockets and the thread.
"""
