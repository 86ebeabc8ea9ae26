"""A broker answers only while its lease is known to be valid; the clock is moved by the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from internals.shared_jar import SharedJar
from klamm.broker.cluster.serve_window import HOLD_MS, ServeWindow, claims_nothing
from klamm.clock import ManualClock
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.metadata import MetadataRequest, MetadataResponse
from klamm.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.storage.cluster import BrokerState, ClusterStoreError, FencedError
from klamm.storage.log import MustLoadError, PartitionLog
from klamm.testing.requests import a_fetch, a_produce
from klamm.testing.virtual_loop import VirtualLoop
from unit.broker.several.asking import fetch, key_of, produce

WINDOW_MS = 3000


class Cluster(SharedJar):
    """Three brokers with leases; one of them can stand still."""

    def __init__(self) -> None:
        super().__init__(
            settings={"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"},
            members=True,
        )
        self.create_topic()

    def ask_for_groups(self) -> None:
        """Let the topic of the groups be created."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        self[1].ask(ApiKey.FIND_COORDINATOR, 4, request)
        self.pass_ms(200)

    def cut_off(self, node_id: int) -> Callable[[], None]:
        """The broker does not reach the store any more; the result heals that."""
        node = self[node_id]
        assert node.services.membership is not None
        patch = pytest.MonkeyPatch()
        patch.setattr(node.services.membership._lease, "renew", unreachable)
        patch.setattr(node.cluster, "changed", lambda: False)
        return patch.undo


def unreachable() -> None:
    raise ClusterStoreError("connection refused")


@pytest.fixture
def three() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


def test_answers_are_held_after_the_window_and_sent_after_a_renewal(three: Cluster) -> None:
    # scenario 54: the store cannot be reached, and nobody takes over
    assert produce(three[1]).base_offset == 0
    heal = three.cut_off(1)
    three.pass_ms(WINDOW_MS + 100)
    client = three[1].connect()
    sent = [
        client.send(ApiKey.METADATA, 12, MetadataRequest()),
        client.send(ApiKey.FETCH, 12, a_fetch(three[1])),
        client.send(ApiKey.PRODUCE, 9, a_produce(three[1])),
    ]
    three.pass_ms(2000)
    assert client.answers() == []
    heal()
    three.pass_ms(1100)
    answers = client.answers()
    assert [number for number, _ in answers] == sent, "in their order"
    assert not client.is_closed
    assert answers[2][1].responses[0].partition_responses[0].base_offset == 1


def test_members_are_not_expired_while_their_heartbeats_are_held(three: Cluster) -> None:
    # scenario 53
    three.ask_for_groups()
    group = key_of(three, 1)
    client = three[1].connect()
    protocols = [JoinGroupRequestProtocol("range", b"")]
    joined = client.ask(
        ApiKey.JOIN_GROUP, 3, JoinGroupRequest(group, 2_000, 60_000, "", None, "consumer", protocols)
    )
    sync = SyncGroupRequest(
        group,
        joined.generation_id,
        joined.member_id,
        assignments=[SyncGroupRequestAssignment(joined.member_id, b"")],
    )
    assert client.ask(ApiKey.SYNC_GROUP, 2, sync).error_code == 0
    heartbeat = HeartbeatRequest(group, joined.generation_id, joined.member_id)
    heal = three.cut_off(1)
    three.pass_ms(1_400)
    assert client.ask(ApiKey.HEARTBEAT, 3, heartbeat).error_code == 0
    three.pass_ms(1_900)
    client.send(ApiKey.HEARTBEAT, 3, heartbeat)
    three.pass_ms(4_000)  # longer than its session
    assert client.new_answers() == []
    heal()
    three.pass_ms(1_100)
    assert [answer.error_code for answer in client.new_answers()] == [0]
    three.pass_ms(1_500)
    assert client.ask(ApiKey.HEARTBEAT, 3, heartbeat).error_code == 0
    # From then on it has to send them again.
    three.pass_ms(7_000)
    assert client.ask(ApiKey.HEARTBEAT, 3, heartbeat).error_code == ErrorCode.unknown_member_id


def test_a_new_client_learns_the_versions_while_everything_else_waits(three: Cluster) -> None:
    three.cut_off(1)
    three.pass_ms(WINDOW_MS + 100)
    assert three[1].ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("a", "1")).error_code == 0


def test_a_broker_that_was_replaced_sends_nothing_of_what_it_decided_before_it_knew(three: Cluster) -> None:
    # scenario 49: its memory ends where the next leader went on
    assert produce(three[1]).base_offset == 0
    heal = three.cut_off(1)
    three.pass_ms(12_000)
    leader_id = three.state("t", 0).leader_id
    assert leader_id != 1
    assert produce(three[leader_id]).base_offset == 1
    assert three[1].services.partitions.get("t", 0) is not None, "it does not know"
    client = three[1].connect()
    client.send(ApiKey.FETCH, 12, a_fetch(three[1], offset=1, max_wait_ms=0))
    three.pass_ms(500)
    assert client.answers() == []
    heal()
    three.pass_ms(1100)
    assert client.answers() == []
    assert client.is_closed
    # Registered again, it sends clients to the leader.
    line = fetch(three[1], version=12).responses[0].partitions[0]
    assert line.error_code == ErrorCode.not_leader_or_follower


