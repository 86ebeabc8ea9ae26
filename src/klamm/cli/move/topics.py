"""The topics of a move: which, and their configurations.

While records are copied, the target keeps everything and changes nothing: no retention, no compaction, no
bounds for timestamps. The source's configuration is applied when the records are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from klamm.cli.move.ends import End
from klamm.cli.move.state import CopyProgress, MoveError, MoveState
from klamm.client.admin.admin import Admin
from klamm.client.admin.model import NewTopic, TopicDescription
from klamm.protocol.types import TopicPartition, id_to_text

_TOPIC_CONFIG: Final = 1  # the source of a setting that was set for its topic
_LONG_MS: Final = 2**63 - 1
WHILE_COPYING: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(_LONG_MS),
    "message.timestamp.after.max.ms": str(_LONG_MS),
    "max.message.bytes": str(2**31 - 1),  # batches are compressed anew, and may get larger
}


@dataclass(frozen=True, slots=True)
class MovedTopic:
    """A topic of the source with the settings that were set for it."""

    description: TopicDescription
    configs: dict[str, str]

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, each.partition) for each in self.description.partitions]


def chosen_topics(admin: Admin, patterns: Sequence[str], excluded: Sequence[str]) -> list[MovedTopic]:
    """Topics that match, without internal ones. Raises MoveError if a pattern matches nothing."""
    names = [name for name in admin.list_topics() if not name.startswith("__")]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise MoveError(f"no topic of the source matches {pattern}")
    names = [
        name
        for name in names
        if (not patterns or any(fnmatchcase(name, each) for each in patterns))
        and not any(fnmatchcase(name, each) for each in excluded)
    ]
    if not names:
        return []
    described = admin.describe_topics(names)
    configs = admin.describe_configs([("topic", name) for name in names])
    return [
        MovedTopic(
            described[name],
            {
                key: entry.value
                for (kind, of), entries in configs.items()
                if of == name
                for key, entry in entries.items()
                if entry.source == _TOPIC_CONFIG and entry.value is not None
            },
        )
        for name in names
    ]


def prepare_target(target: End, state: MoveState, topics: Sequence[MovedTopic]) -> None:
    """Create missing topics, or continue with those of an earlier run; MoveError for all others."""
    present = target.admin.list_topics()
    for topic in topics:
        source_id = id_to_text(topic.description.topic_id)
        known = state.topic_ids.get(topic.name)
        if topic.name not in present:
            if known is not None:
                _forget(state, topic.name)
            _create(target.admin, topic)
        elif known is None:
            _refuse_records(target, topic.name)
        elif known[0] != source_id:
            raise MoveError(
                f"topic {topic.name} was deleted and created again at the source: delete it at the target, "
                "and move it again"
            )
        _adjust(target.admin, state, topic, source_id)


def _forget(state: MoveState, name: str) -> None:
    del state.topic_ids[name]
    state.partitions = {key: each for key, each in state.partitions.items() if key.topic != name}


def _create(admin: Admin, topic: MovedTopic) -> None:
    admin.create_topics([NewTopic(topic.name, len(topic.partitions), configs=dict(WHILE_COPYING))])
    admin.wait_for_topics(topic.name)


def _refuse_records(target: End, name: str) -> None:
    described = target.admin.describe_topics(name)[name]
    partitions = [TopicPartition(name, each.partition) for each in described.partitions]
    ends = target.admin.list_offsets(partitions)
    if any(each.offset > 0 for each in ends.values()):
        raise MoveError(
            f"topic {name} exists at {target.name} and has records that are not of this move: "
            f"delete it there, or leave it out with --exclude {name}"
        )


def _adjust(admin: Admin, state: MoveState, topic: MovedTopic, source_id: str) -> None:
    """As many partitions as the source has, and the settings while copying."""
    found = admin.describe_topics(topic.name)[topic.name]
    target_id = id_to_text(found.topic_id)
    known = state.topic_ids.get(topic.name)
    if known is not None and known[1] != target_id:
        raise MoveError(
            f"topic {topic.name} was deleted and created again at the target: delete it there, and move it "
            "again"
        )
    wanted = len(topic.partitions)
    if len(found.partitions) > wanted:
        raise MoveError(
            f"topic {topic.name} has {len(found.partitions)} partitions at the target and {wanted} at the "
            "source: delete it at the target, and move it again"
        )
    if len(found.partitions) < wanted:
        admin.create_partitions({topic.name: wanted})
        admin.wait_for_topics(topic.name)
    admin.alter_configs("topic", topic.name, dict(WHILE_COPYING))
    state.topic_ids[topic.name] = (source_id, target_id)
    for partition in topic.partitions:
        state.partitions.setdefault(partition, CopyProgress(0))


def apply_configs(admin: Admin, topics: Sequence[MovedTopic]) -> dict[str, Exception]:
    """Give topics the source's settings; the topics whose settings the target refuses, and why."""
    changes = {("topic", topic.name): {**dict.fromkeys(WHILE_COPYING), **topic.configs} for topic in topics}
    if not changes:
        return {}
    return {
        name: error for (_, name), error in admin.alter_configs(changes, raise_errors=False).errors.items()
    }
