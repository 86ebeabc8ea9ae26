"""Logs that have to load what they are asked for: the event loop is not blocked, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from internals.jar import Jar
from klamm.protocol.api import ApiKey
from klamm.storage.log import MustLoadError
from klamm.testing.requests import a_fetch, a_produce


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar(disk_delay_ms=0)
    jar.create_topic("t", partitions=2)
    yield jar
    jar.close()


class Cold:
    """A method of a log whose first calls find nothing in memory."""

    def __init__(self, method: Callable[..., Any], loads: int) -> None:
        self._method = method
        self.loads_left = loads
        self.loads = 0

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self.loads_left > self.loads:
            raise MustLoadError(self._load)
        return self._method(*arguments, **keywords)

    def _load(self) -> None:
        self.loads += 1


def make_cold(jar: Jar, monkeypatch: pytest.MonkeyPatch, method: str, index: int = 0) -> Cold:
    partition = jar.services.partitions.get("t", index)
    assert partition is not None
    cold = Cold(getattr(partition.log, method), loads=2)
    monkeypatch.setattr(partition.log, method, cold)
    return cold


def sizes(answer: Any) -> list[int]:
    return [len(each.records) for topic in answer.responses for each in topic.partitions]


def test_a_fetch_waits_until_all_its_partitions_are_loaded(jar: Jar, monkeypatch: pytest.MonkeyPatch) -> None:
    client = jar.connect()
    for index in range(2):
        client.ask(ApiKey.PRODUCE, 9, a_produce(jar, partition=index))
    cold = [make_cold(jar, monkeypatch, "slice", index) for index in range(2)]
    answer = client.ask(ApiKey.FETCH, 12, a_fetch(jar, offsets={0: 0, 1: 0}))
    assert all(size > 0 for size in sizes(answer))
    assert [each.loads for each in cold] == [2, 2]


def test_a_parked_fetch_is_loaded_when_its_wait_is_over(jar: Jar, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = jar.connect(), jar.connect()
    cold = make_cold(jar, monkeypatch, "slice")
    reader.send(ApiKey.FETCH, 12, a_fetch(jar, max_wait_ms=60_000))
    jar.pass_ms(10)
    assert reader.new_answers() == []
    writer.ask(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.pass_ms(10)
    (answer,) = reader.new_answers()
    assert sizes(answer)[0] > 0
    assert cold.loads == 2


def test_retention_waits_for_what_it_has_to_load(jar: Jar, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = make_cold(jar, monkeypatch, "delete_old_segments")
    chores = jar.broker._chores
    assert chores is not None
    loading = chores.delete_old_segments()
    assert loading is not None
    jar.loop.run(loading)
    assert cold.loads == 2
