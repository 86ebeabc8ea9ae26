"""The coordinator, the members and the clock of a scripted group, and what makes them go on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from klamm.assignors.server import GroupAssignor
from klamm.clock import ManualClock
from klamm.coordinator.group.classic.membership import ClassicMembership, classic_membership
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.consumer.membership import ConsumerGroupMembership, consumer_membership
from klamm.coordinator.runtime.events import Event
from klamm.errors import DisconnectedError
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from klamm.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.types import TopicPartition
from klamm.testing.rebalances.coordinator import CoordinatorInMemory, ScriptedTopics
from klamm.testing.rebalances.epochs import Targets, is_stable
from klamm.testing.rebalances.history import Callback, History
from klamm.testing.rebalances.late_log import LateLog, LateMachine
from klamm.testing.rebalances.member import ScriptedMember, Status
from klamm.testing.rebalances.network import ADDRESS, COORDINATOR_APIS, COORDINATOR_ID, Exchange, Traffic
from klamm.testing.rebalances.requests import RequestLog

GROUP_ID: Final = "scripted"
_MOST_MESSAGES: Final = 5_000  # in one instant, and a few hundred for each member: more are a loop
_NEVER_MS: Final = 2**62


class World:
    """Everything happens in the thread of the test, in the order of the clock."""

    def __init__(
        self,
        topics: ScriptedTopics,
        config: GroupConfig,
        *,
        racks: Sequence[str] = (),
        seed: int | None = None,
        is_exclusive: bool = True,
        assignors: Mapping[str, GroupAssignor] | None = None,
    ) -> None:
        self.seed = seed or 0
        self.random = None if seed is None else Random(seed)
        self.jitter = Random(self.seed)  # of the clients' pauses
        self.clock = ManualClock()
        self.topics = topics
        self.topics_changed = 0  # how often
        self.history = History()
        self.requests = RequestLog(topics)
        self.traffic = Traffic(self.random)
        self.targets = Targets(self.history)
        self.coordinator = CoordinatorInMemory(
            self.clock, config, topics, LateLog, make_machine=LateMachine, assignors=assignors
        )
        self.coordinator.on_event = self._happened
        self.coordinator.elect_all()
        self.members: dict[str, ScriptedMember] = {}  # those whose process has not ended
        self.ended: dict[str, ScriptedMember] = {}  # the last process of each of the others
        self.poll_errors: list[tuple[str, Exception]] = []
        self.ends_at_errors = True
        self.is_over = False  # something failed that ends the step
        self.stirred: deque[ScriptedMember] = (
            deque()
        )  # those whose clients have to go on before the clock does
        self._coordinator_found = FindCoordinatorResponse(
            coordinators=[Coordinator(GROUP_ID, COORDINATOR_ID, *ADDRESS)]
        )
        self._metadata_known: tuple[int, dict[tuple[str, ...], MetadataResponse]] = (-1, {})
        self._racks = racks
        self._is_exclusive = is_exclusive
        self.violation = ""  # the first one of a promise that holds at all times

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    @property
    def at_ms(self) -> int:
        """Since the group began."""
        return self.clock.now_ms()

    @property
    def group(self) -> ClassicMembership | ConsumerGroupMembership | None:
        """The group, as the coordinator has it."""
        found = self.coordinator.state.groups.get(GROUP_ID)
        return classic_membership(found) or consumer_membership(found)

    def unregistered(self) -> tuple[str, ...]:
        """The static members whose last id is in the log, and not the one that they have."""
        found = self.coordinator.state.groups.get(GROUP_ID)
        registration = None if found is None else found.memory.registration
        logged: dict[str | None, str] = {}
        if registration is not None:
            logged = {each.group_instance_id: each.member_id for each in registration.members}
        elif found is not None and found.memory.consumer is not None:
            logged.update(found.memory.consumer.instances)
        return tuple(
            name
            for name, member in self.members.items()
            if (instance_id := member.engine.membership.instance_id) is not None
            and member.member_id
            and logged.get(instance_id, member.member_id) != member.member_id
        )

    # --- what members send ---------------------------------------------------------------------------------

    def request(self, member: ScriptedMember, exchange: Exchange) -> None:
        """Pass a request on. Metadata and the coordinator's address come from another connection."""
        key = exchange.call.api_key
        if key in COORDINATOR_APIS:
            pipe = member.to_coordinator
            if self.random is None and not pipe.items and not pipe.is_held:
                pipe.receive(exchange)  # nothing overtakes it
            else:
                self.traffic.send(pipe, exchange)
        elif key is ApiKey.METADATA:
            member.topics_seen = self.topics_changed
            exchange.response = self._metadata(exchange.request)
            member.reply(exchange)
        elif key is ApiKey.FIND_COORDINATOR:
            exchange.response = self._coordinator_found
            line, state = self.history.line_count, self._state()
            self.requests.requested(line, self.at_ms, member.name, exchange)
            self.requests.decided(state)
            self.requests.answered(line, self.at_ms, member.name, exchange, state)
            member.reply(exchange)
        else:
            raise NotImplementedError(
                f"{key.name}: a scripted group has no records; use klamm.testing.Broker to read and write"
            )

    def decide(self, member: ScriptedMember, exchange: Exchange) -> None:
        """Have the coordinator decide a request."""
        coordinator = self.coordinator
        self.requests.requested(self.history.line_count, self.at_ms, member.name, exchange)
        coordinator.coordinator.handle(exchange.request, coordinator.context(exchange, member.name))
        self._look_at_target()
        self.requests.decided(self._state())

    def answered(self, member: ScriptedMember, exchange: Exchange) -> None:
        """The coordinator has answered a request."""
        line = self.history.line_count
        self.requests.answered(line, self.at_ms, member.name, exchange, self._state())

    def _look_at_target(self) -> None:
        group = self.group
        if isinstance(group, ConsumerGroupMembership):
            self.targets.look(self.at_ms, group, self.coordinator.state)

    def _state(self) -> str:
        group = self.group
        if group is None:
            return "none"
        return group.state_name if isinstance(group, ConsumerGroupMembership) else group.phase.value

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        """The topics as they are. Members share the response, which they only read."""
        asked = self.topics.known if request.topics is None else [each.name or "" for each in request.topics]
        names = tuple(asked)
        if self._metadata_known[0] != self.topics_changed:
            self._metadata_known = (self.topics_changed, {})
        responses = self._metadata_known[1]
        response = responses.get(names)
        if response is None:
            racks = self._racks or (None,)
            response = responses[names] = MetadataResponse(
                brokers=[
                    MetadataResponseBroker(number, *ADDRESS, rack) for number, rack in enumerate(racks, 1)
                ],
                cluster_id="scripted",
                controller_id=COORDINATOR_ID,
                topics=[self._topic(name) for name in names],
            )
        return response

    def _topic(self, name: str) -> MetadataResponseTopic:
        known = self.topics.by_name(name)
        if known is None:
            return MetadataResponseTopic(error_code=ErrorCode.unknown_topic_or_partition, name=name)
        brokers = len(self._racks) or 1
        return MetadataResponseTopic(
            name=name,
            topic_id=known.topic_id,
            partitions=[
                MetadataResponsePartition(
                    partition_index=number,
                    leader_id=(leader := number % brokers + 1),
                    leader_epoch=0,
                    replica_nodes=(leader,),
                    isr_nodes=(leader,),
                )
                for number in range(known.partition_count)
            ],
        )

    # --- what happens --------------------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        self.history.note(self.clock.now_ms(), event)
        self.targets.happened(event)
        self.requests.happened(self.history.line_count, self.at_ms, event, self._state())

    def called(self, member: ScriptedMember, callback: Callback) -> None:
        """A listener is about to be called."""
        self.history.called(callback)
        if callback.kind == "assigned" and self._is_exclusive and not self.violation:
            self.violation = self._owned_twice(member, callback.partitions)
            self.is_over |= bool(self.violation)

    def _owned_twice(self, member: ScriptedMember, partitions: Sequence[TopicPartition]) -> str:
        """Partitions that another member has in the same generation, in words."""
        group = self.group
        for other in self.members.values():
            if other is member:
                continue
            if isinstance(group, ConsumerGroupMembership):
                is_member = {member.member_id, other.member_id} <= group.memory.members.keys()
                if other.generation < 0 or not is_member:
                    continue  # removed, or gone because nobody polls: its listener hears of it later
            elif other.generation != member.generation:
                continue
            for partition in partitions:
                if partition in other.engine.state.partitions:
                    return (
                        f"{partition} is given to {member.name} while {other.name} has it, "
                        f"in generation {member.generation}"
                    )
        return ""

    def poll_failed(self, member: ScriptedMember, error: Exception) -> None:
        """The application's poll has raised an error."""
        self.poll_errors.append((member.name, error))
        self.is_over |= self.ends_at_errors
        self.history.note(self.at_ms, f"  {member.name}: poll raised {error!r}")

    def restart_coordinator(self) -> None:
        """The broker is restarted: its connections break, and it knows what its log has."""
        self.coordinator.restart()
        for member in list(self.members.values()):
            member.disconnect(DisconnectedError("the broker was restarted"))
            member.turn()

    # --- time ----------------------------------------------------------------------------------------------

    def exchange(self, most: int | None = None) -> None:
        """Deliver what is under way, and what that causes, at this instant; or that many messages."""
        traffic, busy, stirred = self.traffic, self.traffic.busy, self.stirred
        limit = _MOST_MESSAGES + 200 * len(self.members) if most is None else most
        is_random = self.random is not None
        for _ in range(limit):
            # With random numbers a client goes on at once: its requests are among those that overtake.
            if stirred and (is_random or not busy):
                self._tick_stirred()
            if not busy or self.is_over:
                return
            if is_random:
                traffic.rotate()
            pipe = busy.popleft()
            items = pipe.items
            if items and not pipe.is_held:
                pipe.receive(items.popleft())
        if most is None:
            raise AssertionError(f"{limit} messages in one instant, and no end: the group is in a loop")

    def _tick_stirred(self) -> None:
        stirred = self.stirred
        while stirred and not self.is_over:
            member = stirred.popleft()
            if member.is_stirred:
                member.tick()

    def run_until(self, is_done: Callable[[], bool], until_ms: int | None) -> bool:
        """Let time pass until something is so, or up to an instant; whether it is so."""
        clock, coordinator = self.clock, self.coordinator
        limit_ms = _NEVER_MS if until_ms is None else until_ms
        while True:
            self.exchange()
            if coordinator.outside:
                coordinator.work_outside()
                self._look_at_target()
                continue
            if is_done():
                return True
            next_ms = self._next_ms()
            if next_ms is None or next_ms > limit_ms:
                if until_ms is None:
                    raise AssertionError("nothing will happen any more, and a member waits")
                clock.advance(max(0, until_ms - clock.now_ms()))
                return False
            clock.advance(max(0, next_ms - clock.now_ms()))
            now_ms = clock.now_ms()
            due_ms = coordinator.next_due_ms()
            if due_ms is not None and due_ms <= now_ms:
                coordinator.tick()
                self._look_at_target()
            due = [
                each for each in self.members.values() if each.due_ms is not None and each.due_ms <= now_ms
            ]
            if self.random is not None:
                self.random.shuffle(due)
            for member in due:
                member.tick()
                if member.due_ms is not None and member.due_ms <= now_ms:
                    member.due_ms = now_ms + 1  # it waits for something that happens in this instant

    def _next_ms(self) -> int | None:
        next_ms = self.coordinator.next_due_ms()
        for member in self.members.values():
            due_ms = member.due_ms
            if due_ms is not None and (next_ms is None or due_ms < next_ms):
                next_ms = due_ms
        return next_ms

    def is_settled_or_over(self) -> bool:
        return self.is_over or self.is_settled()

    def is_settled(self) -> bool:
        """Whether nothing will happen to the group before the next step of the script."""
        group = self.group
        running = [each for each in self.members.values() if each.status is Status.RUNNING]
        if group is None:
            return not running
        if isinstance(group, ConsumerGroupMembership):
            is_watched = all(
                each.topics_seen == self.topics_changed or not each.watches_topics(None) for each in running
            )
            return is_watched and is_stable(group, running, self.topics.version)
        if group.phase not in (Phase.STABLE, Phase.EMPTY) or group.pending:
            return False
        if {each.member_id for each in running} != group.members.keys():
            return False
        return all(
            each.is_settled(group.generation)
            and (each.topics_seen == self.topics_changed or not each.watches_topics(group.leader_id))
            for each in running
        )
