"""A running cluster as tests use it: topics, records, offsets, and options for both connectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import klamm
from klamm.client.admin.model import CommittedOffset, NewTopic
from klamm.protocol.types import TopicPartition


class Cluster:
    """One broker with klamm's own clients on it."""

    def __init__(self, kind: str, bootstrap: str) -> None:
        self.kind = kind
        self.bootstrap = bootstrap
        self.admin = klamm.Admin(bootstrap_servers=bootstrap)
        self._producer = klamm.Producer(bootstrap_servers=bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.close(timeout=1)
        self.admin.close()

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        # Records here are as old as a test wants them: nothing must go for its age.
        lasting = {"retention.ms": "-1", **(configs or {})}
        self.admin.create_topics([NewTopic(topic, partitions, 1, configs=lasting)]).unwrap()
        self.admin.wait_for_topics([topic])
        return topic

    def fill(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        timestamps_ms: Sequence[int] | None = None,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Put records into a partition and wait for them."""
        for index, value in enumerate(values):
            self._producer.send(
                topic,
                value,
                key=None if keys is None else keys[index],
                partition=partition,
                headers=headers,
                timestamp_ms=None if timestamps_ms is None else timestamps_ms[index],
            )
        self._producer.flush()

    def ends(self, topic: str) -> dict[int, int]:
        """The next offset of each partition."""
        described = self.admin.describe_topics([topic]).unwrap()[topic]
        wanted = {TopicPartition(topic, item.partition): -1 for item in described.partitions}
        return {
            key.partition: found.offset for key, found in self.admin.list_offsets(wanted).unwrap().items()
        }

    def until_stable(self, topic: str) -> None:
        """Wait until every transaction in a topic has its marker."""
        wanted = dict.fromkeys((TopicPartition(topic, number) for number in self.ends(topic)), -1)
        while True:
            stable = self.admin.list_offsets(wanted, read_committed=True).unwrap()
            if {key.partition: found.offset for key, found in stable.items()} == self.ends(topic):
                return

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        return self.admin.list_group_offsets(group_id)
