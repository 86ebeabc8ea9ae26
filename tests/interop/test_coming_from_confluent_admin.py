"""Admin programs written for confluent-kafka: the same with it and with `klamm.compat.confluent_kafka`."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.timeout(120)]


class Library(NamedTuple):
    """A library with its modules."""

    top: ModuleType
    admin: ModuleType
    serialization: ModuleType
    error: ModuleType


@pytest.fixture(params=["confluent_kafka", "klamm.compat.confluent_kafka"], ids=["theirs", "ours"])
def lib(request: pytest.FixtureRequest) -> Library:
    name = request.param
    modules = (name, f"{name}.admin", f"{name}.serialization", f"{name}.error")
    return Library(*map(importlib.import_module, modules))


@pytest.fixture
def admin(lib: Library, bootstrap: str) -> Any:
    return lib.admin.AdminClient({"bootstrap.servers": bootstrap})


def failure(lib: Library, future: Any) -> str:
    with pytest.raises(lib.top.KafkaException) as raised:
        future.result(20)
    return str(raised.value.args[0].name())


def test_topics_are_created_described_grown_and_deleted(
    lib: Library, admin: Any, bootstrap: str, topic: str
) -> None:
    new = f"{topic}-new"
    created = admin.create_topics([lib.admin.NewTopic(new, num_partitions=2, replication_factor=1)])
    assert created[new].result(20) is None
    again = admin.create_topics([lib.admin.NewTopic(new, 2, 1)])
    assert failure(lib, again[new]) == "TOPIC_ALREADY_EXISTS"
    grown = admin.create_partitions([lib.admin.NewPartitions(new, 3)])
    assert grown[new].result(20) is None
    listed = admin.list_topics(timeout=10)
    assert len(listed.topics[new].partitions) == 3
    assert listed.brokers[listed.controller_id].id == listed.controller_id

    found = admin.describe_topics(lib.top.TopicCollection(topic_names=[new]))[new].result(20)
    assert (found.name, found.is_internal, len(found.partitions)) == (new, False, 3)
    assert len(str(found.topic_id)) == 22
    assert found.partitions[2].id == 2
    assert found.partitions[2].leader.id == found.partitions[2].replicas[0].id
    cluster = admin.describe_cluster().result(20)
    assert cluster.cluster_id == listed.cluster_id
    assert [str(node.id) for node in cluster.nodes] == [node.id_string for node in cluster.nodes]

    assert admin.delete_topics([new], operation_timeout=30)[new].result(20) is None
    unknown = admin.delete_topics([f"{topic}-nowhere"])[f"{topic}-nowhere"]
    assert failure(lib, unknown) == "UNKNOWN_TOPIC_OR_PART"
    with pytest.raises(ValueError, match="list"):
        admin.create_topics([])


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
def test_settings_are_described_changed_and_replaced(lib: Library, admin: Any, topic: str) -> None:
    admin.create_topics([lib.admin.NewTopic(topic, 1, 1)])[topic].result(20)
    resource = lib.admin.ConfigResource("topic", topic)
    change = lib.admin.ConfigEntry(
        "retention.ms", "60000", incremental_operation=lib.admin.AlterConfigOpType.SET
    )
    to_change = lib.admin.ConfigResource(
        lib.admin.ConfigResource.Type.TOPIC, topic, incremental_configs=[change]
    )
    for future in admin.incremental_alter_configs([to_change]).values():
        assert future.result(20) is None

    def values() -> dict[str, Any]:
        ((described, future),) = admin.describe_configs([resource]).items()
        assert described == resource
        return {name: (item.value, item.is_default) for name, item in future.result(20).items()}

    assert values()["retention.ms"] == ("60000", False)
    resource.set_config("cleanup.policy", "compact")
    for future in admin.alter_configs([resource]).values():
        assert future.result(20) is None
    assert values()["cleanup.policy"] == ("compact", False)
    assert values()["retention.ms"][1] is True
    nowhere = lib.admin.ConfigResource("TOPIC", f"{topic}-nowhere")
    assert failure(lib, admin.describe_configs([nowhere])[nowhere]) == "UNKNOWN_TOPIC_OR_PART"
    with pytest.raises(ValueError, match="resource type"):
        lib.admin.ConfigResource("town", topic)


def test_offsets_groups_and_records(lib: Library, admin: Any, bootstrap: str, topic: str) -> None:
    producer = lib.top.Producer({"bootstrap.servers": bootstrap})
    for number in range(3):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(20) == 0
    first, last = lib.top.TopicPartition(topic, 0), lib.top.TopicPartition(topic, 0)
    specs = lib.admin.OffsetSpec
    assert admin.list_offsets({last: specs.latest()})[last].result(20).offset == 3
    deleted = admin.delete_records([lib.top.TopicPartition(topic, 0, 1)])
    assert deleted[first].result(20).low_watermark == 1
    asked = admin.list_offsets(
        {first: specs.earliest()}, isolation_level=lib.top.IsolationLevel.READ_COMMITTED
    )
    assert asked[first].result(20).offset == 1

    group = f"group-{topic}"
    consumer = lib.top.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    assigned: list[Any] = []
    consumer.subscribe([topic], on_assign=lambda _consumer, partitions: assigned.extend(partitions))
    while not assigned:
        consumer.poll(0.1)
    described = admin.describe_consumer_groups([group])[group].result(20)
    assert (described.state, described.type) == (
        lib.top.ConsumerGroupState.STABLE,
        lib.top.ConsumerGroupType.CLASSIC,
    )
    (member,) = described.members
    assert {item.topic for item in member.assignment.topic_partitions} == {topic}
    valid = admin.list_consumer_groups(states={lib.top.ConsumerGroupState.STABLE}).result(20).valid
    assert group in {item.group_id for item in valid}
    assert failure(lib, admin.delete_consumer_groups([group])[group]) == "NON_EMPTY_GROUP"
    consumer.commit(offsets=[lib.top.TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()

    request = lib.top.ConsumerGroupTopicPartitions(group)
    offsets = admin.list_consumer_group_offsets([request])[group].result(20)
    assert [(item.partition, item.offset) for item in offsets.topic_partitions] == [(0, 2)]
    request = lib.top.ConsumerGroupTopicPartitions(group, [lib.top.TopicPartition(topic, 0, 1)])
    altered = admin.alter_consumer_group_offsets([request])[group].result(20)
    assert [(item.offset, item.error) for item in altered.topic_partitions] == [(1, None)]
    assert admin.delete_consumer_groups([group])[group].result(20) is None
    assert failure(lib, admin.delete_consumer_groups([group])[group]) == "GROUP_ID_NOT_FOUND"


def test_what_was_not_read_is_not_committed(lib: Library, admin: Any, bootstrap: str, topic: str) -> None:
    producer = lib.top.Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, "before", partition=0)
    assert producer.flush(20) == 0
    group = f"group-{topic}"
    consumer = lib.top.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    assert consumer.poll(0.5) is None  # its position is known by now
    consumer.close()  # commits automatically
    offsets = admin.list_consumer_group_offsets([lib.top.ConsumerGroupTopicPartitions(group)])
    assert offsets[group].result(20).topic_partitions == []


def test_objects_are_serialized_and_deserialized(lib: Library, bootstrap: str, topic: str) -> None:
    seen: list[Any] = []

    def to_bytes(value: Any, context: Any) -> bytes:
        seen.append((context.topic, context.field, str(context.field), context.headers))
        return str(value).encode()

    producer = lib.top.SerializingProducer(
        {
            "bootstrap.servers": bootstrap,
            "key.serializer": lib.serialization.StringSerializer("utf_8"),
            "value.serializer": to_bytes,
        }
    )
    producer.produce(topic, key="k", value=17, partition=0, headers=[("h", b"1")])
    assert seen == [(topic, lib.serialization.MessageField.VALUE, "value", [("h", b"1")])]
    with pytest.raises(lib.error.KeySerializationError) as refused:
        producer.produce(topic, key=17, value=1)
    assert refused.value.name == "_KEY_SERIALIZATION"
    assert producer.flush(20) == 0
    consumer = lib.top.DeserializingConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-{topic}",
            "auto.offset.reset": "earliest",
            "key.deserializer": lib.serialization.StringDeserializer(),
            "value.deserializer": lambda data, _context: int(data),
        }
    )
    consumer.subscribe([topic])
    while (message := consumer.poll(1.0)) is None:
        pass
    assert (message.key(), message.value()) == ("k", 17)
    producer.produce(topic, key="k", value="no number", partition=0)
    assert producer.flush(20) == 0
    with pytest.raises(lib.error.ValueDeserializationError) as failed:
        consumer.poll(20)
    assert failed.value.kafka_message.value() == b"no number"
    with pytest.raises(NotImplementedError):
        consumer.consume()
    consumer.close()


def test_numbers_and_texts_have_the_bytes_of_java(lib: Library) -> None:
    made = lib.serialization
    for serializer, deserializer, value, data in (
        (made.IntegerSerializer(), made.IntegerDeserializer(), -2, b"\xff\xff\xff\xfe"),
        (made.DoubleSerializer(), made.DoubleDeserializer(), 0.5, b"\x3f\xe0" + bytes(6)),
        (made.StringSerializer("utf_16_be"), made.StringDeserializer("utf_16_be"), "k", b"\x00k"),
    ):
        assert serializer(value) == data
        assert deserializer(data) == value
        assert serializer(None) is None
        assert deserializer(None) is None
    with pytest.raises(made.SerializationError):
        made.IntegerDeserializer()(b"12")


def test_an_election_that_is_not_needed_is_an_error_of_its_partition(
    lib: Library, admin: Any, topic: str
) -> None:
    admin.create_topics([lib.admin.NewTopic(topic, 1, 1)])[topic].result(20)
    chosen = [lib.top.TopicPartition(topic, 0), lib.top.TopicPartition(topic, 7)]
    elected = admin.elect_leaders(lib.top.ElectionType.PREFERRED, chosen).result(20)
    assert {item: error.name() for item, error in elected.items()} == {
        chosen[0]: "ELECTION_NOT_NEEDED",
        chosen[1]: "UNKNOWN_TOPIC_OR_PART",
    }
    assert all(item.error.code() == error.code() for item, error in elected.items())
