"""ListOffsets of the admin, where a leader does not know its topic yet, or the topic is gone."""

from __future__ import annotations

import pytest

import klamm
from klamm import testing


def test_a_leader_that_does_not_know_the_topic_yet_is_asked_again() -> None:
    with testing.Broker() as broker, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"new": 1})
        unknown = broker.faults.fail("ListOffsets", topic="new", error="UNKNOWN_TOPIC_OR_PARTITION", times=2)
        assert admin.list_offsets([("new", 0)])["new", 0].offset == 0
        assert unknown.count == 2


def test_a_topic_that_is_gone_is_an_error_at_once(broker: klamm.Broker, admin: klamm.Admin) -> None:
    admin.create_topics({"old": 1})
    assert admin.list_offsets([("old", 0)])["old", 0].offset == 0
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as other:
        other.delete_topics("old")
    with pytest.raises(klamm.errors.UnknownTopicOrPartitionError, match="old"):
        admin.list_offsets([("old", 0)])
