"""Each API, denied and allowed: a request is refused until its sender has the last right that it needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from internals.acl_requests import ABSENT, CASES, REFUSED, TOPIC, Case, Right, a_batch, error_codes
from internals.jar import Jar, JarClient
from klamm.access.acls import AclEntry, AclOperation, AclPattern, PatternType, PermissionType, ResourceType
from klamm.broker.routes import ROUTES
from klamm.broker.security.stored_acls import STORED_AS, entry_key, pattern_key
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.inspect_groups import InspectGroupsRequest
from klamm.protocol.messages.list_groups import ListGroupsRequest
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.storage.cluster import ConflictError

BOB = "10.0.0.7"  # nobody logs in yet: he is known by his address
AUTHORIZATION_ERRORS = {int(each) for each in REFUSED.values()}
# Tested below, each in its own way.
LISTS = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER}


class Secured(Jar):
    """A broker that allows nothing to 10.0.0.7."""

    def __init__(self, **settings: str) -> None:
        super().__init__({"klamm.authorizer": "acl", **settings})

    def set_acl(
        self, right: Right, permission: PermissionType = PermissionType.ALLOW, host: str = BOB
    ) -> None:
        pattern = AclPattern(right.resource_type, PatternType.LITERAL, right.name)
        entry = AclEntry("User:ANONYMOUS", host, right.operation, permission)

        def with_entry(present: Any) -> dict[str, str]:
            return {**present, entry_key(entry): ""}

        refusal = self.loop.run(self.services.topics.alter_kept(STORED_AS, pattern_key(pattern), with_entry))
        assert refusal is None

    def drop_acls(self) -> None:
        for name in self.services.image.configured(STORED_AS):
            self.loop.run(self.services.topics.alter_kept(STORED_AS, name, lambda _: {}))

    def bob(self) -> JarClient:
        return self.connect(ip=BOB)


@pytest.fixture(scope="module")
def shared_jar() -> Iterator[Secured]:
    jar = Secured()
    jar.create_topic(TOPIC)
    jar.create_topic("doomed")
    jar.services.groups.topic.create()
    jar.services.transactions.topic.create()
    jar.pass_ms(1000)
    yield jar
    jar.close()


@pytest.fixture
def jar(shared_jar: Secured) -> Secured:
    shared_jar.drop_acls()
    return shared_jar


def asked(jar: Secured, case: Case) -> set[int]:
    client = jar.bob()
    client.send(case.api_key, case.version, case.request)
    jar.pass_ms(1000)
    (answer,) = client.new_answers()
    client.close()
    return error_codes(answer)


def test_every_api_is_among_the_cases() -> None:
    assert {case.api_key for case in CASES} == {route.api_key for route in ROUTES} - LISTS


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_request_is_refused_until_its_sender_has_every_right(jar: Secured, case: Case) -> None:
    for right in case.rights:
        assert right.refusal in asked(jar, case)
        jar.set_acl(right)
    assert not asked(jar, case) & AUTHORIZATION_ERRORS


@pytest.mark.parametrize("case", [each for each in CASES if each.rights and not each.changes], ids=str)
def test_a_deny_closes_what_was_open_on_the_same_connection(jar: Secured, case: Case) -> None:
    for right in case.rights:
        jar.set_acl(right)
    client = jar.bob()
    for permission in ("allowed", "denied"):
        client.send(case.api_key, case.version, case.request)
        jar.pass_ms(1000)
        (answer,) = client.new_answers()
        codes = error_codes(answer) & AUTHORIZATION_ERRORS
        assert bool(codes) == (permission == "denied")
        jar.set_acl(case.rights[0], PermissionType.DENY)
    client.close()


def test_allowed_items_are_served_and_the_others_refused(jar: Secured) -> None:
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.WRITE, TOPIC))
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(0, a_batch())])
        for name in (ABSENT, TOPIC)
    ]
    client = jar.bob()
    client.send(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 1000, topics))
    jar.pass_ms(1000)
    (answer,) = client.new_answers()
    found = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    assert found == {TOPIC: 0, ABSENT: 29}


def test_an_unanswered_produce_that_is_refused_closes_the_connection(jar: Secured) -> None:
    client = jar.bob()
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, a_batch())])
    client.send(ApiKey.PRODUCE, 9, ProduceRequest(None, 0, 1000, [data]))
    jar.pass_ms(1000)
    assert client.is_closed
    assert not client.answers()


def test_a_fetch_session_keeps_no_right(jar: Secured) -> None:
    jar.create_topic("fetched")
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.READ, "fetched"))
    client = jar.bob()
    partition = FetchPartition(0, partition_max_bytes=1000)
    whole = FetchRequest(session_epoch=0, topics=[FetchTopic(topic="fetched", partitions=[partition])])
    first = client.ask(ApiKey.FETCH, 12, whole)
    assert error_codes(first) == {0}
    assert first.session_id
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.READ, "fetched"), PermissionType.DENY)
    then = client.ask(ApiKey.FETCH, 12, FetchRequest(session_id=first.session_id, session_epoch=1))
    assert [each.partitions[0].error_code for each in then.responses] == [29]


def test_of_all_topics_those_are_listed_that_may_be_described(jar: Secured) -> None:
    everything = MetadataRequest(None, include_topic_authorized_operations=True)
    answer = jar.bob().ask(ApiKey.METADATA, 10, everything)
    assert not answer.topics
    assert answer.brokers
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.READ, TOPIC))
    (topic,) = jar.bob().ask(ApiKey.METADATA, 10, everything).topics
    assert (topic.name, topic.topic_authorized_operations) == (TOPIC, 264)  # READ, and DESCRIBE by it


def test_absent_and_forbidden_topics_look_alike(jar: Secured) -> None:
    def of(name: str) -> Any:
        request = MetadataRequest([MetadataRequestTopic(name=name)], False, False, True)
        (topic,) = jar.bob().ask(ApiKey.METADATA, 12, request).topics
        return topic.but(name="")

    assert of(TOPIC) == of(ABSENT)
    (by_id,) = (
        jar.bob()
        .ask(
            ApiKey.METADATA,
            12,
            MetadataRequest([MetadataRequestTopic(jar.services.image.topics[TOPIC].topic_id)]),
        )
        .topics
    )
    assert (by_id.error_code, by_id.name) == (29, None)


def test_a_topic_is_created_by_itself_only_for_who_may_create_it(jar: Secured) -> None:
    request = MetadataRequest([MetadataRequestTopic(name="by-itself")], True)

    def code() -> int:
        client = jar.bob()
        client.send(ApiKey.METADATA, 9, request)
        jar.pass_ms(1000)
        return int(client.new_answers()[0].topics[0].error_code)

    assert code() == 29
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.DESCRIBE, "by-itself"))
    assert code() == 29
    assert "by-itself" not in jar.services.image.topics
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.CREATE, "by-itself"))
    code()
    assert "by-itself" in jar.services.image.topics


def test_groups_are_listed_that_may_be_described(jar: Secured) -> None:
    admin = "10.0.0.1"
    jar.set_acl(Right(ResourceType.CLUSTER, AclOperation.DESCRIBE, "kafka-cluster"), host=admin)
    jar.set_acl(Right(ResourceType.GROUP, AclOperation.READ, "seen"), host="*")
    jar.set_acl(Right(ResourceType.GROUP, AclOperation.READ, "h"), host=admin)
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.READ, TOPIC), host=admin)
    for group_id in ("seen", "h"):
        commit_once(jar, group_id)

    def listed(client: JarClient) -> set[str]:
        return {each.group_id for each in client.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).groups}

    assert listed(jar.bob()) == {"seen"}
    assert listed(jar.connect(ip=admin)) >= {"seen", "h"}


def test_offsets_are_forgotten_of_topics_that_may_be_read(jar: Secured) -> None:
    jar.set_acl(Right(ResourceType.GROUP, AclOperation.ALL, "forgetful"), host="*")
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.READ, TOPIC), host="10.0.0.1")
    commit_once(jar, "forgetful")
    topic = OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])
    for ip, code in ((BOB, 29), ("10.0.0.1", 0)):
        client = jar.connect(ip=ip)
        client.send(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest("forgetful", [topic]))
        jar.pass_ms(1000)
        (answer,) = client.new_answers()
        assert answer.error_code == 0
        assert answer.topics[0].partitions[0].error_code == code


def commit_once(jar: Secured, group_id: str) -> None:
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[OffsetCommitRequestPartition(0, 1)])
    client = jar.connect(ip="10.0.0.1")
    client.send(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id, topics=[topic]))
    jar.pass_ms(1000)
    assert error_codes(client.new_answers()[0]) == {0}


def test_super_users_may_do_everything_whatever_is_denied() -> None:
    jar = Secured(**{"super.users": "User:ANONYMOUS;User:other"})
    try:
        jar.create_topic(TOPIC)
        jar.set_acl(Right(ResourceType.TOPIC, AclOperation.ALL, TOPIC), PermissionType.DENY, host="*")
        request = MetadataRequest([MetadataRequestTopic(name=TOPIC)], False, True, True)
        answer = jar.bob().ask(ApiKey.METADATA, 10, request)
        assert (answer.topics[0].error_code, answer.topics[0].topic_authorized_operations) == (0, 3576)
        assert answer.cluster_authorized_operations == 8096
    finally:
        jar.close()


def test_what_no_acl_is_about_may_be_open_to_everyone() -> None:
    jar = Secured(**{"allow.everyone.if.no.acl.found": "true"})
    try:
        jar.create_topic(TOPIC)
        request = MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)
        assert jar.bob().ask(ApiKey.METADATA, 10, request).topics[0].error_code == 0
        jar.set_acl(Right(ResourceType.TOPIC, AclOperation.READ, TOPIC), host="10.9.9.9")
        assert jar.bob().ask(ApiKey.METADATA, 10, request).topics[0].error_code == 29
    finally:
        jar.close()


def test_acls_are_there_after_a_restart_and_on_other_brokers(jar: Secured) -> None:
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.READ, TOPIC))
    stored = jar.join().all_configs()
    (configs,) = [value for (kind, _), value in stored.items() if kind is STORED_AS]
    assert len(configs) == 1
    with pytest.raises(ConflictError):
        jar.join().replace_configs(
            STORED_AS, next(iter(n for k, n in stored if k is STORED_AS)), {}, expected={}
        )


def consumer_beat(client: JarClient, jar: Secured, epoch: int = 0, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest("consumers", "bob", epoch, topic_partitions=None)
    if epoch == 0:
        request = request.but(rebalance_timeout_ms=1_000, topic_partitions=[], **fields)
    client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    jar.pass_ms(10)
    (answer,) = client.new_answers()
    return answer


def consumers_described(client: JarClient, jar: Secured) -> Any:
    client.send(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(["consumers"]))
    jar.pass_ms(10)
    (answer,) = client.new_answers()
    return answer.groups[0]


def test_a_topic_that_may_not_be_described_is_neither_subscribed_nor_matched_nor_shown(jar: Secured) -> None:
    # scenarios 6, 54 of consumer groups
    jar.set_acl(Right(ResourceType.GROUP, AclOperation.READ, "consumers"))
    describe = Right(ResourceType.TOPIC, AclOperation.DESCRIBE, TOPIC)
    jar.set_acl(describe)
    client = jar.bob()
    refused = consumer_beat(client, jar, subscribed_topic_names=[TOPIC, "doomed"])
    assert refused.error_code == 29
    assert consumers_described(client, jar).error_code == 69
    assert consumer_beat(client, jar, subscribed_topic_regex=f"{TOPIC}|doomed").error_code == 0
    matched = consumer_beat(client, jar, 1)
    assert len(matched.assignment.topic_partitions) == 1
    described = consumers_described(client, jar)
    assert (described.error_code, len(described.members)) == (0, 1)
    jar.set_acl(describe, PermissionType.DENY)
    described = consumers_described(client, jar)
    assert (described.error_code, described.members) == (29, [])


def test_who_inspects_a_group_sees_only_topics_that_he_may_describe(jar: Secured) -> None:
    jar.create_topic("inspected-topic")
    jar.set_acl(Right(ResourceType.GROUP, AclOperation.READ, "inspected"))
    for name in (TOPIC, "inspected-topic"):
        jar.set_acl(Right(ResourceType.TOPIC, AclOperation.READ, name))
    client = jar.bob()
    partition = OffsetCommitRequestPartition(0, 3)
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in (TOPIC, "inspected-topic")
    ]
    client.send(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest("inspected", -1, "", None, -1, topics))
    jar.pass_ms(1000)
    (committed,) = client.new_answers()
    assert not error_codes(committed) - {0}
    jar.set_acl(Right(ResourceType.TOPIC, AclOperation.DESCRIBE, "inspected-topic"), PermissionType.DENY)
    client.send(ApiKey.INSPECT_GROUPS, 0, InspectGroupsRequest(["inspected"]))
    jar.pass_ms(1000)
    (answer,) = client.new_answers()
    content = json.loads(answer.groups[0].content)
    assert [each["topic"] for each in content["offsets"]] == [TOPIC]
