"""Every admin operation as a future; `tools/make_admin.py` generates both `Admin` classes from it."""

from __future__ import annotations

from klamm.client.admin.cluster_operations import ClusterOperations
from klamm.client.admin.group_operations import GroupOperations
from klamm.client.admin.topic_operations import TopicOperations


class AdminOperations(TopicOperations, ClusterOperations, GroupOperations):
    """Arguments are checked in the caller's thread; operations run on the client's."""
