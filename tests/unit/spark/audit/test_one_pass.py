"""One pass over the logs: lag, groups, transactions and causes, as they are at an instant."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from klamm.protocol.types import TopicPartition
from klamm.spark.audit import one_pass
from klamm.spark.audit.schemas import EVENTS
from klamm.spark.audit.standing import KnownEnds
from klamm.spark.decode.tables import TRANSACTION_STATE
from unit.spark.audit.histories import Row
from unit.spark.audit.passes import AS_OF_MS, RETENTION_MS, in_one_pass
from unit.spark.decode.logs import GROUP_KEY, TIME_MS, a_group, log_of
from unit.spark.decode.test_decode import EMPTY_V0, ONGOING_V0, PREPARE_COMMIT_V1, TRANSACTION_KEY


def a_key(group: str, topic: str, partition: int) -> bytes:
    parts = (len(text).to_bytes(2) + text.encode() for text in (group, topic))
    return b"\x00\x01" + b"".join(parts) + partition.to_bytes(4)


def a_commit(offset: int, at_ms: int, metadata: str = "") -> bytes:
    text = len(metadata).to_bytes(2) + metadata.encode()
    return b"\x00\x03" + offset.to_bytes(8) + b"\xff\xff\xff\xff" + text + at_ms.to_bytes(8)


def at(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def only(rows: list[Row], **values: Any) -> Row:
    (found,) = [row for row in rows if values.items() <= row.items()]
    return found


EARLY, LATE = AS_OF_MS - 120_000, AS_OF_MS - 30_000
COMMITS = [
    (a_key("g1", "t", 0), a_commit(10, EARLY)),
    (a_key("g1", "t", 0), a_commit(10, LATE)),  # no progress
    (a_key("g1", "t", 1), a_commit(9, EARLY)),
    (a_key("g1", "u", 0), a_commit(5, EARLY)),  # of a topic that does not exist any more
    (a_key("g2", "t", 0), a_commit(20, LATE)),
    (a_key("x.sink", "t", 0), a_commit(3, LATE, "v1;query")),
]
ENDS = {TopicPartition("t", 0): 15, TopicPartition("t", 1): 9}


def test_lag_is_counted_to_the_ends_of_the_partitions_that_exist() -> None:
    found = in_one_pass(log_of(COMMITS), ends=ENDS)
    lag = found["lag"]
    assert len(lag) == 4, "a sink's decision is no offset of a topic"
    assert only(lag, group_id="g1", topic="t", partition=0) == {
        "group_id": "g1",
        "topic": "t",
        "partition": 0,
        "committed_offset": 10,
        "log_end_offset": 15,
        "lag": 5,
        "commit_age_ms": 30_000,
        "as_of": at(AS_OF_MS),
    }
    assert only(lag, topic="u")["lag"] is None
    assert only(lag, group_id="g2")["lag"] == 0, "a commit beyond the end is no lag"


def test_the_end_of_a_partition_is_asked_for_once() -> None:
    asked: list[list[TopicPartition]] = []

    def ask(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        asked.append(partitions)
        return {key: end for key, end in ENDS.items() if key in partitions}

    known = KnownEnds(ask)
    first, second, missing = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
    assert known([first, missing]) == {first: 15}
    assert known([first, second, missing]) == {first: 15, second: 9}
    assert asked == [[first, missing], [second]]


def test_groups_are_what_their_records_and_offsets_say() -> None:
    found = in_one_pass(log_of(COMMITS, [(GROUP_KEY, a_group(3))]), ends=ENDS)
    groups = found["groups"]
    assert only(groups, group_id="g1") == {
        "group_id": "g1",
        "group_type": "classic",
        "member_count": 1,
        "generation": 5,
        "partition_count": 3,
        "lag": 5,
        "commit_count": 4,
        "last_commit_ts": at(LATE),
        "last_progress_ts": at(EARLY),
        "expires_ts": None,
        "is_stuck": True,
    }
    second = only(groups, group_id="g2")
    assert (second["group_type"], second["member_count"], second["is_stuck"]) == (None, 0, False)
    assert second["expires_ts"] == at(LATE + RETENTION_MS)
    assert {row["group_id"] for row in groups} == {"g1", "g2"}


@pytest.mark.parametrize(
    ("records", "names"),
    [
        ([(GROUP_KEY, a_group(3))], {"g1"}),
        ([(GROUP_KEY, a_group(3)), (GROUP_KEY, None)], set()),
        ([(GROUP_KEY, a_group(3)), (GROUP_KEY, None), COMMITS[0]], {"g1"}),
    ],
)
def test_a_group_that_was_removed_is_one_only_by_its_offsets(
    records: list[tuple[bytes, bytes | None]], names: set[str]
) -> None:
    groups = in_one_pass(log_of(records)).get("groups", [])
    assert {row["group_id"] for row in groups} == names


def test_a_transaction_lasts_from_its_start_to_its_last_state() -> None:
    (span,) = in_one_pass(
        log_of([(TRANSACTION_KEY, EMPTY_V0), (TRANSACTION_KEY, ONGOING_V0)]), source=TRANSACTION_STATE
    )["transaction_spans"]
    start_ms = 0x18BCFE56800
    assert (span["transactional_id"], span["state"], span["is_open"]) == ("txn-A", "Ongoing", True)
    assert (span["partition_count"], span["start_ts"], span["end_ts"]) == (2, at(start_ms), None)
    assert span["duration_ms"] == AS_OF_MS - start_ms
    completed = PREPARE_COMMIT_V1[:16] + b"\x04" + PREPARE_COMMIT_V1[17:]
    found = in_one_pass(
        log_of([(TRANSACTION_KEY, ONGOING_V0), (TRANSACTION_KEY, completed), (TRANSACTION_KEY, None)]),
        source=TRANSACTION_STATE,
    )
    (ended,) = found["transaction_spans"]
    assert (ended["state"], ended["is_open"], ended["duration_ms"]) == ("CompleteCommit", False, 8)
    assert len(found["transactions"]) == 3


EVENT = {
    "type": "rebalance_completed",
    "group_id": "g1",
    "timestamp_ms": TIME_MS,
    "cause": "the topic grew",
    "generation_after": 5,
    "join_phase_ms": 7,
    "count": "many",
}


def test_causes_are_those_of_the_events() -> None:
    events = log_of([(None, json.dumps(EVENT).encode()), (None, b"{"), (None, None), (None, b"[]")])
    log = log_of([(GROUP_KEY, a_group(3))])
    (rebalance,) = in_one_pass(log, events=events)["rebalances"]
    assert (rebalance["cause"], rebalance["is_inferred"], rebalance["duration_ms"]) == (
        "the topic grew",
        False,
        7,
    )
    (inferred,) = in_one_pass(log)["rebalances"]
    assert (inferred["cause"], inferred["is_inferred"]) == ("the first member joined", True)


def test_events_become_rows_and_what_cannot_be_read_is_null() -> None:
    events = log_of([(None, json.dumps(EVENT).encode()), (None, b"{"), (None, None), (None, b"[]")])
    first, *others = in_one_pass(events, source=EVENTS)["events"]
    assert {name: value for name, value in first.items() if value is not None} == {
        name: value for name, value in EVENT.items() if name != "count"
    }
    assert [set(row.values()) for row in others] == [{None}] * 3


def test_many_rebalances_are_explained_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_pass, "MAX_UNEXPLAINED", 2)
    monkeypatch.setattr(one_pass, "BATCH_ROWS", 1)
    keys = [b"\x00\x02\x00\x02g" + bytes([0x30 + number]) for number in range(5)]
    found = in_one_pass(log_of([(key, a_group(3)) for key in keys]))
    assert [row["group_id"] for row in found["rebalances"]] == [f"g{number}" for number in range(5)]
