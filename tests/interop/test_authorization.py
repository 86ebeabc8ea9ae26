"""What a client may do, beside Apache Kafka's StandardAuthorizer: every API, without and with each right.

Both brokers have the same ACLs. No one logs in: the client that is refused connects from another loopback
address than the one that creates the ACLs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from internals.acl_requests import CASES, GROUP, TOPIC, TXN_ID, Case, Right
from interop.kafka_tools import ApacheKafka
from interop.processes import KlammProcess
from interop.questions import Conversation, comparable
from klamm.access.acls import AclOperation, PatternType, PermissionType, ResourceType
from klamm.protocol.api import OWN_APIS, ApiKey
from klamm.protocol.messages import (
    create_acls,
    create_topics,
    delete_acls,
    describe_acls,
    init_producer_id,
    metadata,
)
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.testing import wait_until

ADMIN, BOB = "127.0.0.1", "127.0.0.2"
EVERYONE = "User:ANONYMOUS"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# Open until there is an ACL: else no client could create the first one.
SETTINGS = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}
KINDS = (
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
    (ResourceType.CLUSTER, "kafka-cluster"),
)


class Side:
    """One of the two brokers."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.topic_ids: dict[str, bytes] = {}
        self.admin = Conversation(bootstrap, source=ADMIN)
        self.allow(AclOperation.ALL, *KINDS, host=ADMIN)
        topics = [create_topics.CreatableTopic(name, 1, 1) for name in (TOPIC, "doomed")]
        self.admin.ask(ApiKey.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(topics, 10_000))
        wait_until(self.has_topics)
        for key_type, key in ((0, GROUP), (1, TXN_ID)):
            wait_until(partial(self.coordinates, key_type, key))
        asking = init_producer_id.InitProducerIdRequest(None, 1000)
        wait_until(lambda: self.admin.ask(ApiKey.INIT_PRODUCER_ID, 4, asking).error_code, equals=0)

    def has_topics(self) -> bool:
        named = [metadata.MetadataRequestTopic(name=name) for name in (TOPIC, "doomed")]
        answer = self.admin.ask(ApiKey.METADATA, 9, metadata.MetadataRequest(named, False))
        return all(each.error_code == 0 for each in answer.topics)

    def coordinates(self, key_type: int, key: str) -> bool:
        answer = self.admin.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key, key_type))
        return bool(answer.error_code == 0)

    def allow(self, operation: AclOperation, *resources: tuple[ResourceType, str], host: str = BOB) -> None:
        acls = [
            create_acls.AclCreation(
                kind, name, PatternType.LITERAL, EVERYONE, host, operation, PermissionType.ALLOW
            )
            for kind, name in resources
        ]
        answer = self.admin.ask(ApiKey.CREATE_ACLS, 2, create_acls.CreateAclsRequest(acls))
        assert all(each.error_code == 0 for each in answer.results), answer
        for kind, name in resources:
            asked = describe_acls.DescribeAclsRequest(kind, name, 3, EVERYONE, host, operation, 1)
            # Kafka answers before it decides by an ACL.
            wait_until(partial(self.described, asked), equals=1)

    def grant(self, right: Right) -> None:
        self.allow(right.operation, (right.resource_type, right.name))

    def revoke_all(self) -> None:
        """Bob has no rights any more."""
        whatever = delete_acls.DeleteAclsFilter(1, None, 1, None, BOB, 1, 1)
        self.admin.ask(ApiKey.DELETE_ACLS, 2, delete_acls.DeleteAclsRequest([whatever]))
        asked = describe_acls.DescribeAclsRequest(1, None, 1, None, BOB, 1, 1)
        wait_until(lambda: self.described(asked), equals=0)

    def described(self, asked: describe_acls.DescribeAclsRequest) -> int:
        """How many ACLs the broker decides by."""
        answer = self.admin.ask(ApiKey.DESCRIBE_ACLS, 2, asked)
        return sum(len(each.acls) for each in answer.resources)

    def asked(self, case: Case) -> Any:
        with Conversation(self.bootstrap, source=BOB) as conversation:
            return comparable(conversation.ask(case.api_key, case.version, case.request))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    folder = tmp_path_factory.mktemp("acls")
    flags = ("-Xmx512m", "-XX:TieredStopAtLevel=1")
    timing = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
    ours = KlammProcess(folder / "klamm", stderr_path=folder / "klamm.err", settings=SETTINGS | timing)
    try:
        with ApacheKafka(folder / "kafka", flags=flags, settings=SETTINGS) as kafka:
            both = Side("klamm", ours.bootstrap), Side("Kafka", kafka.bootstrap)
            yield both
            for side in both:
                side.admin.close()
    finally:
        ours.stop()


# Requests that only klamm has are tested without Kafka.
@pytest.mark.parametrize("case", [case for case in CASES if case.api_key not in OWN_APIS], ids=str)
def test_every_api_answers_as_kafka_without_and_with_each_right(sides: tuple[Side, Side], case: Case) -> None:
    for side in sides:
        side.revoke_all()
    for given in range(len(case.rights) + 1):
        if given:
            for side in sides:
                side.grant(case.rights[given - 1])
        ours, kafkas = (side.asked(case) for side in sides)
        assert json.dumps(ours) == json.dumps(kafkas), f"{case} with {case.rights[:given]}"
