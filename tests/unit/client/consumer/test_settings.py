"""Settings that cannot be are refused where they are given, and say what to write."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.client.consumer.settings import parse
from klamm.config import ConfigError
from klamm.errors import InvalidGroupIdError
from klamm.protocol.types import TopicPartition


def parsed(**given: Any) -> Any:
    return parse(None, {"bootstrap_servers": "h:1", **given}, 7)[1]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"heartbeat_interval_ms": 45_000}, "at most 15000"),
        ({"fetch_max_wait_ms": 30_000}, r"request\.timeout\.ms"),
        ({"default_api_timeout_ms": 10_000}, r"request\.timeout\.ms"),
        ({"enable_auto_commit": True}, r"set group\.id"),
        ({"group_instance_id": ".."}, "1 to 249"),
        ({"group_instance_id": "a b"}, "1 to 249"),
        ({"max_poll_records": 0}, r"max\.poll\.records"),
        ({"auto_offset_reset": "smallest"}, "earliest"),
        ({"group_protocol": "modern"}, "classic, consumer"),
        ({"isolation_level": "serializable"}, "read_committed"),
        ({"on_deserialize_error": "ignore"}, "raise or skip"),
        ({"value_deserializer": "jsn"}, "write one of avro, json, json-schema, protobuf, string"),
        ({"offset_store": "./offsets"}, "FileOffsetStore"),
        ({"start_at": -1}, "earliest, latest"),
        ({"start_at": {TopicPartition("t", 0): "middle"}}, "earliest, latest"),
        ({"sesion_timeout_ms": 1}, r"session\.timeout\.ms"),
    ],
)
def test_a_setting_that_cannot_be_says_what_to_write(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parsed(**given)


@pytest.mark.parametrize("group_id", ["", "  "])
def test_a_group_without_a_name_is_refused(group_id: str) -> None:
    with pytest.raises(InvalidGroupIdError):
        parsed(group_id=group_id)


def test_without_a_group_nothing_commits_by_itself() -> None:
    assert not parsed().is_auto_commit
    assert parsed(group_id="g").is_auto_commit


def test_a_client_is_named_after_its_group_and_instance() -> None:
    assert parsed(group_id="g").client_id == "consumer-g-7"
    assert parsed(group_id="g", group_instance_id="one").client_id == "consumer-g-one"
    assert parsed(client_id="mine").client_id == "mine"
