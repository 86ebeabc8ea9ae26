"""Every API has a shape for "something broke here", in every version that is served."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from klamm.broker.net.failures import failure_of
from klamm.broker.routes import ROUTES
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import response_decoder, response_encoder
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema import schema_versions

EVERY_API = [pytest.param(key, id=key.name) for key in ApiKey]


def filled(message: Any, module: Any) -> Any:
    """A message with one item in each of its lists."""
    for _, _, name, declared, *_ in message.SCHEMA:
        if not declared.startswith("[]"):
            continue
        inner = declared.strip("[]?")
        if hasattr(module, inner):
            item = filled(getattr(module, inner)(), module)
        else:
            item = {"string": "x", "uuid": bytes(16)}.get(inner, 3)
        setattr(message, name, [item])
    return message


def error_codes(message: Any) -> list[int]:
    """All error codes in a message, however deep."""
    found = []
    for name, value in message.values().items():
        if name in ("error_code", "partition_error_code"):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [code for item in value if isinstance(item, Message) for code in error_codes(item)]
    return found


@pytest.mark.parametrize("key", EVERY_API)
def test_an_apis_failure_can_be_sent_in_every_version_and_says_so(key: ApiKey) -> None:
    module = importlib.import_module(f"klamm.protocol.messages.{key.name.lower()}")
    name = "".join(map(str.title, key.name.split("_")))
    request = filled(getattr(module, f"{name}Request")(), module)
    response = failure_of(key)(request, ErrorCode.unknown_server_error)
    for version in schema_versions(key):
        encoded = b"".join(response_encoder(key, version)(response))
        codes = error_codes(response_decoder(key, version)(encoded, 0))
        assert set(codes) <= {-1, 0}
        assert -1 in codes or key in NOTHING_TO_SAY.get(version, ())


# Versions whose answer to these has no place for an error.
NOTHING_TO_SAY = {
    0: (ApiKey.OFFSET_FETCH,),
    1: (ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_LOG_DIRS),
    2: (ApiKey.DESCRIBE_LOG_DIRS,),
}


def test_every_route_has_a_handler() -> None:
    for route in ROUTES:
        assert callable(route.load())
        assert route.min_version <= route.max_version
        assert route.min_version in schema_versions(route.api_key)
        assert route.max_version in schema_versions(route.api_key)
