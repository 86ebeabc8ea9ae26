"""One seed, one history of consumer groups: heartbeats, commits and looks at groups, answered at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from interop.differential import consumer_steps, offset_steps
from interop.differential.boundary_steps import at_a_boundary
from interop.differential.comparing import Plain, differences
from interop.differential.consumer_steps import (
    AWAY,
    LAST_EPOCH,
    AskedByConsumer,
    ConsumerMember,
    ConsumerWorld,
)
from interop.differential.deliberate import JOINED_AGAIN, reason
from interop.differential.group_runner import GroupHistory
from interop.differential.group_sides import GroupSide
from interop.differential.group_world import Asked, Group
from interop.differential.runner import Difference
from interop.differential.world import World
from klamm.protocol.api import ApiKey

STEPS: Final[dict[Callable[[ConsumerWorld], Asked], int]] = {
    consumer_steps.join_new: 10,
    consumer_steps.take_place: 6,
    consumer_steps.use_id_twice: 2,
    consumer_steps.beat: 50,
    consumer_steps.leave: 7,
    consumer_steps.strange_beat: 3,
    consumer_steps.describe: 12,
    consumer_steps.dismiss: 3,
    consumer_steps.commit: 14,
    consumer_steps.fetch: 8,
    offset_steps.delete_offsets: 3,
    offset_steps.describe: 3,
    offset_steps.list_groups: 4,
    offset_steps.delete: 2,
}
_EPOCHS: Final = frozenset({"member_epoch", "group_epoch", "assignment_epoch"})
_SENT_EPOCHS: Final = frozenset({"member_epoch", "generation_id_or_member_epoch"})
# At their boundaries time decides, partitions are assigned in hash order, a first epoch is another one, or
# a member gets an instance id.
_KEPT: Final = frozenset(
    {
        "instance_id",
        "member_id",
        "rebalance_timeout_ms",
        "server_assignor",
        "subscribed_topic_names",
        "subscribed_topic_regex",
    }
)
# With an earlier epoch klamm looks at each partition.
_AS_THEY_ARE: Final = (consumer_steps.commit, consumer_steps.fetch)
_FENCED: Final = (110, 111)


class ConsumerSide(GroupSide):
    """A broker whose epochs are told as klamm's: a group's first one is Kafka's second."""

    @property
    def is_ahead(self) -> bool:
        return self.name == "Kafka"

    def _real_field(self, name: str, value: Any) -> Any:
        if self.is_ahead and name in _SENT_EPOCHS and 0 < value < LAST_EPOCH:
            return value + 1
        return super()._real_field(name, value)

    def epochs_as_klamms(self, plain: Any) -> Any:
        """A plain answer with what klamm's epochs would be."""
        if isinstance(plain, list):
            return [self.epochs_as_klamms(each) for each in plain]
        if not isinstance(plain, dict):
            return plain
        return {
            name: value - 1
            if self.is_ahead and name in _EPOCHS and isinstance(value, int) and value > 0
            else self.epochs_as_klamms(value)
            for name, value in plain.items()
        }


class ConsumerHistory(GroupHistory):
    """Drives the members of a few consumer groups. Nobody waits, so each answer is read at once."""

    world: ConsumerWorld
    _sides: tuple[ConsumerSide, ConsumerSide]

    def __init__(self, ours: ConsumerSide, kafkas: ConsumerSide, seed: int) -> None:
        super().__init__(ours, kafkas, seed)
        random = Random(seed)
        groups = [Group(f"c{seed}-{time.time_ns():x}-{number}") for number in range(3)]
        self.world = ConsumerWorld(random, World(random, 0), groups)

    def run(self, steps: int) -> Iterator[Difference]:
        """Every difference that nobody meant."""
        self._begin()
        makers = list(STEPS)
        for number in range(steps):
            if all(group.is_retired for group in self.world.groups):
                return
            (make,) = self.world.random.choices(makers, [STEPS[each] for each in makers])
            asked = make(self.world)
            asked.number = number
            if make not in _AS_THEY_ARE and self.world.random.random() < self.boundaries:
                asked.request, says = at_a_boundary(
                    self.world.random, asked.api_key, asked.version, asked.request, _KEPT
                )
                asked.says += says
            yield from self._ask(asked)

    def _ask(self, asked: Asked) -> Iterator[Difference]:
        self.asked[f"{asked.api_key.name} {asked.version}"] += 1
        known = {group.group_id for group in self.world.groups if not group.is_retired}
        known |= set(offset_steps.STRAY_GROUPS)
        ours, kafkas = (
            side.epochs_as_klamms(
                Plain(side, groups=known).of(side.ask(asked.api_key, asked.version, asked.request))
            )
            for side in self._sides
        )
        if _is_fenced_by_kafka_alone(asked, ours, kafkas):
            assert asked.group is not None
            asked.group.is_retired = True
            self.excused[JOINED_AGAIN] += 1
            return
        for path, our, their in differences(ours, kafkas):
            why = reason(asked, path, our, their)
            if why is None:
                yield Difference(self._seed, asked.number, asked, path, our, their, (ours, kafkas))
            else:
                self.excused[why] += 1
        if isinstance(asked, AskedByConsumer) and asked.consumer is not None:
            _take_answer(asked, asked.consumer, kafkas)
        elif asked.api_key is ApiKey.LEAVE_GROUP:
            gone = {
                (each["member_id"], each["group_instance_id"])
                for each in kafkas["members"]
                if not each["error_code"]
            }
            for member in self.world.consumers:
                is_named = any(
                    member_id == member.member_id or (not member_id and instance_id == member.instance_id)
                    for member_id, instance_id in gone
                )
                if member.group is asked.group and is_named:
                    member.is_in = False


def _is_fenced_by_kafka_alone(asked: Asked, ours: Any, kafkas: Any) -> bool:
    if asked.api_key is not ApiKey.CONSUMER_GROUP_HEARTBEAT or asked.request.member_epoch != 0:
        return False
    return ours["error_code"] == 0 and kafkas["error_code"] in _FENCED


def _take_answer(asked: AskedByConsumer, member: ConsumerMember, answer: dict[str, Any]) -> None:
    """What the next steps may refer to."""
    if answer["error_code"]:
        return
    epoch = member.epoch = answer["member_epoch"]
    member.is_in = epoch != -1
    if epoch == AWAY or not member.is_in:
        return
    member.instance_id = asked.request.instance_id or member.instance_id
    if asked.replaced is not None:
        asked.replaced.is_in = False
    if answer["assignment"] is not None:
        member.held = {
            each["topic_id"]: each["partitions"] for each in answer["assignment"]["topic_partitions"]
        }
