"""Permissions: what an answer reports as authorized is what the authorizer allows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from internals.jar import Jar
from klamm.access.acls import ANONYMOUS, OPERATIONS, ResourceType
from klamm.broker.net.context import RequestContext
from klamm.broker.security.permissions import AllowAll, Permission
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.describe_cluster import DescribeClusterRequest
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


class ByName(AllowAll):
    """Reports a number per resource in place of operations, to be found again in answers."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts: set[str] = set()

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str, /) -> int:
        assert context.principal == ANONYMOUS
        self.hosts.add(context.client_host)
        return {"t": 1, "u": 2, "kafka-cluster": 3, "g": 4}[name]


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t")
    jar.create_topic("u")
    yield jar
    jar.close()


def test_without_access_control_everything_is_allowed() -> None:
    authorizer, context = AllowAll(), RequestContext("", "", "", None)  # type: ignore[arg-type]  # unused
    found = {each: authorizer.operations(context, each, "x") for each in ResourceType}
    # As Kafka reports them without an authorizer.
    assert found[ResourceType.TOPIC] == 3576
    assert found[ResourceType.CLUSTER] == 8096
    assert found[ResourceType.GROUP] == 3400
    for resource_type, operations in OPERATIONS.items():
        for operation in operations:
            assert authorizer.allows(context, Permission(resource_type, operation), "x")


def test_authorized_operations_come_from_the_authorizer(jar: Jar) -> None:
    jar.services.authorizer = authorizer = ByName()
    client = jar.connect(ip="10.0.0.7")
    request = MetadataRequest(
        [MetadataRequestTopic(name=name) for name in ("t", "u")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = client.ask(ApiKey.METADATA, 10, request)
    assert [topic.topic_authorized_operations for topic in answer.topics] == [1, 2]
    assert answer.cluster_authorized_operations == 3
    pages = client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest())
    assert [topic.topic_authorized_operations for topic in pages.topics] == [1, 2]
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert client.ask(ApiKey.DESCRIBE_CLUSTER, 0, cluster).cluster_authorized_operations == 3
    assert authorizer.hosts == {"/10.0.0.7"}


@pytest.mark.parametrize(("version", "operations"), [(5, 4), (6, -2147483648)])
def test_operations_on_a_group_come_from_the_authorizer_unless_it_has_an_error(
    jar: Jar, version: int, operations: int
) -> None:
    client = jar.connect()
    client.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest("g"))  # creates the coordinator's topic
    jar.pass_ms(10)
    jar.services.authorizer = ByName()
    request = DescribeGroupsRequest(["g"], include_authorized_operations=True)
    (group,) = client.ask(ApiKey.DESCRIBE_GROUPS, version, request).groups
    # Up to version 5 a missing group is described as dead, from 6 on it is an error.
    assert (group.group_state, group.authorized_operations) == ("Dead", operations)


def test_operations_on_a_group_are_reported_on_request_only(jar: Jar) -> None:
    jar.services.authorizer = ByName()
    (group,) = jar.connect().ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(["g"])).groups
    assert group.authorized_operations == -2147483648
