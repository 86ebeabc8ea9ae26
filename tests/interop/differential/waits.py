"""One seed, one history of fetches that wait: what is produced meanwhile answers the same ones alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from interop.differential.comparing import Plain, differences
from interop.differential.group_sides import GroupSide, collect
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.record import Record, encode_batch
from klamm.testing import wait_until

_TOPICS: Final = {"wa": 3, "wb": 1}
_CONNECTIONS: Final = range(10, 16)
_LONG_MS: Final = 60_000  # longer than a history: no answer comes because time is over
_AGREE_WITHIN_S: Final = 5.0
_QUIET_S: Final = 0.03  # both have decided, and nobody says anything for this long: whoever is silent waits


class WaitHistory:
    """Fetches with different limits, a few at a time, and batches of different sizes."""

    def __init__(self, ours: GroupSide, kafkas: GroupSide, seed: int) -> None:
        self._sides = (ours, kafkas)
        self._random = Random(seed)
        self._timestamp_ms = int(time.time() * 1000)
        self._ends = {(topic, index): 0 for topic, count in _TOPICS.items() for index in range(count)}
        self._waiting: dict[int, tuple[int, str]] = {}  # connection -> version, what was asked

    def run(self, steps: int) -> Iterator[str]:
        """Every difference; after the first, the later ones follow from it."""
        for side in self._sides:
            self._prepare(side)
        for _ in range(steps):
            for _ in range(self._random.choice((0, 1, 1, 2))):
                yield from self._fetch()
            yield from self._produce()

    @staticmethod
    def _prepare(side: GroupSide) -> None:
        side.clear()
        topics = [CreatableTopic(name, count, 1) for name, count in _TOPICS.items()]
        side.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics))
        side.settle()
        wait_until(lambda: {topic.name for topic in side.learn().topics} >= set(_TOPICS), "20s", every="2ms")

    def _fetch(self) -> Iterator[str]:
        random = self._random
        free = [connection for connection in _CONNECTIONS if connection not in self._waiting]
        if not free:
            return
        connection, version = random.choice(free), random.choice((4, 5, 7, 10, 11, 12))
        topics: dict[str, list[FetchPartition]] = {}
        for topic, index in random.sample(list(self._ends), random.choice((1, 1, 2, 3))):
            offset = max(0, self._ends[topic, index] - random.choice((0, 0, 0, 1)))
            limit_bytes = random.choice((0, 1, 200, 1 << 20))
            wanted = FetchPartition(index, fetch_offset=offset, partition_max_bytes=limit_bytes)
            topics.setdefault(topic, []).append(wanted)
        request = FetchRequest(
            max_wait_ms=_LONG_MS,
            min_bytes=random.choice((1, 1, 100, 200, 300, 500, 1000, 3000)),
            max_bytes=random.choice((1, 500, 1 << 20)),
            isolation_level=random.choice((0, 1)),
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=wanted) for topic, wanted in topics.items()],
        )
        self._waiting[connection] = (version, str(request))
        for side in self._sides:
            side.post(side.frame(ApiKey.FETCH, version, request), connection)
        yield from self._compare("a fetch")

    def _produce(self) -> Iterator[str]:
        random = self._random
        topic, index = random.choice(list(self._ends))
        count, value = random.choice((1, 1, 2, 5)), bytes(random.choice((0, 10, 100, 300)))
        batch = encode_batch([Record(n, self._timestamp_ms, None, value, ()) for n in range(count)])
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index, batch)])
        # With acks of 1 klamm answers before the flush, and a fetch of the next step may come before it too.
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
        answers = [Plain(side).of(side.ask(ApiKey.PRODUCE, 9, request)) for side in self._sides]
        yield from (f"Produce: {each}" for each in differences(*answers))
        self._ends[topic, index] += count
        yield from self._compare(f"{len(batch)} bytes in {topic}-{index}")

    def _compare(self, after: str) -> Iterator[str]:
        """Compare what is answered, once both sides agree on what that is and say nothing more."""
        ours, kafkas = self._answers()
        for connection in sorted({*ours, *kafkas}):
            version, asked = self._waiting.pop(connection)
            if connection not in ours or connection not in kafkas:
                silent = "klamm" if connection in kafkas else "Kafka"
                yield f"after {after}: {silent} does not answer\n{asked}"
                continue
            answers = [
                Plain(side).of(side.decoded(ApiKey.FETCH, version, each[connection]))
                for side, each in zip(self._sides, (ours, kafkas), strict=True)
            ]
            yield from (f"after {after}: {each}\n{asked}" for each in differences(*answers))

    def _answers(self) -> tuple[dict[int, Any], dict[int, Any]]:
        answers: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        deadline = time.monotonic() + _AGREE_WITHIN_S
        while time.monotonic() < deadline:
            missing = [set(self._waiting) - set(each) for each in answers]
            if not any(missing):
                break
            found = collect(self._sides, missing, _QUIET_S)
            for each, new in zip(answers, found, strict=True):
                each.update(new)
            if missing[0] == missing[1] and not any(found):
                break
        return answers
