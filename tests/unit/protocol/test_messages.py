"""Messages: as generated from Kafka's schemas, and as values."""

from __future__ import annotations

import ast
import pickle
from copy import copy, deepcopy

import pytest

import make_messages
from klamm.protocol.message import Message
from klamm.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.list_groups import ListGroupsRequest


def test_the_modules_are_as_generated() -> None:
    for path, text in make_messages.texts().items():
        is_same = ast.dump(ast.parse(path.read_text())) == ast.dump(ast.parse(text))
        assert is_same, f"{path.name}: run tools/make_messages.py"


def test_messages_are_equal_if_all_fields_are() -> None:
    assert HeartbeatRequest("g", 3, "anna") == HeartbeatRequest("g", member_id="anna", generation_id=3)
    assert HeartbeatRequest("g", 3) != HeartbeatRequest("g", 4)
    assert HeartbeatRequest() != HeartbeatResponse()
    with pytest.raises(TypeError):
        hash(HeartbeatResponse())


def test_a_copy_has_other_values_where_they_are_given() -> None:
    request = HeartbeatRequest("g", 3, "anna")
    assert request.but(generation_id=4) == HeartbeatRequest("g", 4, "anna")
    assert request == HeartbeatRequest("g", 3, "anna")
    with pytest.raises(TypeError):
        request.but(generation=4)


def test_a_message_prints_all_fields() -> None:
    assert repr(HeartbeatResponse(0, 27)) == "HeartbeatResponse(throttle_time_ms=0, error_code=27)"


def test_a_message_has_no_other_fields() -> None:
    with pytest.raises(AttributeError):
        HeartbeatResponse().error = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("message", [HeartbeatRequest("g", 3, "anna"), ListGroupsRequest(["Stable"])])
def test_messages_are_copied_and_pickled(message: Message) -> None:
    assert copy(message) == deepcopy(message) == pickle.loads(pickle.dumps(message)) == message
    assert copy(message) is not message
