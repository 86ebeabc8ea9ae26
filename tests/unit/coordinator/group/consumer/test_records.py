"""The bytes of the consumer protocol's records, and what compaction and reloading make of them."""

from __future__ import annotations

from random import Random

import pytest

from klamm.assignors.base import PartitionView
from klamm.coordinator.group.consumer.records import decode_consumer_record, encode_consumer_record
from klamm.coordinator.group.consumer.remembered import (
    ClassicPart,
    ConsumerCurrent,
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerRecord,
    ConsumerRegex,
    ConsumerTarget,
    ConsumerTargetEpoch,
    ConsumerTopicMetadata,
    CurrentValue,
    EpochValue,
    MemberValue,
    ReconciliationState,
    RegexValue,
    TargetEpochValue,
)
from klamm.coordinator.group.consumer.topics_hash import topic_hash, topics_hash
from klamm.coordinator.group.records import UnknownGroupKey, decode_record
from klamm.coordinator.group.topics import KnownTopic
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.primitives import Reader
from klamm.testing.rebalances.coordinator import ScriptedTopics
from unit.coordinator.asking import subscription
from unit.coordinator.group.consumer.driver import GroupWorld, pairs

UID = bytes.fromhex("11111111111111112222222222222222")
MEMBER = MemberValue(None, None, "c", "/127.0.0.1", ("t",), "", 300_000, "uniform")
SUB = "00000000000100017400000000"

EXAMPLES: list[tuple[ConsumerRecord, str, str | None]] = [
    (
        ConsumerGroupEpoch("g1", EpochValue(2, -2670934699273400591)),
        "0003 00026731",
        "0000 00000002 01 00 08 daeeef0acf8b4ef1",
    ),
    (
        ConsumerMember("g1", "m1", MEMBER),
        "0005 00026731 00026d31",
        "0000 00 00 0263 0b2f3132372e302e302e31 02 0274 01 000493e0 08756e69666f726d 00",
    ),
    (ConsumerTargetEpoch("g1", TargetEpochValue(2)), "0006 00026731", "0000 00000002 00"),
    (
        ConsumerTarget("g1", "m1", {UID: (0, 1, 2)}),
        "0007 00026731 00026d31",
        f"0000 02 {UID.hex()} 04 000000000000000100000002 00 00",
    ),
    (ConsumerTarget("g1", "m1", {}), "0007 00026731 00026d31", "0000 01 00"),
    (
        ConsumerCurrent("g1", "m1", CurrentValue(2, 1, 0, {UID: {0: 1, 1: 1, 2: 2}})),
        "0008 00026731 00026d31",
        f"0000 00000002 00000001 00 02 {UID.hex()} 04 000000000000000100000002 01 00 0d "
        "04 000000010000000100000002 01 00",
    ),
    (
        ConsumerRegex("g1", "t.*", RegexValue(("t", "t2"), 77, 0x1664A32B222)),
        "0010 00026731 0003742e2a",
        "0000 03 0274 037432 000000000000004d 000001664a32b222 00",
    ),
    (ConsumerMember("g1", "m1", None), "0005 00026731 00026d31", None),
    (ConsumerTopicMetadata("g1"), "0004 00026731", None),
]


