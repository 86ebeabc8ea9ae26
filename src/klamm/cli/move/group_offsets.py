"""Committed offsets of groups, translated to the target's offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from klamm.cli.move.ends import End
from klamm.cli.move.state import MoveState
from klamm.client.admin.model import CommittedOffset
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupMove:
    """The offsets of one group, for partitions that are moved."""

    group_id: str
    has_members: bool
    offsets: Mapping[TopicPartition, CommittedOffset]  # of the source


def groups_to_move(source: End, topics: Sequence[str], patterns: Sequence[str]) -> list[GroupMove]:
    """The groups with committed offsets in these topics."""
    wanted = set(topics)
    found: list[GroupMove] = []
    for group in sorted(source.admin.list_groups(), key=lambda each: each.group_id):
        if patterns and not any(fnmatchcase(group.group_id, each) for each in patterns):
            continue
        offsets = {
            key: committed
            for key, committed in source.admin.list_group_offsets(group.group_id).items()
            if key.topic in wanted
        }
        if offsets:
            found.append(GroupMove(group.group_id, group.state not in ("Empty", "Dead", ""), offsets))
    return found


def move_group_offsets(target: End, state: MoveState, groups: Sequence[GroupMove]) -> dict[str, KlammError]:
    """Commit the translated offsets; the groups that the target refuses, and why."""
    failed: dict[str, KlammError] = {}
    for group in groups:
        translated = {
            key: committed._replace(
                offset=state.partitions[key].offsets.translate(committed.offset),
                leader_epoch=-1,
            )
            for key, committed in group.offsets.items()
        }
        try:
            target.admin.alter_group_offsets(group.group_id, translated)
        except KlammError as error:
            failed[group.group_id] = error
    return failed
