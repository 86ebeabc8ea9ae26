"""APIs of klamm's own are offered to klamm's clients, and to nobody else."""

from __future__ import annotations

import pytest

from internals.jar import Jar
from klamm.protocol.api import OWN_APIS, ApiKey
from klamm.protocol.messages.api_versions import ApiVersionsRequest


@pytest.mark.parametrize(
    ("version", "name", "offered"),
    [(3, "klamm", True), (4, "klamm", True), (3, "apache-kafka-java", False), (3, "klamm-x", False)],
)
def test_keys_that_kafka_does_not_have_are_offered_by_the_name_of_the_software(
    version: int, name: str, offered: bool
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    response = Jar().connect().ask(ApiKey.API_VERSIONS, version, request)
    keys = {item.api_key for item in response.api_keys}
    assert (keys >= OWN_APIS) is offered
    assert offered or not OWN_APIS & keys


def test_clients_that_do_not_say_their_name_see_kafkas_keys_only() -> None:
    for version in (0, 1, 2):
        response = Jar().connect().ask(ApiKey.API_VERSIONS, version, ApiVersionsRequest())
        assert not OWN_APIS & {item.api_key for item in response.api_keys}
