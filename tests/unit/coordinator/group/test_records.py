"""`__consumer_offsets` byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.coordinator.group.records import (
    UnknownGroupKey,
    decode_group,
    decode_offset,
    decode_record,
    encode_group,
    encode_offset,
    encode_record,
    encode_records,
    group_key,
    offset_key,
)
from klamm.coordinator.group.remembered import (
    GroupForgotten,
    GroupRecord,
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    RegisteredMember,
)
from klamm.protocol.errors import DecodeError
from klamm.protocol.messages.offset_commit import OffsetCommitRequestPartition
from klamm.protocol.types import ZERO_ID
from klamm.records.batch import parse_header
from klamm.records.core import TopicCommits
from klamm.records.layout import CommitBlock, OffsetCommitValue
from unit.coordinator.asking import assignment, subscription

TOPIC_ID = bytes(range(16))
SUB = "000000000001000174ffffffff"
ASG = "0000000000010001740000000100000000ffffffff"
GRP = "0008636f6e73756d6572 00000003 000572616e6765 0003632d31"
CLI = "000163 000a2f3132372e302e302e31"
TS = "000001664a32b222"

FULL = OffsetCommitValue(2130, 7, "m", 1538843128354)
NO_EPOCH = FULL._replace(leader_epoch=-1)
OFFSETS = [
    ("0000 0000000000000852 00016d 000001664a32b222", NO_EPOCH),
    (
        "0001 0000000000000852 00016d 000001664a32b222 000001666e3f3622",
        NO_EPOCH._replace(expire_timestamp_ms=1539447928354),
    ),
    ("0002 0000000000000852 00016d 000001664a32b222", NO_EPOCH),
    ("0003 0000000000000852 00000007 00016d 000001664a32b222", FULL),
    ("0004 0000000000000852 00000007 026d 000001664a32b222 00", FULL),
    (
        "0004 0000000000000852 00000007 026d 000001664a32b222 01 00 10" + TOPIC_ID.hex(),
        FULL._replace(topic_id=TOPIC_ID),
    ),
]

MEMBER = RegisteredMember(
    "c-1", None, "c", "/127.0.0.1", 300_000, 10_000, subscription("t"), assignment(("t", 0))
)
GROUP = GroupRegistered("g1", "consumer", 3, "range", "c-1", 1538843128354, (MEMBER,))
OLD = MEMBER._replace(rebalance_timeout_ms=10_000)
GROUPS = [
    (
        f"0000 {GRP} 00000001 0003632d31 {CLI} 00002710 0000000d {SUB} 00000015 {ASG}",
        GROUP._replace(state_timestamp_ms=-1, members=(OLD,)),
    ),
    (
        f"0001 {GRP} 00000001 0003632d31 {CLI} 000493e0 00002710 0000000d {SUB} 00000015 {ASG}",
        GROUP._replace(state_timestamp_ms=-1),
    ),
    (f"0002 {GRP} {TS} 00000001 0003632d31 {CLI} 000493e0 00002710 0000000d {SUB} 00000015 {ASG}", GROUP),
    (
        f"0003 {GRP} {TS} 00000001 0003632d31 ffff {CLI} 000493e0 00002710 0000000d {SUB} 00000015 {ASG}",
        GROUP,
    ),
    (
        f"0004 09636f6e73756d6572 00000003 0672616e6765 04632d31 {TS} 02 04632d31 00"
        f"0263 0b2f3132372e302e302e31 000493e0 00002710 0e {SUB} 16 {ASG} 00 00",
        GROUP,
    ),
]


@pytest.mark.parametrize(("text", "expected"), OFFSETS, ids=range(len(OFFSETS)))
def test_an_offset_of_any_version_is_read(text: str, expected: OffsetCommitValue) -> None:
    assert decode_offset(bytes.fromhex(text)) == expected


@pytest.mark.parametrize("number", [1, 4, 5])
def test_an_offset_is_written_as_kafka_writes_it(number: int) -> None:
    text, committed = OFFSETS[number]
    assert encode_offset(committed) == bytes.fromhex(text)


@pytest.mark.parametrize(("text", "expected"), GROUPS, ids=range(len(GROUPS)))
def test_a_group_of_any_version_is_read(text: str, expected: GroupRegistered) -> None:
    assert decode_group("g1", bytes.fromhex(text)) == expected


def test_a_group_is_written_in_version_three() -> None:
    assert encode_group(GROUP) == bytes.fromhex(GROUPS[3][0])
    empty = GroupRegistered("g1", "consumer", 4, None, None, 1538843128354)
    text = f"0003 0008636f6e73756d6572 00000004 ffff ffff {TS} 00000000"
    assert encode_group(empty) == bytes.fromhex(text)
    assert decode_group("g1", bytes.fromhex(text)) == empty


def test_keys_tell_the_kind_of_record() -> None:
    old = bytes.fromhex("0000 00026731 000174 0000001e")
    new = bytes.fromhex("0001 00026731 000174 0000001e")
    group = bytes.fromhex("0002 00026731")
    assert (offset_key("g1", "t", 30), group_key("g1")) == (new, group)
    value = encode_offset(FULL)
    for key in (old, new):
        assert decode_record(key, value) == OffsetCommitted("g1", "t", 30, FULL)
        assert decode_record(key, None) == OffsetForgotten("g1", "t", 30)
    assert decode_record(group, encode_group(GROUP)) == GROUP
    assert decode_record(group, None) == GroupForgotten("g1")


@pytest.mark.parametrize("version", [9, 17, -1])
def test_a_key_of_an_unknown_version_is_not_ours(version: int) -> None:
    key = version.to_bytes(2, "big", signed=True) + b"anything"
    assert decode_record(key, b"anything") == UnknownGroupKey(version)


@pytest.mark.parametrize("version", [5, -1])
def test_a_value_of_an_unknown_version_is_an_error(version: int) -> None:
    head = version.to_bytes(2, "big", signed=True)
    with pytest.raises(DecodeError, match=f"version {version}"):
        decode_offset(head + encode_offset(FULL)[2:])
    with pytest.raises(DecodeError, match=f"version {version}"):
        decode_group("g1", head + encode_group(GROUP)[2:])


def test_a_record_without_a_key_is_an_error() -> None:
    with pytest.raises(DecodeError, match="without a key"):
        decode_record(None, b"")


@given(st.binary(max_size=60), st.binary(max_size=200) | st.none())
def test_bytes_that_make_no_sense_raise_nothing_but_a_decode_error(key: bytes, value: bytes | None) -> None:
    try:
        record = decode_record(key, value)
    except DecodeError:
        return
    if not isinstance(record, UnknownGroupKey):  # what can be read can be written, and says the same then
        assert decode_record(*encode_record(record)) == record


@given(st.data())
def test_a_cut_or_changed_record_raises_nothing_but_a_decode_error(data: st.DataObject) -> None:
    samples: list[GroupRecord] = [GROUP, OffsetCommitted("g1", "t", 30, FULL)]
    key, value = encode_record(data.draw(st.sampled_from(samples)))
    assert value is not None
    changed = bytearray(value[: data.draw(st.integers(0, len(value)))])
    if changed:
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place] = data.draw(st.integers(0, 255))
    try:
        decode_record(key, bytes(changed))
    except DecodeError:
        return


names = st.text(max_size=20).filter(lambda text: text.isprintable())
int32s, int64s = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


@given(
    st.builds(
        OffsetCommitted,
        names,
        names,
        int32s,
        st.builds(
            OffsetCommitValue,
            int64s,
            int32s,
            st.text(st.characters(codec="utf-8"), max_size=300),
            int64s,
            st.just(-1),
            st.just(ZERO_ID) | st.binary(min_size=16, max_size=16),
        ),
    )
)
def test_what_is_written_of_an_offset_is_read_back(record: OffsetCommitted) -> None:
    assert decode_record(*encode_record(record)) == record


@pytest.mark.parametrize(
    "record",
    [
        CommitBlock("g", "t", TOPIC_ID, TopicCommits([OffsetCommitRequestPartition(0, 5)]), 1, -1),
        OffsetCommitted("g", "t", 0, FULL),
        OffsetForgotten("g", "t", 0),
        GroupForgotten("g"),
    ],
)
def test_a_batch_without_a_producer_has_the_base_sequence_zero(record: GroupRecord) -> None:
    # As on Apache Kafka 4.3.1, where batches of no other topic have one without a producer id.
    header = parse_header(encode_records([record], 1))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, 0)
