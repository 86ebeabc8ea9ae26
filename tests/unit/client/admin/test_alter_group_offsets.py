"""Offsets that the admin commits, where the coordinator does not know a topic yet, or there is none."""

from __future__ import annotations

import pytest

import klamm
from klamm import testing


def offsets_of(admin: klamm.Admin) -> dict[tuple[str, int], int]:
    return {partition: found.offset for partition, found in admin.list_group_offsets("g").items()}


def test_a_coordinator_that_does_not_know_the_topic_yet_is_asked_again() -> None:
    with testing.Broker() as broker, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"new": 1})
        unknown = broker.faults.fail("OffsetCommit", error="UNKNOWN_TOPIC_OR_PARTITION", times=2)
        admin.alter_group_offsets("g", {("new", 0): 7})
        assert unknown.count == 2
        assert offsets_of(admin) == {("new", 0): 7}


def test_a_topic_that_does_not_exist_is_an_error_at_once_and_the_others_are_committed(
    admin: klamm.Admin,
) -> None:
    admin.create_topics({"present": 1})
    with pytest.raises(klamm.errors.UnknownTopicOrPartitionError, match="absent"):
        admin.alter_group_offsets("g", {("absent", 0): 1, ("present", 0): 7})
    assert offsets_of(admin) == {("present", 0): 7}
