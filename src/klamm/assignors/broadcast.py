"""broadcast: every subscriber reads everything."""

from __future__ import annotations

from collections.abc import Mapping

from klamm.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    GroupView,
    Holdings,
    as_assignments,
)
from klamm.config import ConfigError


class BroadcastAssignor(Assignor):
    """All partitions of its topics to every member.

    The group's committed offsets are meaningless here: members would overwrite each other's commits.
    Each member stores its offsets locally instead.
    """

    name = "broadcast"

    def configure(self, config: Mapping[str, object]) -> None:
        if config.get("offset.store") is None and config.get("enable.auto.commit", True) in (True, "true"):
            raise ConfigError(
                "offset.store",
                "the broadcast assignor cannot commit to the broker, where members overwrite each other: "
                "set offset.store to a FileOffsetStore or SqliteOffsetStore, or enable.auto.commit to false",
            )
        if not config.get("group.instance.id") and not config.get("client.id"):
            raise ConfigError(
                "group.instance.id",
                "the broadcast assignor needs a stable name for each member's own offsets: "
                "set group.instance.id or client.id",
            )

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        return as_assignments(group.members, assign_to_everybody(cluster, group))


def assign_to_everybody(cluster: ClusterView, group: GroupView) -> Holdings:
    """Every partition to every subscriber."""
    holdings: Holdings = {member_id: [] for member_id in group.members}
    for topic, subscribers in group.subscribers_by_topic(cluster).items():
        for member_id in subscribers:
            holdings[member_id].extend(cluster.partitions(topic))
    return holdings
