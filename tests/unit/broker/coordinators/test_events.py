"""Events are written, or kept until they can be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from internals.jar import Jar
from klamm.broker.cluster.topic_names import EVENTS_TOPIC
from klamm.broker.coordinators import events
from klamm.broker.coordinators.events import PER_BATCH, EventWriter
from klamm.coordinator.group.events import GroupRemoved
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import iter_headers
from klamm.records.record import decode_records
from klamm.storage.log import LogError, PartitionLog


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar(seed=1)
    told(jar.services.events, 1)
    jar.pass_ms(1_000)
    assert written(jar) == [0]
    yield jar
    jar.close()


def told(writer: EventWriter, count: int) -> None:
    for number in range(count):
        writer.tell(GroupRemoved(group_id="g", timestamp_ms=0, cause="a test", generation=number))


def log_of(jar: Jar) -> PartitionLog:
    partition = jar.services.partitions.get(EVENTS_TOPIC, 0)
    assert partition is not None
    return partition.log


def written(jar: Jar) -> list[int]:
    """The generation of each event in the topic, which numbers them here."""
    log = log_of(jar)
    raw = log.read(0, until_offset=log.log_end_offset, max_bytes=1 << 24, at_least_one=True)
    return [
        json.loads(record.value or b"")["generation"]
        for position, _ in iter_headers(raw)
        for record in decode_records(raw, position)
    ]


def refusing(monkeypatch: pytest.MonkeyPatch, jar: Jar, error_code: ErrorCode, over_bytes: int = 0) -> None:
    log = log_of(jar)
    append = log.append

    def refuse(batch: bytes, **arguments: Any) -> Any:
        if len(batch) > over_bytes:
            raise LogError(error_code, "a test")
        return append(batch, **arguments)

    monkeypatch.setattr(type(log), "append", lambda _log, batch, **arguments: refuse(batch, **arguments))


def test_events_whose_append_failed_are_written_later_and_in_order(
    jar: Jar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        refusing(patch, jar, ErrorCode.kafka_storage_error)
        told(jar.services.events, PER_BATCH + 10)
        jar.pass_ms(5_000)
    assert written(jar) == [0]
    assert sum("they are kept and written later" in message for message in caplog.messages) == 1
    jar.pass_ms(2_000)
    assert written(jar) == [0, *range(PER_BATCH + 10)]


def test_events_that_are_too_large_together_go_apart_and_one_that_is_too_large_is_named(
    jar: Jar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusing(monkeypatch, jar, ErrorCode.message_too_large, over_bytes=2_000)
    told(jar.services.events, 20)
    long = GroupRemoved(group_id="long", timestamp_ms=0, cause="c" * 5_000, generation=20)
    jar.services.events.tell(long)
    told(jar.services.events, 5)
    jar.pass_ms(1_000)
    assert written(jar) == [0, *range(20), *range(5)]
    assert "an event of long is too large for __klamm_events: a test" in caplog.messages


def test_events_that_had_to_be_dropped_are_counted(
    jar: Jar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        refusing(patch, jar, ErrorCode.kafka_storage_error)
        told(jar.services.events, events.MAX_WAITING)
        jar.pass_ms(1_000)
        told(jar.services.events, 7)
    jar.pass_ms(2_000)
    assert written(jar) == [0, *range(7, events.MAX_WAITING), *range(7)]
    assert "7 events were dropped while __klamm_events could not be written" in caplog.messages
