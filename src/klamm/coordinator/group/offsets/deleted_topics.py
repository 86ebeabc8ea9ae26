"""Offsets of topics that no longer exist mean nothing: a new topic of the same name starts at zero.

A topic may go while a shard is not served, and the log may refuse the tombstones. So the topics are compared
with what exists whenever a shard has been loaded, and again after the log has refused. A broker that takes a
shard over may learn of a topic, for which its former leader has accepted commits, a little later than of the
shard: until then nothing is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from klamm.coordinator.group.events import GroupEvent, GroupEventCause
from klamm.coordinator.group.offsets.expiry import offsets_removed
from klamm.coordinator.group.offsets.signals import TopicGone, TopicsCheck, TopicsCheckRefused
from klamm.coordinator.group.offsets.tombstones import offset_keys, pending_keys
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.remembered import GroupMemory, GroupRecord, OffsetForgotten
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.group.topics import KnownTopic, TopicDirectory
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.timers import Timer
from klamm.records.layout import Stored

RETRY_MS: Final = 10_000
COMPLETE_CHECK_MS: Final = 100  # while the topics of the cluster are not all known


def topic_gone(state: GroupState, signal: TopicGone, context: Context) -> GroupOutcome:
    """Remove the offsets of one topic, but not those of a new one that has its name by now."""
    present = None if state.topics is None else state.topics.by_name(signal.topic)
    gone = {
        group_id: [
            key
            for key in dict.fromkeys(offset_keys(group.memory))
            if key[0] == signal.topic and not _is_committed_for(present, group.memory.committed(*key))
        ]
        for group_id, group in state.groups.items()
        if signal.topic in group.memory.offsets or group.memory.pending
    }
    return _forget(gone, context)


def _is_committed_for(topic: KnownTopic | None, stored: Stored | None) -> bool:
    return topic is not None and stored is not None and stored[1].topic_id == topic.topic_id


def check_topics(state: GroupState, signal: TopicsCheck, context: Context) -> GroupOutcome:
    """Remove the offsets of every topic that does not exist, or exists with another id."""
    if state.topics is None:
        return Outcome()
    if not state.topics.are_complete():
        return Outcome(timers=((Timer(signal), context.now_ms + COMPLETE_CHECK_MS),))
    ids = _TopicIds(state.topics)
    gone = {
        group_id: list(dict.fromkeys(_gone(group.memory, ids))) for group_id, group in state.groups.items()
    }
    return _forget(gone, context)


class _TopicIds(dict[str, bytes | None]):
    """The id of each topic, None if there is no such topic; each is looked up once."""

    def __init__(self, topics: TopicDirectory) -> None:
        super().__init__()
        self._topics = topics

    def __missing__(self, name: str) -> bytes | None:
        topic = self._topics.by_name(name)
        topic_id = self[name] = None if topic is None else topic.topic_id
        return topic_id


def _gone(memory: GroupMemory, ids: Mapping[str, bytes | None]) -> Iterator[tuple[str, int]]:
    for name, table in memory.offsets.items():
        topic_id = ids[name]
        # Offsets committed by old clients or in transactions carry no id: the name has to do.
        partitions = table.partitions() if topic_id is None else table.partitions_of_other_topics(topic_id)
        for partition in partitions:
            yield name, partition
    for name, partition in pending_keys(memory):
        if ids[name] is None:
            yield name, partition


def _forget(gone: dict[str, list[tuple[str, int]]], context: Context) -> GroupOutcome:
    records: list[GroupRecord] = []
    events: list[GroupEvent] = []
    for group_id, keys in gone.items():
        if keys:
            records += [OffsetForgotten(group_id, topic, partition) for topic, partition in keys]
            events.append(offsets_removed(group_id, context, GroupEventCause.TOPIC_DELETED, len(keys)))
    return Outcome(records=records, events=events, is_divisible=True, if_refused=TopicsCheckRefused)


def topics_check_refused(state: GroupState, signal: TopicsCheckRefused, context: Context) -> GroupOutcome:
    """The log refused the tombstones: look again later, at all topics, since one may be back by then."""
    return Outcome(timers=((Timer(TopicsCheck()), context.now_ms + RETRY_MS),))
