"""klamm's `uniform` and `range` and those of Kafka's coordinator: the same group must get the same target."""

from __future__ import annotations

from random import Random

from interop.group_assignors import asked_of_kafka, random_questions
from klamm.assignors.server.ranges import RangeGroupAssignor
from klamm.assignors.server.uniform import UniformAssignor
from unit.assignors.server.specs import target_of

CASES_EACH = 500


def test_klamm_and_kafka_compute_the_same_targets() -> None:
    questions = random_questions(Random(848), CASES_EACH)
    ours = {"uniform": UniformAssignor(), "range": RangeGroupAssignor()}
    for question, target in zip(questions, asked_of_kafka(questions), strict=True):
        assert target_of(ours[question.assignor], question.group) == target, question.as_json()
