"""DescribeCluster, DescribeTopicPartitions, DescribeLogDirs, ElectLeaders, ListPartitionReassignments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from klamm.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from klamm.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from klamm.records.layout import Record
from klamm.records.record import encode_batch
from klamm.storage.log import LogDirStatus
from unit.broker.apis.admin_jar import AdminJar

MakeJar = Callable[..., AdminJar]


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(jar: AdminJar, version: int) -> None:
    response = jar.client.ask(ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterRequest(True))
    assert (response.error_code, response.controller_id) == (ErrorCode.none, 1)
    assert response.cluster_id == jar.services.image.cluster_id
    assert len(response.cluster_id) == 22
    assert [(broker.broker_id, broker.host, broker.port) for broker in response.brokers] == [
        (1, "localhost", 9092)
    ]
    assert response.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "expected"),
    [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
)
def test_only_brokers_are_described(jar: AdminJar, endpoint_type: int, expected: ErrorCode) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    response = jar.client.ask(ApiKey.DESCRIBE_CLUSTER, 1, request)
    assert (response.error_code, list(response.brokers)) == (expected, [])
    assert response.error_message


def pages(
    jar: AdminJar, names: Sequence[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names], limit, None if cursor is None else Cursor(*cursor)
    )
    response: DescribeTopicPartitionsResponse = jar.client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    return response


def shown(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int, list[int]]]:
    return [
        (topic.name, topic.error_code, [each.partition_index for each in topic.partitions])
        for topic in response.topics
    ]


def after(response: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = response.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_a_page_ends_where_its_limit_is_reached_and_says_where_to_go_on(jar: AdminJar) -> None:
    for name in ("c", "a", "b"):
        jar.create_topic(name, partitions=4)
    first = pages(jar, [], 8)
    assert shown(first) == [("a", 0, [0, 1, 2, 3]), ("b", 0, [0, 1, 2, 3])]
    assert after(first) == ("c", 0)
    second = pages(jar, [], 3, after(first))
    assert (shown(second), after(second)) == ([("c", 0, [0, 1, 2])], ("c", 3))
    third = pages(jar, [], 3, after(second))
    assert (shown(third), after(third)) == ([("c", 0, [3])], None)


def test_the_brokers_own_limit_counts_too(make_jar: MakeJar) -> None:
    jar = make_jar({"max.request.partition.size.limit": "2"})
    jar.create_topic("t", partitions=3)
    assert (shown(pages(jar, ["t"])), after(pages(jar, ["t"]))) == ([("t", 0, [0, 1])], ("t", 2))


@pytest.mark.parametrize("limit", [1, 0, -5])
def test_a_page_holds_at_least_one_partition(jar: AdminJar, limit: int) -> None:
    jar.create_topic("t", partitions=2)
    assert shown(pages(jar, ["t"], limit)) == [("t", 0, [0])]


def test_unknown_and_impossible_names_are_told_in_order_and_never_created(jar: AdminJar) -> None:
    jar.create_topic("t")
    response = pages(jar, ["t", "missing", "a b", "t", "__consumer_offsets"])
    assert shown(response) == [
        ("__consumer_offsets", ErrorCode.unknown_topic_or_partition, []),
        ("a b", ErrorCode.invalid_topic_exception, []),
        ("missing", ErrorCode.unknown_topic_or_partition, []),
        ("t", 0, [0]),
    ]
    assert {topic.topic_authorized_operations for topic in response.topics} == {3576}
    assert set(jar.services.image.topics) == {"t"}


@pytest.mark.parametrize(
    ("names", "cursor", "expected"),
    [
        (["t", "u"], ("s", 0), [("t", ErrorCode.invalid_request, []), ("u", ErrorCode.invalid_request, [])]),
        (["t"], ("t", -1), [("t", ErrorCode.invalid_request, [])]),
        (["t"], ("t", 9), [("t", 0, [])]),
        (["t", "u"], ("u", 0), [("u", 0, [0])]),
        ([], ("s", 0), [("t", 0, [0]), ("u", 0, [0])]),
        ([], ("tt", 0), [("u", 0, [0])]),
        ([], ("t", -1), []),
        ([], ("z", 0), []),
    ],
)
def test_a_cursor_must_point_into_what_is_asked_for(
    jar: AdminJar, names: list[str], cursor: tuple[str, int], expected: list[tuple[str, int, list[int]]]
) -> None:
    jar.create_topic("t")
    jar.create_topic("u")
    assert shown(pages(jar, names, 5, cursor)) == expected


def test_no_election_is_ever_needed(jar: AdminJar) -> None:
    jar.create_topic("t")
    asked = [TopicPartitions("t", [0, 7]), TopicPartitions("missing", [0])]
    for version in range(3):
        response = jar.client.ask(ApiKey.ELECT_LEADERS, version, ElectLeadersRequest(0, asked))
        assert response.error_code == ErrorCode.none
        outcomes = [
            (topic.topic, each.partition_id, each.error_code)
            for topic in response.replica_election_results
            for each in topic.partition_result
        ]
        assert outcomes == [
            ("t", 0, ErrorCode.election_not_needed),
            ("t", 7, ErrorCode.unknown_topic_or_partition),
            ("missing", 0, ErrorCode.unknown_topic_or_partition),
        ]
    everything = jar.client.ask(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(1, None))
    assert everything.error_code == ErrorCode.none
    assert [(each.topic, list(each.partition_result)) for each in everything.replica_election_results] == [
        ("t", [])
    ]


@pytest.mark.parametrize(("kind", "timeout_ms"), [(0, 1000), (7, 1000), (0, 0)])
def test_an_election_of_nothing_succeeds_whatever_else_is_said(
    jar: AdminJar, kind: int, timeout_ms: int
) -> None:
    response = jar.client.ask(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(kind, [], timeout_ms))
    assert (response.error_code, list(response.replica_election_results)) == (ErrorCode.none, [])


def test_an_unknown_kind_of_election_is_refused_on_top_and_in_each(jar: AdminJar) -> None:
    request = ElectLeadersRequest(7, [TopicPartitions("t", [0])])
    response = jar.client.ask(ApiKey.ELECT_LEADERS, 2, request)
    assert response.error_code == ErrorCode.invalid_request
    assert response.replica_election_results[0].partition_result[0].error_code == ErrorCode.invalid_request


def test_no_partition_of_a_single_broker_is_on_its_way(jar: AdminJar) -> None:
    response = jar.client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest())
    assert (response.error_code, list(response.topics)) == (ErrorCode.none, [])


def sizes(jar: AdminJar, topics: Sequence[DescribableLogDirTopic] | None) -> dict[tuple[str, int], int]:
    (result,) = jar.client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics)).results
    return {
        (topic.name, each.partition_index): each.partition_size
        for topic in result.topics
        for each in topic.partitions
    }


def test_log_directories_tell_the_sizes_that_were_asked_for(jar: AdminJar) -> None:
    jar.create_topic("t", partitions=2)
    jar.create_topic("u")
    batch = encode_batch([Record(0, 0, value=b"some")])
    jar.logs["t", 1].append(batch, now_ms=0, timestamp_ms=0)
    assert sizes(jar, None) == {("t", 0): 0, ("t", 1): len(batch), ("u", 0): 0}
    assert sizes(jar, [DescribableLogDirTopic("t", [1, 9]), DescribableLogDirTopic("missing", [0])]) == {
        ("t", 1): len(batch)
    }
    assert sizes(jar, []) == {}


@pytest.mark.parametrize("version", range(1, 6))
def test_disk_sizes_come_with_version_4(jar: AdminJar, version: int) -> None:
    (result,) = jar.client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(None)).results
    assert (result.error_code, result.log_dir) == (ErrorCode.none, "/logs")
    space = jar.files.disk_space("/logs")
    told = (space.total_bytes, space.usable_bytes) if version >= 4 else (-1, -1)
    assert (result.total_bytes, result.usable_bytes) == told


def test_a_directory_that_is_offline_says_so(jar: AdminJar, monkeypatch: pytest.MonkeyPatch) -> None:
    offline = [LogDirStatus("/logs", -1, -1, is_offline=True)]
    monkeypatch.setattr(jar.services.logs, "status", lambda: offline)
    (result,) = jar.client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None)).results
    assert (result.error_code, list(result.topics)) == (ErrorCode.kafka_storage_error, [])
