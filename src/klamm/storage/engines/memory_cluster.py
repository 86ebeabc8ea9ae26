"""Cluster metadata in memory, lost when the process ends."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from threading import Lock

from klamm.protocol.types import id_to_text
from klamm.storage.cluster import (
    FIRST_PRODUCER_ID,
    LAST_PRODUCER_ID,
    BrokerRegistration,
    BrokerState,
    ClusterChanges,
    ConfigChange,
    ConfigResourceType,
    ConflictError,
    FencedError,
    FinalizedFeatures,
    LeaderChange,
    PartitionRegistration,
    TopicState,
    follow_on,
    new_topic_id,
    set_levels,
)


@dataclass(slots=True)
class _Content:
    """What all stores of one cluster share. `touched` has the version of the last change of each thing."""

    cluster_id: str
    lock: Lock = field(default_factory=Lock)
    version: int = 0
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)
    configs: dict[tuple[ConfigResourceType, str], dict[str, str]] = field(default_factory=dict)
    features: FinalizedFeatures = field(default_factory=FinalizedFeatures)
    next_producer_id: int = FIRST_PRODUCER_ID
    touched: dict[object, int] = field(default_factory=dict)


class MemoryCluster:
    """A ClusterStore in dictionaries; threads may share it. `join` makes the store of another broker."""

    def __init__(self, *, random: Random) -> None:
        self._content = _Content(id_to_text(new_topic_id(random)))
        self._me: BrokerRegistration | None = None
        self._seen_version = 0

    def join(self) -> MemoryCluster:
        """Another store of the same cluster, for another broker."""
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__ | {"_me": None, "_seen_version": 0}
        return other

    @property
    def cluster_id(self) -> str:
        return self._content.cluster_id

    def version(self) -> int:
        return self._content.version

    def changed(self) -> bool:
        seen, self._seen_version = self._seen_version, self._content.version
        return self._seen_version != seen

    def changes(self, since_version: int) -> ClusterChanges:
        content = self._content
        with content.lock:
            touched = [key for key, version in content.touched.items() if version > since_version]
            return ClusterChanges(
                content.version,
                tuple(content.brokers[key] for key in touched if isinstance(key, int)),
                {key: content.topics.get(key) for key in touched if isinstance(key, str)},
                {key: dict(content.configs.get(key, {})) for key in touched if isinstance(key, tuple)},
                content.features if None in touched else None,
                is_complete=since_version == 0,
            )

    # --- brokers and leaders ---------------------------------------------------------------------------

    def register(self, registration: BrokerRegistration) -> BrokerRegistration:
        with self._changing(is_registration=True) as content:
            broker_id = registration.broker_id
            registered = replace(
                registration, listeners=dict(registration.listeners), epoch=content.version + 1
            )
            content.brokers[broker_id] = registered
            self._touch(broker_id)
            for topic, state in self._led_by(broker_id):
                self._set_partition(topic, replace(state, leader_epoch=state.leader_epoch + 1, moving_to=-1))
        self._me = registered
        return registered

    def set_state(self, state: BrokerState) -> None:
        me = self._me
        assert me is not None, "no broker has registered with this store"
        with self._changing() as content:
            content.brokers[me.broker_id] = replace(content.brokers[me.broker_id], state=state)
            self._touch(me.broker_id)

    def take_over(self, gone: BrokerRegistration, leaders: Sequence[LeaderChange]) -> None:
        with self._changing() as content:
            found = content.brokers.get(gone.broker_id)
            if found is None or found.epoch != gone.epoch or found.state is BrokerState.GONE:
                raise ConflictError(f"broker {gone.broker_id} is gone already, or back")
            led = {(topic, state.partition) for topic, state in self._led_by(gone.broker_id)}
            if led != {(change.topic, change.partition) for change in leaders}:
                raise ConflictError(f"broker {gone.broker_id} leads other partitions")
            content.brokers[gone.broker_id] = replace(found, state=BrokerState.GONE)
            self._touch(gone.broker_id)
            for change in leaders:
                self._hand_over(change)

    def start_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        with self._changing() as content:
            started = []
            for change in moves:
                state = self._expected(change)
                to = content.brokers.get(change.next_leader_id)
                if state is not None and to is not None and to.state is BrokerState.RUNNING:
                    self._set_partition(change.topic, replace(state, moving_to=change.next_leader_id))
                    started.append(change)
            return started

    def finish_moves(self, moves: Sequence[LeaderChange]) -> Sequence[LeaderChange]:
        with self._changing():
            return [change for change in moves if self._hand_over(change)]

    def cancel_moves(self, moves: Sequence[LeaderChange]) -> None:
        with self._changing():
            for change in moves:
                state = self._expected(change)
                if state is not None:
                    self._set_partition(change.topic, replace(state, moving_to=-1))

    def replace_replicas(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        with self._changing() as content:
            state = content.topics.get(topic)
            if state is None or not 0 <= partition < len(state.partitions):
                raise ConflictError(f"partition {topic}-{partition} does not exist")
            self._set_partition(topic, replace(state.partitions[partition], replicas=tuple(replicas)))

    def brokers(self) -> Sequence[BrokerRegistration]:
        with self._content.lock:
            return [registration for _, registration in sorted(self._content.brokers.items())]

    # --- topics ----------------------------------------------------------------------------------------

    def topics(self) -> Mapping[str, TopicState]:
        with self._content.lock:
            return dict(self._content.topics)

    def create_topic(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        if not follow_on(0, topic.partitions):
            raise ValueError(f"partitions of {topic.name} are not numbered from 0")
        with self._changing() as content:
            if topic.name in content.topics:
                raise ConflictError(f"topic {topic.name} exists")
            if any(topic.topic_id == other.topic_id for other in content.topics.values()):
                raise ConflictError(f"topic id {id_to_text(topic.topic_id)} exists")
            content.topics[topic.name] = topic
            self._touch(topic.name)
            self._set_configs(ConfigResourceType.TOPIC, topic.name, configs)

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        with self._changing() as content:
            self._topic(name, topic_id)
            del content.topics[name]
            self._touch(name)
            self._set_configs(ConfigResourceType.TOPIC, name, {})

    def add_partitions(self, name: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        with self._changing() as content:
            topic = self._topic(name, topic_id)
            if not follow_on(len(topic.partitions), added):
                raise ConflictError(f"topic {name} now has {len(topic.partitions)} partitions")
            content.topics[name] = replace(topic, partitions=(*topic.partitions, *added))
            self._touch(name)

    # --- configurations, features, producer ids --------------------------------------------------------

    def configs(self, resource_type: ConfigResourceType, name: str) -> Mapping[str, str]:
        with self._content.lock:
            return dict(self._content.configs.get((resource_type, name), {}))

    def all_configs(self) -> Mapping[tuple[ConfigResourceType, str], Mapping[str, str]]:
        with self._content.lock:
            return {resource: dict(configs) for resource, configs in self._content.configs.items()}

    def replace_configs(
        self,
        resource_type: ConfigResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        with self._changing() as content:
            if resource_type is ConfigResourceType.TOPIC and name not in content.topics:
                raise ConflictError(f"topic {name} does not exist")
            if expected is not None and content.configs.get((resource_type, name), {}) != expected:
                raise ConflictError(f"configuration of {name} was changed concurrently")
            self._set_configs(resource_type, name, configs)

    def replace_all_configs(
        self, resource_type: ConfigResourceType, changes: Sequence[ConfigChange]
    ) -> Collection[str]:
        lost: list[str] = []
        with self._changing() as content:
            for each in changes:
                if content.configs.get((resource_type, each.name), {}) == each.expected:
                    self._set_configs(resource_type, each.name, each.configs)
                else:
                    lost.append(each.name)
        return lost

    def features(self) -> FinalizedFeatures:
        return self._content.features

    def finalize_features(self, levels: Mapping[str, int], *, expected_epoch: int) -> FinalizedFeatures:
        with self._changing() as content:
            if content.features.epoch != expected_epoch:
                raise ConflictError("the finalized features changed meanwhile")
            content.features = FinalizedFeatures(expected_epoch + 1, set_levels(levels))
            self._touch(None)
            return content.features

    def allocate_producer_ids(self, count: int) -> range:
        if count < 1:
            raise ValueError(f"invalid producer id block size {count}: expected at least 1")
        with self._content.lock:
            first = self._content.next_producer_id
            if first + count > LAST_PRODUCER_ID:
                raise OverflowError("producer ids are exhausted")
            self._content.next_producer_id = first + count
            return range(first, first + count)

    def close(self) -> None:
        """Nothing to close; the content stays readable."""

    # --- parts of a change -----------------------------------------------------------------------------

    @contextmanager
    def _changing(self, *, is_registration: bool = False) -> Iterator[_Content]:
        """One change at a time. What raises before its first write changes nothing."""
        content = self._content
        with content.lock:
            me = self._me
            if me is not None and not is_registration:
                found = content.brokers[me.broker_id]
                if found.epoch != me.epoch or found.state is BrokerState.GONE:
                    raise FencedError(f"broker {me.broker_id} was replaced or declared dead")
            yield content
            content.version += 1

    def _touch(self, key: object) -> None:
        self._content.touched[key] = self._content.version + 1

    def _led_by(self, broker_id: int) -> list[tuple[str, PartitionRegistration]]:
        return [
            (topic.name, state)
            for topic in self._content.topics.values()
            for state in topic.partitions
            if state.leader_id == broker_id
        ]

    def _expected(self, change: LeaderChange) -> PartitionRegistration | None:
        """The partition, if its leader is the expected one."""
        topic = self._content.topics.get(change.topic)
        if topic is None or change.partition >= len(topic.partitions):
            return None
        state = topic.partitions[change.partition]
        is_expected = (state.leader_id, state.leader_epoch) == (change.leader_id, change.leader_epoch)
        return state if is_expected else None

    def _hand_over(self, change: LeaderChange) -> bool:
        state = self._expected(change)
        if state is None:
            return False
        moved = replace(
            state, leader_id=change.next_leader_id, leader_epoch=change.leader_epoch + 1, moving_to=-1
        )
        self._set_partition(change.topic, moved)
        return True

    def _set_partition(self, topic: str, state: PartitionRegistration) -> None:
        present = self._content.topics[topic]
        states = list(present.partitions)
        states[state.partition] = state
        self._content.topics[topic] = replace(present, partitions=tuple(states))
        self._touch(topic)

    def _topic(self, name: str, topic_id: bytes) -> TopicState:
        topic = self._content.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            raise ConflictError(f"topic {name} does not have id {id_to_text(topic_id)}")
        return topic

    def _set_configs(self, resource_type: ConfigResourceType, name: str, configs: Mapping[str, str]) -> None:
        if configs:
            self._content.configs[resource_type, name] = dict(configs)
        else:
            self._content.configs.pop((resource_type, name), None)
        self._touch((resource_type, name))
