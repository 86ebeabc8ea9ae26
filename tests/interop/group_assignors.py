"""Questions to the assignors of Kafka's group coordinator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from random import Random

from interop.kafka_tools import java_command
from interop.processes import ROOT
from klamm.assignors.server.ranges import RangeGroupAssignor
from klamm.assignors.server.uniform import UniformAssignor
from klamm.testing.group_assignors import random_group
from unit.assignors.server.specs import NamedShare, Question


def random_questions(chance: Random, each: int) -> list[Question]:
    """Groups with equal and with different subscriptions for both assignors."""
    return [
        Question(assignor.name, random_group(chance, assignor, equal=equal))
        for assignor in (UniformAssignor(), RangeGroupAssignor())
        for equal in (True, False)
        for _ in range(each)
    ]


def asked_of_kafka(questions: Iterable[Question]) -> list[dict[str, NamedShare]]:
    """What Kafka's assignors compute: one target per question."""
    answered = subprocess.run(
        java_command(str(ROOT / "tests" / "interop" / "java" / "GroupAssignors.java")),
        input="".join(json.dumps(question.as_json()) + "\n" for question in questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    targets = [json.loads(line) for line in answered.stdout.splitlines()]
    assert not any("error" in target for target in targets), targets
    return targets
