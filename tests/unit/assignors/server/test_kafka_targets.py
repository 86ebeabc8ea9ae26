"""`uniform` and `range` give what Kafka's gives, which tools/make_group_assignor_vectors.py has asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klamm.assignors.server.ranges import RangeGroupAssignor
from klamm.assignors.server.uniform import UniformAssignor
from unit.assignors.server.specs import of_json, target_of

QUESTIONS = [
    json.loads(line) for line in (Path(__file__).parent / "kafka_targets.jsonl").read_text().splitlines()
]
ASSIGNORS = {"uniform": UniformAssignor(), "range": RangeGroupAssignor()}


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_a_group_gets_the_target_that_kafka_computes(number: int) -> None:
    question = QUESTIONS[number]
    assert target_of(ASSIGNORS[question["assignor"]], of_json(question)) == question["kafka"]
