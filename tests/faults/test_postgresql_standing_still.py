"""Brokers on PostgreSQL that stand still, with and without a round in flight, or that cannot renew."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from faults.postgresql_cluster import TOPIC, PostgresBrokers
from faults.requests import (
    Now,
    a_commit,
    an_offset_fetch,
    coordinator_of,
    end_of,
    outcome,
    produce_line,
    produced,
)
from faults.test_postgresql_trouble import appends_that
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.heartbeat import HeartbeatRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.testing import wait_until
from klamm.testing.requests import a_produce
from klamm.testing.wire import WireClient
from postgresql import PostgresServer

Start = Callable[..., PostgresBrokers]
# Leaders move only because of what a test does, and not because the machine is busy.
QUIET = {
    "auto.leader.rebalance.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "klamm.broker.serve.window.ms": "2000",
    "broker.session.timeout.ms": "6000",
}
SUSPECT = 1  # the broker that something happens to


def led_by(cluster: PostgresBrokers, node_id: int) -> int:
    """A partition of the topic that a broker leads."""
    return min(
        partition
        for (topic, partition), (leader, _) in cluster.leaders().items()
        if topic == TOPIC and leader == node_id
    )


def produce_first(client: WireClient, partition: int) -> None:
    """The first record of a partition, when its leader knows the topic."""
    wait_until(lambda: produced(client, TOPIC, partition).base_offset == 0, "90s")


def leader_of(cluster: PostgresBrokers, partition: int) -> str:
    return cluster.address(cluster.leaders()[TOPIC, partition][0])


def epoch_of(cluster: PostgresBrokers, node_id: int) -> int:
    ((epoch,),) = cluster.postgres.execute(f"SELECT broker_epoch FROM broker WHERE broker_id = {node_id}")
    return int(str(epoch))


def a_group_at(cluster: PostgresBrokers, node_id: int) -> str:
    """A group that a broker coordinates."""
    with WireClient(cluster.address(node_id)) as client:
        wait_until(lambda: coordinator_of(client, "g") is not None, "90s")
        return next(name for number in range(1000) if coordinator_of(client, name := f"g{number}") == node_id)


@contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """Processes that stand still meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def replaced(cluster: PostgresBrokers, node_id: int) -> Iterator[None]:
    """A broker that stands still until after others have taken all its partitions over."""
    with stopped([cluster.running[node_id].pid]):
        wait_until(lambda: cluster.leads_nothing(node_id), "90s")
        yield


