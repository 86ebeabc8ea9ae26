"""Puts dead letters back into the topics that they came from, in one transaction, each of them once.

What was put back is committed as offsets of the group `JOB.redrive`, in the same transaction. With a filter
some letters stay behind others: the metadata of the offset has the ranges above it that were put back.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from klamm.client.admin.admin import Admin
from klamm.client.committed import Committed
from klamm.client.config import ADMIN, CONSUMER, PRODUCER
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.records import ConsumerRecord
from klamm.client.producer.producer import Producer
from klamm.config import ConfigError
from klamm.errors import KlammError, KlammTimeoutError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import for_client, sink_options, source_options
from klamm.spark.pipe import dead_letters as names
from klamm.spark.pipe.ends import reading, writing
from klamm.spark.pipe.job import Job
from klamm.spark.write.steps import Hook, nowhere

GROUP_SUFFIX: Final = ".redrive"
MARK: Final = "r1;"  # then ranges of offsets that were put back
MAX_METADATA: Final = 4096  # of an offset, by default
POLL_S: Final = 0.5
_TRANSACTION_MS: Final = 900_000

Letter = ConsumerRecord[Any, Any]
Ranges = list[tuple[int, int]]  # first and last


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters to put back; what is None is not asked for."""

    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    error_class: str | None = None
    message: str | None = None  # a part of it
    limit: int | None = None

    def fits(self, letter: Mapping[str, str]) -> bool:
        offset = _number(letter.get(names.OFFSET), -1)
        return (
            self.topic in (None, letter.get(names.TOPIC))
            and (self.partition is None or letter.get(names.PARTITION) == str(self.partition))
            and (self.first_offset is None or offset >= self.first_offset)
            and (self.last_offset is None or 0 <= offset <= self.last_offset)
            and self.error_class in (None, letter.get(names.CLASS))
            and (self.message is None or self.message in letter.get(names.MESSAGE, ""))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """What was put back, or would be."""

    count: int
    by_topic: Mapping[str, int]
    by_message: Mapping[str, int]
    left_count: int  # letters that stay


def redrive(
    job: Job, wanted: LetterFilter, *, to: str | None, dry_run: bool, timeout_s: float, at: Hook = nowhere
) -> Redrive:
    """Put letters back; `at` is called at each step. Raises KlammError, ConfigError: nothing was put back."""
    if job.dead_letters is None:
        raise ConfigError(
            "source.dead_letters", "the job has no source.dead_letters: there is nothing to redrive"
        )
    source, sink = source_options(reading(job), is_streaming=True), sink_options(writing(job))
    if source.client["bootstrap.servers"] != sink.client["bootstrap.servers"]:
        raise ConfigError(
            "source.options",
            "dead letters are on another cluster than the job's topics: one transaction has one",
        )
    client = {name: value for name, value in sink.client.items() if name != "transactional.id"}
    limits = {"default.api.timeout.ms": str(round(timeout_s * 1000))}
    group = job.name + GROUP_SUFFIX
    with Admin({**for_client(client, ADMIN), **limits}) as admin:
        if dry_run:
            return _chosen(job, wanted, to, client, admin, group, timeout_s).result
        settings = {
            **for_client(client, PRODUCER),
            "transactional.id": group,
            "transaction.timeout.ms": str(_TRANSACTION_MS),
            "max.block.ms": str(round(timeout_s * 1000)),
        }
        with Producer(settings) as producer:
            # A redrive that is still at work is fenced here; after this, what it has put back is known.
            producer.init_transactions()
            at("begun")
            found = _chosen(job, wanted, to, client, admin, group, timeout_s)
            if found.letters:
                with producer.transaction():
                    for letter in found.letters:
                        producer.send(*_put_back(letter, found.counts, job, to))
                    producer.flush()
                    at("sent")
                    producer.send_offsets_to_transaction(found.offsets, group)
                    at("before the commit")
                at("committed")
        return found.result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    letters: Sequence[Letter]
    offsets: Mapping[TopicPartition, Committed]
    counts: Mapping[str, int]  # partitions of the topics that letters go to
    result: Redrive


def _chosen(
    job: Job,
    wanted: LetterFilter,
    to: str | None,
    client: Mapping[str, str],
    admin: Admin,
    group: str,
    timeout_s: float,
) -> _Chosen:
    assert job.dead_letters is not None
    described = admin.describe_topics([job.dead_letters]).unwrap()[job.dead_letters]
    partitions = [TopicPartition(job.dead_letters, item.partition) for item in described.partitions]
    firsts = {
        key: item.offset for key, item in admin.list_offsets(dict.fromkeys(partitions, -2)).unwrap().items()
    }
    listed = admin.list_offsets(dict.fromkeys(partitions, -1), read_committed=True).unwrap()
    ends = {key: item.offset for key, item in listed.items()}
    committed = admin.list_group_offsets(group, partitions, require_stable=True)
    letters: list[Letter] = []
    offsets: dict[TopicPartition, Committed] = {}
    left = 0
    for partition in partitions:
        before = committed.get(partition)
        done = _ranges_of(before.metadata) if before is not None else []
        start = max(firsts[partition], before.offset if before is not None else 0)
        seen = list(read_letters(client, partition, start, ends[partition], timeout_s=timeout_s))
        room = None if wanted.limit is None else wanted.limit - len(letters)
        mine = [item for item in seen if not _within(item.offset, done) and wanted.fits(_told(item))][:room]
        taken = {item.offset for item in mine} | {item.offset for item in seen if _within(item.offset, done)}
        left += len(seen) - len(taken)
        if mine:
            offsets[partition] = _progress(partition, [item.offset for item in seen], taken, ends[partition])
        letters += mine
    topics = [_target(item, job, to) for item in letters]
    counts = {
        name: len(item.partitions)
        for name, item in admin.describe_topics(sorted(set(topics))).unwrap().items()
    }
    messages = Counter(_told(item).get(names.MESSAGE, "no message") for item in letters)
    return _Chosen(
        letters=letters,
        offsets=offsets,
        counts=counts,
        result=Redrive(count=len(letters), by_topic=Counter(topics), by_message=messages, left_count=left),
    )


def read_letters(
    client: Mapping[str, str], partition: TopicPartition, start: int, end: int, *, timeout_s: float
) -> Iterator[Letter]:
    """The letters of a partition that are committed, from `start` to before `end`.

    Raises KlammTimeoutError when nothing comes for so long.
    """
    if start >= end:
        return
    settings = {
        **for_client(client, CONSUMER),
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
    }
    with Consumer(settings) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, start)
        reached, until = start, time.monotonic() + timeout_s
        while reached < end:
            for record in consumer.poll(POLL_S):
                if record.offset < end:
                    yield record
            position = consumer.position(partition)
            if position > reached:
                reached, until = position, time.monotonic() + timeout_s
            elif time.monotonic() > until:
                raise KlammTimeoutError(
                    f"reading dead letters of {partition} from offset {reached} on: nothing came for "
                    f"{timeout_s:g} s"
                )