def test_what_was_being_opened_when_a_broker_was_replaced_is_not_served_when_it_is_back(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = three[1]
    membership, window, logs = node.services.membership, node.services.serve_window, node.services.logs
    assert membership is not None
    assert window is not None
    open_log, renewed = logs.open, window.renewed
    served_then: list[set[tuple[str, int]]] = []

    def replaced() -> None:
        three.move("t", 1, 3, told=False)
        membership._fenced(FencedError("broker 1 was declared dead"))

    slow = [MustLoadError(replaced)]

    def open_slowly(*place: Any, **options: Any) -> PartitionLog:
        if slow:
            raise slow.pop()
        return open_log(*place, **options)

    def note_served(sent_at_ms: int) -> None:
        renewed(sent_at_ms)
        served_then.append({(each.topic, each.partition) for each in node.services.partitions})

    monkeypatch.setattr(logs, "open", open_slowly)
    monkeypatch.setattr(window, "renewed", note_served)
    three.move("t", 1, 1, told=False)
    three.pass_ms(2_000)
    assert three.state("t", 1).leader_id == 3
    assert served_then
    assert all(("t", 1) not in each for each in served_then)


def test_a_broker_that_stops_is_gone_only_when_it_answers_no_more(three: Cluster) -> None:
    # The last one keeps its partitions. When it is gone, a broker that starts leads them, and acknowledges.
    for node_id in (2, 3):
        three.stop(node_id)
    node = three[1]
    client = node.connect()
    set_state = node.cluster.set_state

    def ask_before(state: BrokerState) -> None:
        if state is BrokerState.GONE:
            client.send(ApiKey.FETCH, 12, a_fetch(node, max_wait_ms=0))
        set_state(state)

    node.cluster.set_state = ask_before  # type: ignore[method-assign]
    three.stop(1)
    assert {each.state for each in three.cluster.brokers()} == {BrokerState.GONE}
    assert client.answers() == []


def test_a_client_whose_answer_is_held_for_too_long_is_disconnected(three: Cluster) -> None:
    three.cut_off(1)
    three.pass_ms(WINDOW_MS + 100)
    early, late = three[1].connect(), three[1].connect()
    early.send(ApiKey.METADATA, 12, MetadataRequest())
    three.pass_ms(1000)
    late.send(ApiKey.METADATA, 12, MetadataRequest())
    three.pass_ms(HOLD_MS - 1100)
    assert not early.is_closed
    three.pass_ms(200)
    assert (early.is_closed, late.is_closed) == (True, False)
    three.pass_ms(1000)
    assert late.is_closed


class Held:
    """An answer that notes what becomes of it."""

    def __init__(self, notes: list[str], name: str) -> None:
        self._notes = notes
        self._name = name

    def send(self) -> None:
        self._notes.append(f"{self._name} sent")

    def give_up(self, reason: str) -> None:
        self._notes.append(f"{self._name} closed: {reason}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def window(clock: ManualClock) -> Iterator[ServeWindow]:
    loop = VirtualLoop(clock)
    yield ServeWindow(loop, clock.now_ms, WINDOW_MS)
    loop.close()


def test_the_window_begins_when_the_renewal_was_sent(window: ServeWindow, clock: ManualClock) -> None:
    assert not window.is_open(), "before the first renewal"
    sent_at_ms = clock.now_ms()
    clock.advance(2000)  # the store took its time
    window.renewed(sent_at_ms)
    assert window.is_open()
    clock.advance(999)
    assert window.is_open()
    clock.advance(1)
    assert not window.is_open()


def test_a_renewal_that_took_longer_than_the_window_proves_nothing(
    window: ServeWindow, clock: ManualClock
) -> None:
    notes: list[str] = []
    window.hold(Held(notes, "a"))
    sent_at_ms = clock.now_ms()
    clock.advance(WINDOW_MS)  # it stood still again, perhaps after the store had answered
    window.renewed(sent_at_ms)
    assert notes == []
    window.renewed(clock.now_ms())
    assert notes == ["a sent"]
    assert window.held_count == 0


def test_a_fenced_broker_closes_the_window_until_it_is_renewed(
    window: ServeWindow, clock: ManualClock
) -> None:
    window.renewed(clock.now_ms())
    notes: list[str] = []
    window.hold(Held(notes, "a"))
    window.fenced()
    assert notes == ["a closed: its response may be out of date"]
    assert not window.is_open()


def a_produce_response(*error_codes: int) -> ProduceResponse:
    lines = [PartitionProduceResponse(index, error_code=code) for index, code in enumerate(error_codes)]
    return ProduceResponse([TopicProduceResponse(partition_responses=lines)])


def a_commit_response(*error_codes: int) -> OffsetCommitResponse:
    lines = [OffsetCommitResponsePartition(index, code) for index, code in enumerate(error_codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(partitions=lines)])


@pytest.mark.parametrize(
    ("api_key", "response", "expected"),
    [
        (ApiKey.API_VERSIONS, ApiVersionsResponse(), True),
        (ApiKey.METADATA, MetadataResponse(), False),
        (ApiKey.PRODUCE, a_produce_response(ErrorCode.request_timed_out), True),
        (ApiKey.PRODUCE, a_produce_response(ErrorCode.request_timed_out, 0), False),
        (ApiKey.PRODUCE, a_produce_response(ErrorCode.message_too_large), False),
        (ApiKey.PRODUCE, a_produce_response(), False),
        (ApiKey.OFFSET_COMMIT, a_commit_response(ErrorCode.not_coordinator), True),
        (ApiKey.OFFSET_COMMIT, a_commit_response(0), False),
        (ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.not_coordinator), True),
        (ApiKey.HEARTBEAT, HeartbeatResponse(), False),
        # A member that was not heard while the broker stood still is not unknown.
        (ApiKey.HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.unknown_member_id), False),
    ],
)
def test_only_an_answer_to_ask_again_needs_no_lease(api_key: ApiKey, response: Any, expected: bool) -> None:
    assert claims_nothing(api_key, response) is expected
