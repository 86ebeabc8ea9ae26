"""One seed, one history: the same steps to both brokers, every answer compared."""

from __future__ import annotations

import pprint
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from interop.differential import admin_steps, cluster_steps, config_steps, data_steps, rare_steps, wire_steps
from interop.differential.audit import audit
from interop.differential.boundary_steps import at_a_boundary
from interop.differential.comparing import Plain, differences, without_correlation
from interop.differential.deliberate import reason
from interop.differential.sides import CLOSED, Side
from interop.differential.world import Question, Step, World
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

HOUR_MS: Final = 3_600_000
_SETTLED_WITHIN_S: Final = 5.0
AT_A_BOUNDARY: Final = 0.25  # the part of the requests that get a field which is

# Which requests come how often.
DATA: Final[dict[Callable[[World], Step], int]] = {
    data_steps.produce: 30,
    data_steps.fetch: 20,
    data_steps.list_offsets: 8,
    data_steps.offset_for_leader_epoch: 3,
    data_steps.delete_records: 3,
    data_steps.init_producer_id: 2,
    data_steps.describe_producers: 3,
    admin_steps.create_topics: 3,
    admin_steps.plain_topic: 4,
    admin_steps.delete_topics: 2,
    admin_steps.create_partitions: 2,
    admin_steps.metadata: 5,
    admin_steps.describe_cluster: 1,
    admin_steps.describe_topic_partitions: 3,
    admin_steps.describe_log_dirs: 2,
    cluster_steps.elect_leaders: 2,
    rare_steps.reassign: 2,
    admin_steps.list_partition_reassignments: 1,
    rare_steps.update_features: 1,
    rare_steps.loggers: 1,
    config_steps.describe_configs: 4,
    config_steps.list_config_resources: 2,
    config_steps.incremental_alter_configs: 4,
    config_steps.alter_configs: 2,
    wire_steps.api_versions: 1,
    wire_steps.unserved: 1,
    wire_steps.changed_frame: 3,
}


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two answers differ, and how to see it again."""

    seed: int
    number: int
    step: Question
    path: str
    ours: Any
    kafkas: Any
    whole: tuple[Any, Any]

    def __str__(self) -> str:
        return (
            f"seed {self.seed} step {self.number}: {self.step}\n"
            f"  at {self.path}: klamm {_short(self.ours)}, Kafka {_short(self.kafkas)}"
        )

    def at_length(self) -> str:
        request = pprint.pformat(self.step.request, width=150)
        ours, kafkas = (pprint.pformat(answer, width=150) for answer in self.whole)
        text = f"{self}\nasked\n{request[:6000]}\nklamm\n{ours[:6000]}\nKafka\n{kafkas[:6000]}"
        return text.replace("x" * 249, "<249 x>")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} characters)"


class History:
    """Drives both brokers through one random history."""

    boundaries = AT_A_BOUNDARY

    def __init__(
        self,
        ours: Side,
        kafkas: Side,
        seed: int,
        *,
        weights: dict[Callable[[World], Step], int] | None = None,
    ) -> None:
        self._sides = (ours, kafkas)
        self._seed = seed
        self._weights = weights or DATA
        now_ms = int(time.time() * 1000)
        # Whole hours: the same seed makes the same records for a while.
        self.world = World(Random(seed), now_ms - now_ms % HOUR_MS - HOUR_MS)
        self.asked: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()

    def run(self, steps: int) -> Iterator[Difference]:
        """Every difference that nobody meant; after the first, the later ones may follow from it."""
        for side in self._sides:
            side.clear()
        self._learn()
        for number in range(steps):
            yield from self._take(number, self._next(number))
        for number, step in enumerate(audit(self.world), start=steps):
            yield from self._take(number, step)

    def _next(self, number: int) -> Step:
        if number < 2:
            return admin_steps.plain_topic(self.world)
        makers = list(self._weights)
        (make,) = self.world.random.choices(makers, [self._weights[each] for each in makers])
        step = make(self.world)
        if step.frame_change is None and step.is_answered and self.world.random.random() < self.boundaries:
            step.request, says = at_a_boundary(self.world.random, step.api_key, step.version, step.request)
            step.says += says
        return step

    def _take(self, number: int, step: Step) -> Iterator[Difference]:
        self.asked[f"{step.api_key.name} {step.version}"] += 1
        answers = [self._ask(side, step) for side in self._sides]
        if step.changes_cluster:
            for side in self._sides:
                side.settle()
            self._learn()
        if step.asks_again:
            answers = [self._ask(side, step) for side in self._sides]
        if step.appends_to:
            self._wait_for_ends(step)
        rewriting = frozenset(
            {*self.world.rewriting, *(self.world.topic_id(name).hex() for name in self.world.rewriting)}
        )
        ours, kafkas = (
            Plain(side, rewriting).of(answer) for side, answer in zip(self._sides, answers, strict=True)
        )
        for path, our, their in differences(ours, kafkas):
            why = reason(step, path, our, their)
            if why is None:
                yield Difference(self._seed, number, step, path, our, their, (ours, kafkas))
            else:
                self.excused[why] += 1
        self._note(step, kafkas)

    def _ask(self, side: Side, step: Step) -> Any:
        frame = side.frame(step.api_key, step.version, step.request)
        if step.frame_change is not None:
            frame = step.frame_change(frame)
            key, version = struct.unpack(">hh", frame[4:8])
            answer = side.exchange(frame, connection=step.connection)
            is_known = (key, version) == (step.api_key, step.version)
            # An answer to something that has no version of its own is compared as bytes.
            return side.decoded(key, version, answer) if is_known else without_correlation(answer)
        if step.is_answered:
            return side.decoded(step.api_key, step.version, side.exchange(frame, connection=step.connection))
        # Whoever is not answered closes when something was wrong: the next request tells.
        side.send(frame, connection=step.connection)
        probe = side.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), connection=step.connection)
        return CLOSED if probe == CLOSED else "open"

    def _learn(self) -> None:
        metadata = [side.learn() for side in self._sides][1]
        names = [topic.name for topic in metadata.topics if topic.name]
        self.world.learn(metadata, {name: self._sides[1].generation(name) for name in names})

    def _wait_for_ends(self, step: Step) -> None:
        """Both have written what they will write; remember how far their partitions reach."""
        known = [
            (name, index) for name, index in step.appends_to if 0 <= index < self.world.topics.get(name, 0)
        ]
        deadline = time.monotonic() + _SETTLED_WITHIN_S
        while True:
            ends, expected = (self._ends(side, known) for side in self._sides)
            if ends == expected or time.monotonic() > deadline:
                break
            time.sleep(0.002)
        self.world.ends |= expected

    @staticmethod
    def _ends(side: Side, known: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        if not known:
            return {}
        topics = [ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, -1)]) for name, index in known]
        answer = side.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, 0, topics))
        return {
            (topic.name, partition.partition_index): partition.offset
            for topic in answer.topics
            for partition in topic.partitions
        }

    def _note(self, step: Step, answer: Any) -> None:
        """What the next steps may refer to."""
        if step.api_key is ApiKey.DELETE_RECORDS and isinstance(answer, dict):
            for topic in answer["topics"]:
                for partition in topic["partitions"]:
                    if partition["low_watermark"] > 0:
                        key = topic["name"], partition["partition_index"]
                        self.world.starts[key] = partition["low_watermark"]
        if step.api_key is ApiKey.FETCH and isinstance(answer, dict):
            epochs = self.world.session_epochs
            request = step.request
            if request.session_epoch <= 0:
                epochs.pop(request.session_id, None)
            if answer["session_id"].startswith("session"):
                number = -(int(answer["session_id"].split()[1]) + 1)
                epochs[number] = 1 if request.session_epoch <= 0 else request.session_epoch + 1
