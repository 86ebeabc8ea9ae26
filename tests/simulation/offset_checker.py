"""Committed offsets as seen from outside: what was acknowledged is read until something newer is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.coordinator.group.state import GroupState
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_commit import OffsetCommitRequest
from simulation.checkers import Checker, Place
from simulation.network import Exchange
from simulation.registers import Register, Value, Write

if TYPE_CHECKING:
    from simulation.world import World

# After these nothing was written, whatever happens next.
_SURELY_REFUSED: Final = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.rebalance_in_progress,
        ErrorCode.fenced_instance_id,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.group_id_not_found,
        ErrorCode.non_empty_group,
        ErrorCode.group_subscribed_to_topic,
    }
)
_WRITING: Final = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_DELETE,
    ApiKey.DELETE_GROUPS,
    ApiKey.DELETE_TOPICS,
)


class OffsetChecker(Checker):
    """Every committed offset is a register; every answer must have been possible."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.reads = 0
        self._groups: dict[str, dict[Place, Register]] = {}
        self._writes: dict[Exchange, list[tuple[str, Place, Write]]] = {}

    def register(self, group: str, place: Place) -> Register:
        return self._groups.setdefault(group, {}).setdefault(place, Register())

    # -- the wire

    def delivered(self, exchange: Exchange) -> None:
        if exchange.api_key in _WRITING:
            assert exchange.delivered_at is not None
            writes = self._writes[exchange] = [
                (group, place, self.register(group, place).write(value, exchange.delivered_at))
                for group, place, value in self._asked(exchange)
            ]
            for _, _, write in writes:
                # With a topic its offsets go, but nobody waits until the disk knows.
                write.may_be_undone = exchange.api_key is ApiKey.DELETE_TOPICS

        if exchange.api_key is ApiKey.OFFSET_COMMIT:
            self._meet_deletions(exchange.request)

    def _meet_deletions(self, request: OffsetCommitRequest) -> None:
        """A topic that is being deleted takes along what is committed meanwhile."""
        for deletion, writes in self._writes.items():
            if deletion.api_key is ApiKey.DELETE_TOPICS and deletion.delivered_at is not None:
                known = {(group, place) for group, place, _ in writes}
                for group, place, value in self._asked(deletion):
                    if group == request.group_id and (group, place) not in known:
                        write = self.register(group, place).write(value, deletion.delivered_at)
                        write.may_be_undone = True
                        writes.append((group, place, write))

    def _asked(self, exchange: Exchange) -> list[tuple[str, Place, Value]]:
        """What a request wants to be: (group, place, value)."""
        request = exchange.request
        match exchange.api_key:
            case ApiKey.OFFSET_COMMIT:
                return [
                    (
                        request.group_id,
                        (topic.name, each.partition_index),
                        (each.committed_offset, each.committed_metadata or ""),
                    )
                    for topic in request.topics
                    for each in topic.partitions
                ]
            case ApiKey.OFFSET_DELETE:
                return [
                    (request.group_id, (topic.name, each.partition_index), None)
                    for topic in request.topics
                    for each in topic.partitions
                ]
            case ApiKey.DELETE_GROUPS:
                return [
                    (group, place, None)
                    for group in request.groups_names
                    for place in self._groups.get(group, {})
                ]
            case _:
                gone = {*request.topic_names, *(topic.name for topic in request.topics)}
                return [
                    (group, place, None)
                    for group, registers in self._groups.items()
                    for place in registers
                    if place[0] in gone
                ]

    def answered(self, exchange: Exchange) -> None:
        if exchange.api_key is ApiKey.OFFSET_FETCH:
            self._check_fetched(exchange)
        elif exchange.api_key in _WRITING:
            errors = self._errors(exchange)
            for group, place, write in self._writes.pop(exchange, []):
                write.ended_at = exchange.answered_at
                error_code = errors(group, place)
                if not error_code:
                    write.is_certain = not write.may_be_undone
                elif error_code in _SURELY_REFUSED:
                    self.register(group, place).refused(write)

    def _errors(self, exchange: Exchange) -> Any:
        """(group, place) -> what the answer says of it."""
        response = exchange.response
        if exchange.api_key is ApiKey.DELETE_GROUPS:
            by_group = {each.group_id: each.error_code for each in response.results}
            return lambda group, place: by_group[group]
        if exchange.api_key is ApiKey.DELETE_TOPICS:
            by_topic = {each.name: each.error_code for each in response.responses}
            return lambda group, place: by_topic[place[0]]
        if exchange.api_key is ApiKey.OFFSET_DELETE and response.error_code:
            return lambda group, place: response.error_code
        by_place = {
            (topic.name or self.world.topic_name(topic.topic_id), each.partition_index): each.error_code
            for topic in response.topics
            for each in topic.partitions
        }
        return lambda group, place: by_place[place]

    def died(self, how: str) -> None:
        """What was not done by now never will be."""
        moment = self.world.moment()
        for writes in self._writes.values():
            for _, _, write in writes:
                write.ended_at = moment
        self._writes.clear()

    # -- reading

    def _check_fetched(self, exchange: Exchange) -> None:
        request, response = exchange.request, exchange.response
        if request.groups:
            wanted = {group.group_id: group.topics for group in request.groups}
            answers = [(group.group_id, group.topics, group.error_code) for group in response.groups]
        else:
            wanted = {request.group_id: request.topics}
            answers = [(request.group_id, response.topics, response.error_code)]
        for group, topics, error_code in answers:
            if not error_code:
                self._check_topics(exchange, group, topics, is_all=wanted[group] is None)

    def _check_topics(self, exchange: Exchange, group: str, topics: Sequence[Any], *, is_all: bool) -> None:
        assert exchange.delivered_at is not None
        assert exchange.answered_at is not None
        values: dict[Place, Value] = {}
        if is_all:
            values = dict.fromkeys(self._groups.get(group, {}))
        for topic in topics:
            name = topic.name or self.world.topic_name(topic.topic_id)
            for each in topic.partitions:
                value = None if each.committed_offset < 0 else (each.committed_offset, each.metadata or "")
                if not each.error_code:
                    values[name, each.partition_index] = value
        self._check_values(group, values.items(), exchange.delivered_at, exchange.answered_at)

    def check_loaded(self, state: GroupState) -> None:
        """A shard was loaded: what it knows is a read of everything."""
        moment = self.world.moment()
        for group in state.groups.values():
            registers = self._groups.get(group.group_id, {})
            values: dict[Place, Value] = dict.fromkeys(registers)
            for topic, partitions in group.memory.offsets.items():
                for partition, (_, committed) in partitions.items():
                    values[topic, partition] = (committed.offset, committed.metadata)
            self._check_values(group.group_id, values.items(), moment, moment)

    def _check_values(
        self, group: str, values: Iterable[tuple[Place, Value]], began_at: int, ended_at: int
    ) -> None:
        for place, value in values:
            self.reads += 1
            register = self.register(group, place)
            if not register.read(value, began_at, ended_at):
                possible = [write.value for write in register.possible(began_at)]
                self.world.broken(f"{group}: {place} is said to stand at {value}; it can be {possible}")
