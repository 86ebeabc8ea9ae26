"""Cluster metadata: topics, leaders, features, producer ids, and their changes."""
