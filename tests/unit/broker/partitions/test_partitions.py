"""Partitions and those who wait for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from internals.jar import Jar
from klamm.broker.partitions.registry import Partition
from klamm.protocol.errors import ErrorCode
from klamm.storage.log import LogError


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t", partitions=2)
    yield jar
    jar.close()


def partition_of(jar: Jar, index: int = 0) -> Partition:
    partition = jar.services.partitions.get("t", index)
    assert partition is not None
    return partition


def test_a_watcher_is_called_once_a_turn_however_much_changed(jar: Jar) -> None:
    calls: list[str] = []

    def watcher() -> None:
        calls.append("called")

    for index in (0, 1):
        partition_of(jar, index).watch(watcher)
    for _ in range(3):
        partition_of(jar, 0).changed()
        partition_of(jar, 1).changed()
    assert calls == []
    jar.loop.settle()
    assert calls == ["called"]
    partition_of(jar, 0).unwatch(watcher)
    partition_of(jar, 0).changed()
    jar.loop.settle()
    assert calls == ["called"]


def test_a_watcher_that_stumbles_keeps_nobody_asleep(jar: Jar) -> None:
    calls: list[str] = []

    def broken() -> None:
        raise RuntimeError("on purpose")

    partition_of(jar).watch(broken)
    partition_of(jar).watch(lambda: calls.append("called"))
    partition_of(jar).changed()
    jar.loop.settle()
    assert calls == ["called"]


def test_a_partition_that_does_not_serve_says_why(jar: Jar) -> None:
    partition = partition_of(jar)
    partition.fail(ErrorCode.not_leader_or_follower)
    with pytest.raises(LogError) as caught:
        _ = partition.log
    assert caught.value.error_code is ErrorCode.not_leader_or_follower


def test_a_deleted_partition_is_gone_at_once_and_its_name_free(jar: Jar) -> None:
    gone = partition_of(jar)
    jar.services.partitions.delete("t", 0)
    assert gone.error_code is ErrorCode.unknown_topic_or_partition
    assert jar.services.partitions.get("t", 0) is None
    assert [each.partition for each in jar.services.partitions.of_topic("t")] == [1]
    jar.services.partitions.delete("t", 0)  # twice is as good as once


def test_files_that_cannot_be_moved_do_not_keep_a_topic_alive(
    jar: Jar, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(topic: str, partition: int) -> None:
        raise LogError(ErrorCode.kafka_storage_error, "the disk is read-only")

    monkeypatch.setattr(jar.services.logs, "delete", refuse)
    jar.services.partitions.delete("t", 0)
    assert jar.services.partitions.get("t", 0) is None
