"""The table of coordinators: everything about one of them follows from its row."""

from __future__ import annotations

import pytest

from internals.jar import Jar
from klamm.broker.cluster.internal_topics import BY_KEY_TYPE, BY_NAME, BY_TOPIC, COORDINATORS, CoordinatorRow
from klamm.broker.cluster.topic_names import COORDINATED_TOPICS
from klamm.broker.coordinators.host import CoordinatorHost
from klamm.broker.routes import ROUTES


def test_rows_differ_in_name_topic_and_key_type() -> None:
    assert len(BY_NAME) == len(BY_TOPIC) == len(BY_KEY_TYPE) == len(COORDINATORS)


def test_the_leader_of_every_coordinated_topic_coordinates() -> None:
    assert set(BY_TOPIC) == COORDINATED_TOPICS


@pytest.mark.parametrize("row", COORDINATORS, ids=lambda row: row.name)
def test_a_row_names_a_host_that_serves_its_topic_and_its_routes(row: CoordinatorRow) -> None:
    jar = Jar({"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"})
    try:
        host = jar.services.coordinator(row)
        assert isinstance(host, CoordinatorHost)
        assert host.topic.name == row.topic
        assert host.coordinator.partition_for("a key") in range(2)
        assert jar.services.coordinator(row) is host
        for route in ROUTES:
            if route.coordinator is row:
                assert not route.names_members or next(host.fresh_ids)
    finally:
        jar.close()