def waits_at(port: int) -> bool:
    """Whether the server has not read something that was sent to it."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return any(
        int(row[1].rpartition(":")[2], 16) == port and int(row[4].rpartition(":")[2], 16) for row in rows
    )


@pytest.mark.timeout(300)
def test_a_replaced_broker_acknowledges_nothing_that_was_sent_meanwhile(start: Start) -> None:
    # scenario 49
    cluster = start(3, QUIET)
    partition, group = led_by(cluster, SUSPECT), a_group_at(cluster, SUSPECT)
    epoch = epoch_of(cluster, SUSPECT)
    with ExitStack() as stack:
        first, *clients = [
            stack.enter_context(WireClient(cluster.address(SUSPECT), timeout_s=60)) for _ in range(6)
        ]
        assert produced(first, TOPIC, partition).base_offset == 0
        committed = first.ask(ApiKey.OFFSET_COMMIT, 8, a_commit(group, TOPIC, 1))
        assert committed.topics[0].partitions[0].error_code == 0
        requests = [
            (ApiKey.PRODUCE, 9, a_produce(Now(), topic=TOPIC, partition=partition, acks=0)),
            (ApiKey.PRODUCE, 9, a_produce(Now(), topic=TOPIC, partition=partition, acks=1)),
            (ApiKey.PRODUCE, 9, a_produce(Now(), topic=TOPIC, partition=partition, acks=-1)),
            (ApiKey.OFFSET_COMMIT, 8, a_commit(group, TOPIC, 2)),
            (ApiKey.OFFSET_FETCH, 8, an_offset_fetch(group, TOPIC)),
        ]
        with replaced(cluster, SUSPECT):
            with WireClient(leader_of(cluster, partition), timeout_s=60) as client:
                wait_until(lambda: produced(client, TOPIC, partition).error_code == 0, "90s")
                wait_until(lambda: coordinator_of(client, group) not in (None, SUSPECT), "90s")
                end = end_of(client, TOPIC, partition)
                node_id = coordinator_of(client, group)
            assert node_id is not None
            with WireClient(cluster.address(node_id), timeout_s=60) as client:
                wait_until(
                    lambda: (
                        client.ask(ApiKey.OFFSET_COMMIT, 8, a_commit(group, TOPIC, 7))
                        .topics[0]
                        .partitions[0]
                        .error_code
                        == 0
                    ),
                    "90s",
                )
            for client, (api_key, version, request) in zip(clients, requests, strict=True):
                client.send(api_key, version, request)
        answers = [
            outcome(client, api_key, version)
            for client, (api_key, version, _) in zip(clients[1:], requests[1:], strict=True)  # not of acks=0
        ]
    # Each is told to go elsewhere, or nothing at all.
    *produces, commit, fetch = answers
    for answer in produces:
        assert answer is None or produce_line(answer).error_code == ErrorCode.not_leader_or_follower
    assert commit is None or commit.topics[0].partitions[0].error_code == ErrorCode.not_coordinator
    assert fetch is None or fetch.groups[0].error_code == ErrorCode.not_coordinator
    wait_until(lambda: epoch_of(cluster, SUSPECT) > epoch, "90s")
    with WireClient(leader_of(cluster, partition)) as client:
        assert end_of(client, TOPIC, partition) == end
    with WireClient(cluster.address(node_id)) as client:
        (found,) = client.ask(ApiKey.OFFSET_FETCH, 8, an_offset_fetch(group, TOPIC)).groups
        assert found.topics[0].partitions[0].committed_offset == 7


@pytest.mark.timeout(300)
def test_a_round_that_arrives_after_the_take_over_appends_nothing(
    start: Start, postgres: PostgresServer
) -> None:
    # scenario 50
    cluster = start(3, QUIET)
    partition = led_by(cluster, SUSPECT)
    with WireClient(cluster.address(SUSPECT), timeout_s=60) as client:
        produce_first(client, partition)
        with stopped(postgres.sessions("klamm appends")):
            client.send(ApiKey.PRODUCE, 9, a_produce(Now(), topic=TOPIC, partition=partition))
            wait_until(lambda: waits_at(postgres.port), "90s")
            os.kill(cluster.running[SUSPECT].pid, signal.SIGSTOP)
            wait_until(lambda: cluster.leads_nothing(SUSPECT), "90s")
        with WireClient(leader_of(cluster, partition), timeout_s=60) as other:
            wait_until(lambda: produced(other, TOPIC, partition).error_code == 0, "90s")
            end = end_of(other, TOPIC, partition)
            os.kill(cluster.running[SUSPECT].pid, signal.SIGCONT)
            answer = outcome(client, ApiKey.PRODUCE, 9)
            assert answer is None or produce_line(answer).error_code == ErrorCode.not_leader_or_follower
            assert end_of(other, TOPIC, partition) == end == 2


@pytest.mark.timeout(300)
def test_a_round_that_is_under_way_ends_before_the_take_over_and_is_served_after_it(
    start: Start, postgres: PostgresServer
) -> None:
    # scenario 50
    cluster = start(3, QUIET)
    partition = led_by(cluster, SUSPECT)
    with WireClient(cluster.address(SUSPECT), timeout_s=60) as client:
        produce_first(client, partition)
        with appends_that(postgres, "PERFORM pg_sleep(8)", have_locks=True):
            client.send(ApiKey.PRODUCE, 9, a_produce(Now(), topic=TOPIC, partition=partition))
            wait_until(
                lambda: (
                    postgres.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
                    == [(1,)]
                ),
                "90s",
            )
            with replaced(cluster, SUSPECT):
                pass
        answer = outcome(client, ApiKey.PRODUCE, 9)
    assert answer is None or produce_line(answer).error_code == ErrorCode.not_leader_or_follower
    with WireClient(leader_of(cluster, partition), timeout_s=60) as client:
        wait_until(lambda: produced(client, TOPIC, partition).error_code == 0, "90s")
        assert end_of(client, TOPIC, partition) == 3


@pytest.mark.timeout(300)
def test_answers_wait_for_a_renewal_that_does_not_come_though_appends_succeed(
    start: Start, postgres: PostgresServer
) -> None:
    # scenario 54
    cluster = start(1, {"broker.session.timeout.ms": "60000"})
    partition = led_by(cluster, SUSPECT)
    ends = "SELECT sum(end_offset) FROM log"
    with WireClient(cluster.address(SUSPECT), timeout_s=2) as client:
        produce_first(client, partition)
        ((before,),) = postgres.execute(ends)
        with stopped(postgres.sessions("klamm lease")):
            time.sleep(1.0)  # longer than the serve window
            client.send(ApiKey.PRODUCE, 9, a_produce(Now(), topic=TOPIC, partition=partition))
            wait_until(lambda: postgres.execute(ends) != [(before,)], "90s")
            with pytest.raises(socket.timeout):
                client.receive(ApiKey.PRODUCE, 9)
        client.socket.settimeout(60)
        assert produce_line(client.receive(ApiKey.PRODUCE, 9)[1]).base_offset == 1


@pytest.mark.timeout(300)
def test_members_whose_heartbeats_are_held_stay_in_their_group(
    start: Start, postgres: PostgresServer
) -> None:
    # scenario 53
    cluster = start(1, {"group.min.session.timeout.ms": "500", "broker.session.timeout.ms": "60000"})
    group = a_group_at(cluster, SUSPECT)
    with WireClient(cluster.address(SUSPECT), timeout_s=60) as client:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        joined = client.ask(
            ApiKey.JOIN_GROUP, 3, JoinGroupRequest(group, 1_500, 60_000, "", None, "consumer", protocols)
        )
        assert joined.error_code == 0
        mine = [SyncGroupRequestAssignment(joined.member_id, b"")]
        synced = client.ask(
            ApiKey.SYNC_GROUP,
            2,
            SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=mine),
        )
        assert synced.error_code == 0
        heartbeat = HeartbeatRequest(group, joined.generation_id, joined.member_id)
        with stopped(postgres.sessions("klamm lease")):
            time.sleep(1.0)  # longer than the serve window
            client.send(ApiKey.HEARTBEAT, 3, heartbeat)
            client.socket.settimeout(3)  # longer than the member's session
            with pytest.raises(socket.timeout):
                client.receive(ApiKey.HEARTBEAT, 3)
        client.socket.settimeout(60)
        assert client.receive(ApiKey.HEARTBEAT, 3)[1].error_code == 0
        assert client.ask(ApiKey.HEARTBEAT, 3, heartbeat).error_code == 0
