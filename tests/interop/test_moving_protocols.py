"""Groups of several libraries that change their protocol member by member, on klamm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from interop.groups import Member, Watch, group_on
from interop.own import Own
from interop.processes import KlammProcess
from klamm import TopicPartition

pytestmark = [pytest.mark.groups, pytest.mark.timeout(180)]

PARTITIONS = 6
EACH = 5
QUICK_EPOCHS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KlammProcess]:
    folder = tmp_path_factory.mktemp("klamm")
    with KlammProcess(folder / "data", stderr_path=folder / "klamm.log", settings=QUICK_EPOCHS) as broker:
        yield broker


@pytest.fixture
def cluster(broker: KlammProcess) -> str:
    return broker.bootstrap


class Roll:
    """Members that are replaced one by one, while records are written and read."""

    def __init__(self, own: Own, watch: Watch, topic: str, partitions: Sequence[TopicPartition]) -> None:
        self._own = own
        self._watch = watch
        self._partitions = partitions
        self._group = f"group-of-{topic}"
        self._count = 0
        self.members: list[tuple[str, Member]] = []

    def join(self, name: str, protocol: str) -> None:
        self.members.append((name, self._watch.join(name, protocol=protocol)))
        self._write_and_check()

    def replace_first(self, protocol: str) -> None:
        name, old = self.members.pop(0)
        old.stop()
        self.join(name, protocol)

    def group_type(self) -> str:
        (kind,) = [each.group_type for each in self._own.admin.list_groups() if each.group_id == self._group]
        return kind

    def _write_and_check(self) -> None:
        self._watch.settle([member for _, member in self.members], PARTITIONS, evenly=True)
        self._own.fill(self._partitions, EACH, self._count)
        self._count += EACH
        self._watch.wait_for_records(
            {(number, offset) for number in range(PARTITIONS) for offset in range(self._count)}
        )

    def times_read(self) -> set[int]:
        return set(self._watch.times_read().values())


@pytest.mark.parametrize("names", [("klamm", "confluent", "java"), ("confluent", "klamm", "java")])
def test_a_group_rolls_to_the_consumer_protocol_and_back(
    own: Own, topic: str, tmp_path: Path, names: Sequence[str]
) -> None:
    partitions = own.create_topic(topic, PARTITIONS)
    with group_on(own.bootstrap, topic, tmp_path) as watch:
        roll = Roll(own, watch, topic, partitions)
        for name in names:
            roll.join(name, "classic")
        assert roll.group_type() == "classic"
        for _ in names:
            roll.replace_first("consumer")
            assert roll.group_type() == "consumer"
        for _ in names[1:]:
            roll.replace_first("classic")
            assert roll.group_type() == "consumer"
        roll.replace_first("classic")
        assert roll.group_type() == "classic"
        assert roll.times_read() == {1}  # each member commits what it has read before it leaves
        assert [member.errors for _, member in roll.members] == [[], [], []]
