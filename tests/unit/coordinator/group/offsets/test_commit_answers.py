"""Answers to accepted commits."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.offsets import commit_answers
from klamm.coordinator.group.offsets.commit_answers import CommitAnswers
from klamm.records.core import TopicCommits
from klamm.records.layout import PartitionCommit

ID = b"i" * 16


def commits(*partitions: int) -> TopicCommits:
    return TopicCommits([PartitionCommit(partition, 5, -1, "") for partition in partitions])


def test_an_answer_has_each_partition_without_an_error() -> None:
    answer = CommitAnswers().of(ID, "t", commits(3, 1, 3))
    (topic,) = answer.topics
    assert (topic.topic_id, topic.name) == (ID, "t")
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(3, 0), (1, 0), (3, 0)]


def test_the_same_answer_is_made_once() -> None:
    answers = CommitAnswers()
    first = answers.of(ID, "t", commits(0, 1))
    assert answers.of(ID, "t", commits(0, 1)) is first
    for other in (
        answers.of(ID, "t", commits(1, 0)),
        answers.of(ID, "u", commits(0, 1)),
        answers.of(b"j" * 16, "t", commits(0, 1)),
    ):
        assert other is not first


def test_the_number_of_answers_that_are_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_answers, "MOST_ANSWERS", 2)
    monkeypatch.setattr(commit_answers, "MOST_PARTITIONS", 3)
    answers = CommitAnswers()
    first = answers.of(ID, "t", commits(0))
    answers.of(ID, "t", commits(1))
    answers.of(ID, "t", commits(2))  # one too many: all are forgotten
    assert answers.of(ID, "t", commits(0)) is not first
    four = commits(*range(4))
    assert answers.of(ID, "t", four) is not answers.of(ID, "t", four)
