"""The same random traffic to klamm and to Apache Kafka: every answer the same, but for what is meant.

KLAMM_DIFFERENTIAL_SEEDS=100-199, KLAMM_GROUP_SEEDS, KLAMM_CONSUMER_SEEDS, KLAMM_BURST_SEEDS, KLAMM_TXN_SEEDS
and KLAMM_WAIT_SEEDS run other seeds; so does `python -m interop.differential`, by hand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import pytest

from interop.differential.consumer_runner import ConsumerHistory, ConsumerSide
from interop.differential.group_runner import GroupHistory
from interop.differential.group_sides import GroupSide
from interop.differential.runner import History
from interop.differential.sides import Side
from interop.differential.stories import STORIES, Story, tell
from interop.differential.txn_runner import TxnHistory
from interop.differential.txn_world import TxnSide
from interop.differential.waits import WaitHistory
from interop.kafka_tools import ApacheKafka
from interop.processes import KlammProcess

OneSide = TypeVar("OneSide", bound=Side)

STEPS = 120
GROUP_STEPS = 200
BURSTS = 12
TXN_STEPS = 150
WAIT_STEPS = 20
# Nothing may happen behind the answers: no retention, no compaction, no waiting for company.
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "log.cleaner.enable": "false",
    "log.retention.check.interval.ms": "100000000",
    "node.id": "1",
    "offsets.retention.check.interval.ms": "100000000",
}
KAFKA_SETTINGS = {
    **SETTINGS,
    "controller.quorum.append.linger.ms": "0",
    "log.initial.task.delay.ms": "100000000",
}


def seeds(name: str, default: str) -> range:
    first, _, last = os.environ.get(name, default).partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("differential")
    # Records are looked at as Kafka looks at them.
    settings = {**SETTINGS, "klamm.record.validation": "records"}
    klamm = KlammProcess(folder / "data", stderr_path=folder / "klamm.log", settings=settings)
    kafka = ApacheKafka(
        folder / "kafka", settings=KAFKA_SETTINGS, flags=("-Xmx512m", "-XX:TieredStopAtLevel=1")
    )
    with klamm, kafka:
        yield klamm.bootstrap, kafka.bootstrap


@contextmanager
def sides(kind: Callable[[str, str], OneSide], both: tuple[str, str]) -> Iterator[tuple[OneSide, OneSide]]:
    """klamm's side and Kafka's, whose connections are closed in the end."""
    ours, kafkas = kind("klamm", both[0]), kind("Kafka", both[1])
    try:
        yield ours, kafkas
    finally:
        ours.close_all()
        kafkas.close_all()


@pytest.mark.parametrize("seed", seeds("KLAMM_DIFFERENTIAL_SEEDS", "0-5"))
def test_every_answer_is_kafkas(both: tuple[str, str], seed: int) -> None:
    with sides(Side, both) as (ours, kafkas):
        difference = next(History(ours, kafkas, seed).run(STEPS), None)
    assert difference is None, difference.at_length()


@pytest.mark.parametrize("seed", seeds("KLAMM_BURST_SEEDS", "0-1"))
def test_every_answer_to_many_requests_at_once_is_kafkas(both: tuple[str, str], seed: int) -> None:
    with sides(GroupSide, both) as (ours, kafkas):
        difference = next(GroupHistory(ours, kafkas, seed).run_in_bursts(BURSTS), None)
    assert difference is None, difference.at_length()


@pytest.mark.parametrize("seed", seeds("KLAMM_GROUP_SEEDS", "0-3"))
def test_every_answer_to_members_of_groups_is_kafkas(both: tuple[str, str], seed: int) -> None:
    with sides(GroupSide, both) as (ours, kafkas):
        difference = next(GroupHistory(ours, kafkas, seed).run(GROUP_STEPS), None)
    assert difference is None, difference.at_length()


@pytest.mark.parametrize("seed", seeds("KLAMM_CONSUMER_SEEDS", "0-3"))
def test_every_answer_to_members_of_consumer_groups_is_kafkas(both: tuple[str, str], seed: int) -> None:
    with sides(ConsumerSide, both) as (ours, kafkas):
        difference = next(ConsumerHistory(ours, kafkas, seed).run(GROUP_STEPS), None)
    assert difference is None, difference.at_length()


@pytest.mark.parametrize("seed", seeds("KLAMM_TXN_SEEDS", "0-3"))
def test_every_answer_about_transactions_is_kafkas(both: tuple[str, str], seed: int) -> None:
    with sides(TxnSide, both) as (ours, kafkas):
        difference = next(TxnHistory(ours, kafkas, seed).run(TXN_STEPS), None)
    assert difference is None, difference.at_length()


@pytest.mark.parametrize("seed", seeds("KLAMM_WAIT_SEEDS", "0-3"))
def test_the_same_fetches_wait(both: tuple[str, str], seed: int) -> None:
    with sides(GroupSide, both) as (ours, kafkas):
        difference = next(WaitHistory(ours, kafkas, seed).run(WAIT_STEPS), None)
    assert difference is None, difference


def test_time_does_the_same_to_members_of_groups(both: tuple[str, str]) -> None:
    # Every story waits for time-outs, so they are told at once.
    with ThreadPoolExecutor(len(STORIES)) as threads:
        told = list(threads.map(partial(_how_it_ended, both), STORIES))
    assert not any(told), "\n".join(told)


def _how_it_ended(both: tuple[str, str], story: Callable[[Story], None]) -> str:
    try:
        tell(both, story)
    except (AssertionError, TimeoutError) as error:
        return f"{story.__name__}: {error}"
    return ""
