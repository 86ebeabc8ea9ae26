"""Ask the assignors of Apache Kafka's group coordinator, and keep the answers as test data.

`PYTHONPATH=src:tests python tools/make_group_assignor_vectors.py` needs a JDK and Kafka's jars, which
tools/fetch_kafka.sh fetches, and writes tests/unit/assignors/server/kafka_targets.jsonl: a question and
Kafka's target on each line.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from interop.group_assignors import asked_of_kafka, random_questions
from unit.assignors.server.specs import Question, a_member, a_spec

FILE = Path(__file__).parents[1] / "tests/unit/assignors/server/kafka_targets.jsonl"
RANDOM_EACH = 30


def worked_examples() -> list[Question]:
    """Small groups that a reader can follow."""
    t, tu = ["t"], ["t", "u"]
    uniform = [
        a_spec({"t": 7}, {"a": a_member(t), "b": a_member(t), "c": a_member(t)}),
        a_spec({"t": 3, "u": 3}, {"a": a_member(tu), "b": a_member(tu)}),
        a_spec({"t": 3}, {"a": a_member(t, {"t": [0, 1, 2]}), "b": a_member(t)}),
        a_spec({"t": 3}, {"a": a_member(t, {"t": [0]}), "b": a_member(t, {"t": [1, 2]})}),
        a_spec(
            {"t": 6},
            {"a": a_member(t, {"t": [0, 1, 2]}), "b": a_member(t, {"t": [3, 4, 5]}), "c": a_member(t)},
        ),
        a_spec({"t": 5}, {"a": a_member(t, {"t": [0, 1]}), "b": a_member(t, {"t": [2]})}),
        a_spec({"t": 3, "u": 2}, {"a": a_member(t), "b": a_member(tu), "c": a_member(t)}),
        a_spec(
            {"t": 4, "u": 2},
            {"a": a_member(t, {"t": [0, 1, 2, 3]}), "b": a_member(tu), "c": a_member(["u"])},
        ),
    ]
    ranges = [
        a_spec({"t": 3, "u": 3}, {"a": a_member(tu), "b": a_member(tu)}),
        a_spec(
            {"t": 4},
            {"m-b": a_member(t, instance="i1"), "m-a": a_member(t, instance="i2"), "a": a_member(t)},
        ),
    ]
    return [Question("uniform", each) for each in uniform] + [Question("range", each) for each in ranges]


def main() -> None:
    questions = [*worked_examples(), *random_questions(Random(20_260), RANDOM_EACH)]
    lines = [
        json.dumps({**question.as_json(), "kafka": target})
        for question, target in zip(questions, asked_of_kafka(questions), strict=True)
    ]
    FILE.write_text("".join(f"{line}\n" for line in lines))
    print(f"{len(lines)} answers of Kafka in {FILE}")  # noqa: T201 - what this command reports


if __name__ == "__main__":
    main()
