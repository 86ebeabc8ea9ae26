"""Looking for the coordinator while nobody can be asked."""

from __future__ import annotations

from random import Random

import pytest

from klamm.client.calls import Calls, RetryPolicy
from klamm.client.consumer.group.coordinator import CoordinatorLookup
from klamm.client.consumer.settings import parse
from klamm.client.runtime import Core
from klamm.errors import DisconnectedError
from unit.client.fakes import FakeTransport


def test_a_lookup_that_fails_at_once_says_why() -> None:
    # Given a client whose only broker has just refused a connection
    transport = FakeTransport()
    config, settings = parse(None, {"bootstrap_servers": "127.0.0.1:9092", "group_id": "g"}, 1)
    core = Core(
        config.network("test"),
        config.metadata(allow_auto_topic_creation=False),
        transport=transport,
        random=Random(1),
        now_ms=0,
    )
    core.tick(0)
    transport.links[0].events.lost(ConnectionRefusedError("refused"))
    coordinator = CoordinatorLookup(core, settings, Calls(core, RetryPolicy(1_000, 100, 1_000)))
    # When it looks for the coordinator before the backoff is over
    lookup = core.tasks.spawn(coordinator.find())
    # Then it is told so, and may look again
    with pytest.raises(DisconnectedError, match="backing off"):
        lookup.result()
    assert core.tasks.spawn(coordinator.find()).is_done
    assert coordinator.lookup_count == 2