def _told(letter: Letter) -> dict[str, str]:
    """The headers that klamm has added."""
    return {
        name: (value or b"").decode("utf-8", "replace")
        for name, value in letter.headers
        if name.startswith(names.PREFIX)
    }


def _target(letter: Letter, job: Job, to: str | None) -> str:
    found = to or _told(letter).get(names.TOPIC) or (job.topics[0] if len(job.topics) == 1 else None)
    if found is None:
        raise KlammError(
            f"the dead letter {letter.topic}-{letter.partition} offset {letter.offset} does not tell its "
            "topic: name it with --to"
        )
    return found


def _put_back(
    letter: Letter, counts: Mapping[str, int], job: Job, to: str | None
) -> tuple[str, Any, Any, list[tuple[str, bytes | None]], int | None]:
    """Topic, value, key, headers and partition of the record."""
    told, topic = _told(letter), _target(letter, job, to)
    number = _number(told.get(names.PARTITION), -1)
    is_there = topic == told.get(names.TOPIC) and 0 <= number < counts[topic]
    kept = [(name, value) for name, value in letter.headers if not name.startswith(names.PREFIX)]
    times = _number(told.get(names.REDRIVES), 0) + 1
    headers = [*kept, (names.REDRIVES, str(times).encode())]
    return topic, letter.value, letter.key, headers, number if is_there else None


def _number(text: str | None, otherwise: int) -> int:
    """The number in a header, which anybody may have written."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else otherwise


def _progress(partition: TopicPartition, seen: list[int], taken: set[int], end: int) -> Committed:
    """The first offset that stays, and what was taken above it."""
    first_left = next((offset for offset in seen if offset not in taken), end)
    above: Ranges = []
    is_open = False
    for offset in seen:
        if offset > first_left and offset in taken:
            above = [*above[:-1], (above[-1][0], offset)] if is_open else [*above, (offset, offset)]
        is_open = offset > first_left and offset in taken
    metadata = MARK + ",".join(f"{first}-{last}" for first, last in above) if above else ""
    if len(metadata) > MAX_METADATA:
        raise KlammError(
            f"the letters that fit lie in {len(above)} pieces of {partition}, more than an offset can note: "
            "put fewer of them back at once, or all"
        )
    return Committed(first_left, -1, metadata)


def _ranges_of(metadata: str) -> Ranges:
    if not metadata.startswith(MARK):
        return []
    pairs = (item.partition("-") for item in metadata.removeprefix(MARK).split(","))
    return [(int(first), int(last)) for first, _, last in pairs]


def _within(offset: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= offset <= last for first, last in ranges)