@pytest.mark.parametrize(("record", "key", "value"), EXAMPLES)
def test_records_have_kafkas_bytes(record: ConsumerRecord, key: str, value: str | None) -> None:
    # scenario 79 of consumer groups
    encoded = encode_consumer_record(record)
    assert encoded == (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert decode_record(*encoded) == record


def test_a_member_of_the_classic_protocol_has_its_offer_in_a_tag() -> None:
    part = ClassicPart(10_000, (("range", subscription("t")),))
    _, value = encode_consumer_record(ConsumerMember("g1", "m1", MEMBER._replace(classic=part)))
    assert value is not None
    metadata = subscription("t").hex()
    size = len(metadata) // 2
    tag = f"01 00002710 02 0672616e6765 {size + 1:02x} {metadata} 00 00"
    length = len(bytes.fromhex(tag))
    assert value.endswith(bytes.fromhex(f"01 00 {length:02x} {tag}"))
    assert decode_consumer_record(5, Reader(b"\0\2g1\0\2m1"), value) == ConsumerMember(
        "g1", "m1", MEMBER._replace(classic=part)
    )


def test_assignments_of_older_brokers_have_the_members_epoch() -> None:
    value = bytes.fromhex(
        f"0000 00000001 00000001 01 02 {UID.hex()} 03 0000000000000001 00 02 {UID.hex()} 02 00000002 00 00"
    )
    record = decode_consumer_record(8, Reader(b"\0\2g1\0\2m1"), value)
    assert record == ConsumerCurrent(
        "g1", "m1", CurrentValue(1, 1, ReconciliationState.UNREVOKED, {UID: {0: 1, 1: 1}}, {UID: {2: 1}})
    )


def test_records_of_streams_groups_are_skipped() -> None:
    # scenario 79 of consumer groups
    assert decode_record(b"\0\x11\0\2g1", b"") == UnknownGroupKey(17)


@pytest.mark.parametrize("kind", [3, 5, 6, 7, 8, 16])
def test_damaged_records_are_refused(kind: int) -> None:
    example = next(each for each in EXAMPLES if int(each[1][:4], 16) == kind and each[2] is not None)
    key, value = bytes.fromhex(example[1]), bytes.fromhex(example[2] or "")
    for cut in range(len(value)):
        with pytest.raises(DecodeError):
            decode_record(key, value[:cut])
    with pytest.raises(DecodeError, match="value of version 1"):
        decode_record(key, b"\0\1" + value[2:])


def test_the_hash_of_topics_is_kafkas() -> None:
    known = KnownTopic("foo", bytes.fromhex("0123456789abcdeffedcba9876543210"), 2)
    racks = [PartitionView(frozenset({"rack1", "rack0"})), PartitionView(frozenset({"rack2", "rack1"}))]
    assert topic_hash(known, racks) == 4231092367357902416
    topics = ScriptedTopics({})
    topics.known["t"] = KnownTopic("t", UID, 3)
    assert topics_hash(topics, ["t", "absent"]) == -2670934699273400591
    assert topics_hash(topics, ["absent"]) == 0


# --- the log and the state ----------------------------------------------------------------------------------


def random_traffic(world: GroupWorld, random: Random, steps: int) -> None:
    """Members that join, report, leave and fall silent, and topics that come and grow."""
    for _ in range(steps):
        live = world.state.groups.get("g")
        known = [] if live is None or live.memory.consumer is None else list(live.memory.consumer.current)
        member = random.choice("ABCDE")
        if member not in known:
            if random.random() < 0.5:
                world.beat(
                    member,
                    0,
                    topics=random.choice(["t", "u", "t u", ""]),
                    regex=random.choice([None, None, "t.*"]),
                    instance=member.lower() if member in "AB" else None,
                )
        else:
            current = world.current(member)
            instance = member.lower() if member in "AB" else None
            match random.randrange(10):
                case 0:
                    world.beat(member, -1, instance=instance)
                case 1 if instance:
                    world.beat(member, -2, instance=instance)
                case 2:
                    world.beat(
                        member, current.epoch, topics=random.choice(["t", "u", "t u"]), instance=instance
                    )
                case 3:
                    world.beat(member, 0, instance=instance)
                case 4:
                    world.pass_ms(random.choice([10, 5_000, 30_000]))
                case 5:
                    world.topics.create(f"t{random.randint(1, 3)}", random.randint(1, 4))
                case _ if current.epoch > 0:
                    world.beat(member, current.epoch, owned=current.assigned, instance=instance)
        check(world)


def check(world: GroupWorld) -> None:
    """What must always hold."""
    group = world.state.groups.get("g")
    memory = None if group is None else group.memory.consumer
    if memory is None:
        return
    assert memory.target_epoch <= memory.epoch
    owners: dict[tuple[bytes, int], str] = {}
    for member_id, current in memory.current.items():
        assert member_id in memory.members
        assert current.epoch <= memory.target_epoch
        assert not current.pending or current.state == ReconciliationState.UNREVOKED
        for pair in pairs(current.assigned) | pairs(current.pending):
            assert owners.setdefault(pair, member_id) == member_id, f"{pair} has two owners"
        for partitions in (*current.assigned.values(), *current.pending.values()):
            assert all(epoch <= max(current.epoch, 0) for epoch in partitions.values())
    targets: set[tuple[bytes, int]] = set()
    for member_id, target in memory.targets.items():
        assert member_id in memory.members
        own = {(topic_id, partition) for topic_id, each in target.items() for partition in each}
        assert not own & targets
        targets |= own
    if world.state_of() == "Stable":
        for member_id, current in memory.current.items():
            assert {each: tuple(held) for each, held in current.assigned.items()} == memory.targets.get(
                member_id, {}
            )


@pytest.mark.parametrize("seed", range(40))
def test_the_log_compacted_or_not_loads_to_the_same_state(seed: int) -> None:
    # scenario 80 of consumer groups
    world = GroupWorld()
    random = Random(seed)
    for _ in range(4):
        random_traffic(world, random, 60)
        before = world.state.remembered()
        world.restart()
        assert world.state.remembered() == before
        world.logs[0] = world.log.compacted()
        world.restart()
        assert world.state.remembered() == before


@pytest.mark.parametrize("seed", range(40, 60))
def test_a_group_settles_when_its_members_acknowledge(seed: int) -> None:
    world = GroupWorld()
    random_traffic(world, Random(seed), 150)
    world.beat("Z", 0, topics="t u")
    live = world.members()
    world.pass_ms(1)
    for _ in range(5):
        for member_id in list(live.memory.members):
            current = live.memory.current[member_id]
            world.beat(
                member_id,
                max(current.epoch, 0),
                owned="" if current.epoch < 0 else current.assigned,
                instance=live.memory.members[member_id].instance_id,
                topics=None if current.epoch > 0 else " ".join(live.memory.members[member_id].topics),
            )
    assert world.state_of() == "Stable"


@pytest.mark.parametrize("seed", range(60, 80))
def test_refused_appends_and_failed_flushes_change_nothing(seed: int) -> None:
    world = GroupWorld()
    random = Random(seed)
    random_traffic(world, random, 60)
    for _ in range(20):
        before = world.state.remembered()
        world.log.refuse_with = ErrorCode.kafka_storage_error
        random_traffic(world, random, 5)
        assert world.state.remembered() == before
        world.log.refuse_with = None
        random_traffic(world, random, 5)
        check(world)
