"""`__transaction_state` as bytes: Kafka's formats, checked on Apache Kafka 4.3.1."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.coordinator.runtime.log import AppendRefusedError
from klamm.coordinator.transaction.records import (
    UnknownTransactionKey,
    decode_record,
    decode_value,
    encode_key,
    encode_record,
    encode_records,
    encode_value,
)
from klamm.coordinator.transaction.remembered import (
    NO_PARTITIONS,
    TransactionForgotten,
    TransactionStored,
)
from klamm.coordinator.transaction.states import COMPLETIONS, IDLE, LABELS, NEXT_STATES, PREPARED, State
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition

NOW_MS = 1_700_000_000_000
OUT = frozenset((TopicPartition("out", 0), TopicPartition("out", 2)))

ONGOING = TransactionStored("txn-A", 4001, 3, 60_000, State.ONGOING, OUT, NOW_MS + 3, NOW_MS)
EMPTY = TransactionStored("txn-A", 4001, 0, 60_000, State.EMPTY, NO_PARTITIONS, NOW_MS)
PREPARED_2 = TransactionStored(
    "txn-A",
    4001,
    4,
    60_000,
    State.PREPARE_COMMIT,
    OUT,
    NOW_MS + 8,
    NOW_MS,
    previous_producer_id=4001,
    client_version=2,
)

VECTORS = [
    (
        ONGOING,
        False,
        "0000 0000000000000fa1 0003 0000ea60 01 00000001 0003 6f7574 00000002 00000000 00000002"
        "0000018bcfe56803 0000018bcfe56800",
    ),
    (
        EMPTY,
        False,
        "0000 0000000000000fa1 0000 0000ea60 00 ffffffff 0000018bcfe56800 ffffffffffffffff",
    ),
    (
        PREPARED_2,
        True,
        "0001 0000000000000fa1 0004 0000ea60 02 02 04 6f7574 03 00000000 00000002 00"
        "0000018bcfe56808 0000018bcfe56800 02 00 08 0000000000000fa1 02 02 0002",
    ),
]


@pytest.mark.parametrize(("stored", "is_flexible", "expected"), VECTORS)
def test_values_are_kafkas_bytes(stored: TransactionStored, is_flexible: bool, expected: str) -> None:
    raw = bytes.fromhex(expected)
    assert encode_value(stored, is_flexible=is_flexible) == raw
    assert decode_value("txn-A", raw) == stored


def test_keys_are_kafkas_bytes() -> None:
    assert encode_key("txn-A") == bytes.fromhex("0000 0005 74786e2d41")


def test_a_tombstone_is_a_key_without_a_value() -> None:
    key, value = encode_record(TransactionForgotten("txn-A"), is_flexible=True)
    assert value is None
    assert decode_record(key, value) == TransactionForgotten("txn-A")


def test_an_empty_transaction_has_no_array_and_a_complete_one_an_empty_array() -> None:
    complete = EMPTY._replace(state=State.COMPLETE_COMMIT)
    assert encode_value(EMPTY, is_flexible=True)[17:18] == b"\x00"
    assert encode_value(complete, is_flexible=True)[17:18] == b"\x01"
    assert encode_value(complete, is_flexible=False)[17:21] == bytes(4)


epochs = st.integers(-1, 32_767)
ids = st.integers(-1, 2**63 - 1)
stored_values = st.builds(
    TransactionStored,
    st.text(max_size=20),
    ids,
    epochs,
    st.integers(0, 2**31 - 1),
    st.sampled_from(sorted(set(State) - {State.EMPTY})),
    st.frozensets(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 300)), max_size=9),
    st.integers(-1, 2**62),
    st.integers(-1, 2**62),
    ids,
    ids,
    st.integers(0, 2),
    epochs,
)


@given(stored_values)
def test_what_is_written_is_read(stored: TransactionStored) -> None:
    key, value = encode_record(stored, is_flexible=True)
    assert decode_record(key, value) == stored
    key, value = encode_record(stored, is_flexible=False)
    assert decode_record(key, value) == stored._replace(
        previous_producer_id=-1, next_producer_id=-1, client_version=0, next_producer_epoch=-1
    )


@given(st.binary(max_size=80))
def test_bytes_of_no_sense_are_an_error_and_nothing_else(raw: bytes) -> None:
    for key, value in ((raw, raw), (encode_key("t"), raw), (encode_key("t"), b"\x00\x01" + raw)):
        with suppress(DecodeError):
            record = decode_record(key, value)
            if not isinstance(record, UnknownTransactionKey):
                assert decode_record(*encode_record(record, is_flexible=True)) == record


def test_keys_of_other_versions_are_unknown() -> None:
    assert decode_record(b"\x00\x07abc", b"") == UnknownTransactionKey(7)


def test_values_of_newer_versions_and_unknown_states_are_errors() -> None:
    newer = b"\x00\x02" + encode_value(ONGOING, is_flexible=True)[2:]
    with pytest.raises(DecodeError, match="version 2"):
        decode_value("txn-A", newer)
    raw = bytearray(encode_value(ONGOING, is_flexible=True))
    raw[16] = 9
    with pytest.raises(DecodeError, match="unknown state 9"):
        decode_value("txn-A", bytes(raw))


def test_an_id_that_is_longer_than_the_format_allows_is_refused() -> None:
    longest = EMPTY._replace(transactional_id="x" * 32_767)
    assert encode_records([longest], NOW_MS, is_flexible=True)
    with pytest.raises(AppendRefusedError):
        encode_records([EMPTY._replace(transactional_id="x" * 32_768)], NOW_MS, is_flexible=True)


def test_every_state_has_its_transitions_and_its_name() -> None:
    assert set(NEXT_STATES) == set(LABELS) == set(State)
    assert IDLE | PREPARED | {State.ONGOING} == set(State)
    for prepared, complete in COMPLETIONS.items():
        assert NEXT_STATES[prepared] == {complete}


def test_a_transition_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(AssertionError):
        EMPTY.moved(State.PREPARE_COMMIT, NOW_MS)
