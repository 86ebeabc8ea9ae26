"""The client's network: connections, versions, metadata.

Sans-IO but for `reactor`, which owns the sockets and the thread.
"""
