"""The consumer for programs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from random import Random
from types import TracebackType
from typing import Any, Self

from klamm.client.consumer.claims import ThreadClaim
from klamm.client.consumer.fetching import EARLIEST, LATEST
from klamm.client.consumer.hosts import ThreadHost, ThreadSignal, run_blocking
from klamm.client.consumer.offset_lookup import FoundOffset
from klamm.client.consumer.operations import Operations
from klamm.client.consumer.records import ConsumerRecord, Records
from klamm.client.consumer.settings import parse
from klamm.client.errors import IllegalStateError
from klamm.client.runtime import ClientThread
from klamm.clock import Clock, SystemClock
from klamm.protocol.types import TopicPartition

_numbers = count(1)


class Consumer:
    """Reads records; settings by Kafka's names, as a dictionary or keywords."""

    def __init__(
        self,
        *topics: str,
        config: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        parsed, checked = parse(config, settings, next(_numbers))
        clock = clock or SystemClock()
        thread = ClientThread(
            parsed.network(checked.client_id),
            parsed.metadata(allow_auto_topic_creation=parsed.values.boolean("allow.auto.create.topics")),
            clock=clock,
            random=random or Random(),
            name=checked.client_id,
        )
        host = ThreadHost(thread, ThreadSignal(clock))
        self._operations = Operations(host, checked)
        self._claim = ThreadClaim()
        self._limit = checked.max_poll_records
        self._ready: Iterator[ConsumerRecord] = iter(())
        host.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._operations.is_closed:
            raise IllegalStateError("this consumer is closed")

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        with self._claim:
            self._check_open()
            run_blocking(self._operations.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        with self._claim:
            self._check_open()
            return set(self._operations.state.partitions)

    def poll(self, timeout: float | None = None, *, max_records: int | None = None) -> Records:
        with self._claim:
            self._check_open()
            limit = self._limit if max_records is None else max_records
            records = self._operations.poller.poll_nowait(limit)
            if records is None:
                records = run_blocking(self._operations.poll(timeout, limit))
            return records

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        for record in self._ready:
            return record
        while True:
            self._ready = iter(self.poll())
            for record in self._ready:
                return record

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        with self._claim:
            self._check_open()
            return run_blocking(self._operations.position(partition, timeout))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        with self._claim:
            self._check_open()
            self._operations.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        with self._claim:
            self._check_open()
            self._operations.seek_to(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        with self._claim:
            self._check_open()
            self._operations.seek_to(partitions, LATEST)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, FoundOffset | None]:
        with self._claim:
            self._check_open()
            return run_blocking(self._operations.offsets_for_times(timestamps, timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        with self._claim:
            self._check_open()
            return run_blocking(self._operations.edge_offsets(partitions, LATEST, timeout))

    def close(self, timeout: float | None = 30.0) -> None:
        with self._claim:
            run_blocking(self._operations.close(timeout))
