"""klamm's own client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import klamm
from faults.exactly_once.library import PATIENCE_S, TRANSACTION_TIMEOUT_MS, Member, Polled


class KlammProducer:
    acknowledges_commits = True

    def __init__(self, bootstrap: str, transactional_id: str, **settings: Any) -> None:
        self.raw = klamm.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "retry.backoff.ms": 20,
                **settings,
            }
        )
        self.raw.init_transactions(timeout=PATIENCE_S)

    def begin(self) -> None:
        self.raw.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        self.raw.send(topic, value.encode(), partition=partition)

    def send_offsets(self, offsets: Mapping[int, int], consumer: Member) -> None:
        wanted = {klamm.TopicPartition(consumer.source, each): offset for each, offset in offsets.items()}
        self.raw.send_offsets_to_transaction(wanted, consumer.raw.group_metadata(), timeout=PATIENCE_S)

    def commit(self) -> None:
        self.raw.commit_transaction(timeout=PATIENCE_S)

    def abort(self) -> None:
        self.raw.abort_transaction(timeout=PATIENCE_S)

    def close(self) -> None:
        self.raw.close(0)


class KlammMember:
    def __init__(self, bootstrap: str, group: str, source: str) -> None:
        self.source = source
        self.raw = klamm.Consumer(
            source,
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 2_000,
                "heartbeat.interval.ms": 300,
                "max.poll.records": 20,
            },
        )

    def poll(self) -> list[Polled]:
        return [
            Polled(each.partition, each.offset, (each.value or b"").decode()) for each in self.raw.poll(0.3)
        ]

    def rewind(self) -> None:
        partitions = self.raw.assignment()
        if partitions:
            self.raw.seek_to_committed(*partitions)

    def close(self) -> None:
        self.raw.close(5)


class KlammReader:
    def __init__(self, bootstrap: str, topic: str, next_offsets: Mapping[int, int]) -> None:
        self._consumer = klamm.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "isolation.level": "read_committed",
                "retry.backoff.ms": 20,
            }
        )
        partitions = {klamm.TopicPartition(topic, each): offset for each, offset in next_offsets.items()}
        self._consumer.assign(partitions)
        for partition, offset in partitions.items():
            self._consumer.seek(partition, offset)

    def poll(self) -> list[Polled]:
        return [
            Polled(each.partition, each.offset, (each.value or b"").decode())
            for each in self._consumer.poll(0.2)
        ]


make_producer, make_member, make_reader = KlammProducer, KlammMember, KlammReader
