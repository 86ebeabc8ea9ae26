"""Waiting for partitions or for a time-out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from internals.jar import Jar
from klamm.broker.partitions.partition_wait import FutureWait
from klamm.broker.partitions.registry import Partition


class Wait(FutureWait[str]):
    """Over when the test says so."""

    has_enough = False

    def is_over(self) -> bool:
        return self.has_enough

    def result(self) -> str:
        return "enough" if self.has_enough else "late"


class FailingWait(Wait):
    """Cannot make its result."""

    def result(self) -> str:
        raise ValueError("broken")


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t", 2)
    yield jar
    jar.close()


def partitions_of(jar: Jar) -> list[Partition]:
    return list(jar.services.partitions.of_topic("t"))


def a_wait(jar: Jar, kind: type[Wait] = Wait) -> Wait:
    return kind(jar.loop, jar.services.deadlines, partitions_of(jar), 500)


def is_forgotten(jar: Jar) -> bool:
    return not any(each.watchers for each in partitions_of(jar)) and not list(jar.services.deadlines)


def test_a_change_that_is_not_enough_leaves_the_request_waiting(jar: Jar) -> None:
    wait = a_wait(jar)
    partitions_of(jar)[0].changed()
    jar.loop.settle()
    assert not wait.future.done()
    wait.has_enough = True
    partitions_of(jar)[1].changed()
    jar.loop.settle()
    assert wait.future.result() == "enough"
    assert is_forgotten(jar)


def test_without_enough_the_wait_ends_at_its_time_out(jar: Jar) -> None:
    wait = a_wait(jar)
    jar.pass_ms(499)
    assert not wait.future.done()
    jar.pass_ms(1)
    assert wait.future.result() == "late"
    assert is_forgotten(jar)


def test_a_cancelled_wait_is_forgotten(jar: Jar) -> None:
    wait = a_wait(jar)
    assert not is_forgotten(jar)
    wait.future.cancel()
    wait.has_enough = True
    partitions_of(jar)[0].changed()  # before the loop tells the wait
    jar.loop.settle()
    assert is_forgotten(jar)
    jar.pass_ms(1000)
    assert wait.future.cancelled()


def test_a_failure_to_answer_reaches_the_connection(jar: Jar) -> None:
    wait = a_wait(jar, FailingWait)
    jar.pass_ms(500)
    with pytest.raises(ValueError, match="broken"):
        wait.future.result()
    assert is_forgotten(jar)
