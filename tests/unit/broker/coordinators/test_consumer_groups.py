"""Consumer groups in a broker: from socket to log and back, through restarts, settings and features."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from unit.coordinator.group.consumer import user_assignors

SETTINGS = {"offsets.topic.num.partitions": "2"}
GROUP = 32


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar(SETTINGS)
    jar.create_topic("t", partitions=4)
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return ready(jar)


def ready(jar: Jar) -> JarClient:
    client = jar.connect()
    client.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest("g"))
    jar.pass_ms(10)
    return client


def beat(client: JarClient, member_id: str, epoch: int, version: int = 1, **fields: Any) -> Any:
    if epoch == 0:
        fields = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": None if "subscribed_topic_regex" in fields else ["t"],
            "topic_partitions": [],
            **fields,
        }
    request = ConsumerGroupHeartbeatRequest("g", member_id, epoch, **{"topic_partitions": None, **fields})
    return client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request)


def partitions(answer: Any) -> list[int]:
    return sorted(each for topic in answer.assignment.topic_partitions for each in topic.partitions)


def alter(client: JarClient, name: str, value: str) -> int:
    resource = AlterConfigsResource(GROUP, "g", [AlterableConfig(name, 0, value)])
    answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource]))
    return int(answer.responses[0].error_code)


def test_a_member_gets_its_partitions_and_is_described(client: JarClient) -> None:
    # scenario 75 of consumer groups
    joined = beat(client, "A", 0)
    assert (joined.error_code, joined.member_epoch, partitions(joined)) == (0, 1, [0, 1, 2, 3])
    for version, kind in ((0, -1), (1, 1)):
        answer = client.ask(
            ApiKey.CONSUMER_GROUP_DESCRIBE, version, ConsumerGroupDescribeRequest(["g"], True)
        )
        (group,) = answer.groups
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 1, 1)
        assert (group.assignor_name, group.authorized_operations) == ("uniform", 3400)
        (member,) = group.members
        assert (member.member_id, member.member_type) == ("A", kind)
        assert partitions(member) == [0, 1, 2, 3]
        assert member.assignment.topic_partitions[0].topic_name == "t"
    listed = client.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(types_filter=["Consumer"]))
    assert [(each.group_id, each.group_state, each.group_type) for each in listed.groups] == [
        ("g", "Stable", "consumer")
    ]


def test_version_0_gets_an_id_from_the_coordinator(client: JarClient) -> None:
    first, second = beat(client, "", 0, version=0), beat(client, "", 0, version=0)
    assert first.member_id != second.member_id
    assert len(first.member_id) == 36


def test_a_power_loss_in_the_middle_of_a_reconciliation_loses_nothing() -> None:
    # scenario 81 of consumer groups
    jar = Jar(SETTINGS)
    jar.create_topic("t", partitions=4)
    client = ready(jar)
    beat(client, "A", 0)
    beat(client, "B", 0)
    told = beat(client, "A", 1).assignment.topic_partitions
    jar.files.crash()
    again = Jar(SETTINGS, clock=jar.clock, files=jar.files, cluster=jar.cluster)
    client = again.connect()
    again.pass_ms(10)
    assert beat(client, "B", 2).assignment is None
    assert beat(client, "A", 1, topic_partitions=told).member_epoch == 2
    kept = partitions(beat(client, "A", 0))
    assert len(kept) == 2
    assert sorted(kept + partitions(beat(client, "B", 2))) == [0, 1, 2, 3]
    again.close()


def test_a_silent_member_is_removed(jar: Jar, client: JarClient) -> None:
    beat(client, "A", 0)
    jar.pass_ms(45_000)
    assert beat(client, "A", 1).error_code == ErrorCode.unknown_member_id


def test_a_group_has_settings_of_its_own_within_the_limits_of_the_broker(jar: Jar, client: JarClient) -> None:
    # scenario 78 of consumer groups
    assert alter(client, "consumer.session.timeout.ms", "44999") == ErrorCode.invalid_config
    assert beat(client, "A", 0).heartbeat_interval_ms == 5_000
    assert alter(client, "consumer.session.timeout.ms", "50000") == 0
    assert alter(client, "consumer.heartbeat.interval.ms", "7000") == 0
    assert beat(client, "A", 1).heartbeat_interval_ms == 7_000
    jar.pass_ms(49_000)
    assert beat(client, "A", 1).error_code == 0
    jar.pass_ms(50_000)
    assert beat(client, "A", 1).error_code == ErrorCode.unknown_member_id


def test_a_cluster_without_the_feature_does_not_serve_consumer_groups(client: JarClient) -> None:
    # scenario 5 of consumer groups
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("group.version", 0, upgrade_type=2)])
    assert client.ask(ApiKey.UPDATE_FEATURES, 2, request).error_code == 0
    assert beat(client, "A", 0).error_code == ErrorCode.unsupported_version
    described = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(["g"]))
    assert described.groups[0].error_code == ErrorCode.unsupported_version


def test_topics_match_a_regular_expression_and_new_partitions_are_noticed(
    jar: Jar, client: JarClient
) -> None:
    assert partitions(beat(client, "A", 0, subscribed_topic_regex="t|new-.*")) == []
    jar.pass_ms(1)
    assert partitions(beat(client, "A", 1)) == [0, 1, 2, 3]
    jar.create_topic("new-1", partitions=1)
    jar.pass_ms(10_000)
    beat(client, "A", 2)
    jar.pass_ms(1)
    assert partitions(beat(client, "A", 2)) == [0, 0, 1, 2, 3]


def test_offsets_are_committed_with_the_members_epoch(client: JarClient) -> None:
    beat(client, "A", 0)

    def committed(epoch: int) -> int:
        topic = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(0, 5)])
        request = OffsetCommitRequest("g", epoch, "A", topics=[topic])
        answer = client.ask(ApiKey.OFFSET_COMMIT, 9, request)
        return int(answer.topics[0].partitions[0].error_code)

    assert committed(1) == 0
    assert committed(2) == ErrorCode.stale_member_epoch


def test_an_assignor_that_weighs_by_lag_is_told_lags_where_something_is_committed() -> None:
    jar = Jar({**SETTINGS, "group.consumer.assignors": f"uniform,{user_assignors.__name__}:ByLag"})
    jar.create_topic("t", partitions=2)
    client = ready(jar)
    topic = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(1, 0)])
    client.ask(ApiKey.OFFSET_COMMIT, 9, OffsetCommitRequest("g", -1, "", topics=[topic]))
    assert partitions(beat(client, "A", 0, server_assignor="by-lag")) == []
    for thread in threading.enumerate():
        if thread.name == "assignor-by-lag":
            thread.join(10)
    assert user_assignors.ByLag.told == {"t": [None, 0]}
    jar.pass_ms(1)
    assert beat(client, "A", 1).member_epoch == 2
    jar.close()
