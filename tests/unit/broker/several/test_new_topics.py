"""Coordinators that move to a broker that learns of a new topic at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from internals.shared_jar import SharedJar
from klamm.broker.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.broker.net.context import HeldResponse
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from klamm.storage.log import MustLoadError, PartitionLog
from unit.broker.several.asking import TRANSACTION, commit, committed, key_of, make_internal_topics, shard_of
from unit.broker.several.test_transactions import Producer, stable


@pytest.fixture
def jar(make_cluster: Callable[..., SharedJar]) -> SharedJar:
    jar = make_cluster()
    make_internal_topics(jar)
    return jar


def create_untold(jar: SharedJar, *leaders: int) -> None:
    """Create topic t with these leaders; only broker 1 knows of it."""
    rows = [CreatableReplicaAssignment(number, [leader]) for number, leader in enumerate(leaders)]
    request = CreateTopicsRequest([CreatableTopic("t", -1, -1, assignments=rows)])
    assert jar[1].ask(ApiKey.CREATE_TOPICS, 7, request).topics[0].error_code == 0


def open_slowly(jar: SharedJar, node_id: int, patch: pytest.MonkeyPatch) -> None:
    """Partitions of t take their time to be opened; those of coordinators do not."""
    node = jar[node_id]
    node.disk.delay_ms = 5
    open_log, loads = node.services.logs.open, [MustLoadError(lambda: None) for _ in range(40)]

    def open_after_loads(topic: str, *place: Any, **options: Any) -> PartitionLog:
        if topic == "t" and loads:
            raise loads.pop()
        return open_log(topic, *place, **options)

    patch.setattr(node.services.logs, "open", open_after_loads)


def test_commits_for_a_topic_that_the_next_coordinator_does_not_know_yet_are_kept(
    jar: SharedJar, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = key_of(jar, 1)
    create_untold(jar, 1, 2)
    assert commit(jar[1], group, 7) == 0
    jar.move(OFFSETS_TOPIC, shard_of(group), 2, told=False)
    open_slowly(jar, 2, monkeypatch)
    jar.spread()
    jar.pass_ms(500)
    assert committed(jar[2], group) == (0, 7)


def test_commits_for_a_topic_that_was_created_again_are_kept_by_a_broker_that_learns_of_all_at_once(
    jar: SharedJar,
) -> None:
    group = key_of(jar, 1)
    jar.cluster.delete_topic("t", jar.create_topic())
    jar[1].catch_up()
    create_untold(jar, 1, 2)
    assert commit(jar[1], group, 7) == 0
    jar.move(OFFSETS_TOPIC, shard_of(group), 2, told=False)
    jar.spread()
    jar.pass_ms(500)
    assert committed(jar[2], group) == (0, 7)


def test_a_transaction_is_committed_in_a_topic_that_the_next_coordinator_does_not_know_yet(
    jar: SharedJar, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer(jar, key_of(jar, 1, TRANSACTION))
    producer.init()
    create_untold(jar, 1, 2)
    assert producer.produce(0).error_code == 0
    never = HeldResponse[Any]()  # markers that never arrive
    monkeypatch.setattr(jar[1].services.transactions, "write", lambda marker, names, after: [(names, never)])
    assert producer.end() == 0
    assert stable(jar, 0) == (0, 1)
    jar.move(TRANSACTIONS_TOPIC, shard_of(producer.name), 2, told=False)
    open_slowly(jar, 2, monkeypatch)
    jar.spread()
    jar.pass_ms(2_000)
    assert stable(jar, 0) == (2, 2)
