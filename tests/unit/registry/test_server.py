"""The registry over HTTP, on a broker: what is registered is in the topic, for every registry on it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import klamm
from klamm.config import Password
from klamm.registry.app import MAX_BODY_BYTES
from klamm.registry.model import RegistryError
from klamm.registry.server import RegistryServer
from klamm.schemas.registry_client import SchemaRegistry, SchemaRegistryError

INT = {"schema": '"int"'}


def ask(url: str, method: str, path: str, body: Any = None, **fields: str) -> tuple[int, Any]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=60)
    try:
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, sent, fields)
        answer = connection.getresponse()
        assert (
            "text" in str(answer.headers["Content-Type"])
            or "schemaregistry" in answer.headers["Content-Type"]
        )
        raw = answer.read()
        return answer.status, json.loads(raw)
    finally:
        connection.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as running:
        yield running


@pytest.fixture(scope="module")
def url(broker: klamm.Broker) -> Iterator[str]:
    with RegistryServer({"bootstrap.servers": broker.bootstrap}) as server:
        yield server.url


def test_a_schema_is_registered_found_and_deleted(url: str) -> None:
    subject = "/subjects/orders-value"
    status, registered = ask(url, "POST", f"{subject}/versions", INT)
    schema_id = registered["id"]
    assert (status, registered) == (200, {"id": schema_id, "version": 1, "schema": '"int"'})
    whole = {"subject": "orders-value", "version": 1, "id": schema_id, "schema": '"int"'}
    assert ask(url, "GET", f"{subject}/versions/latest") == (200, whole)
    assert ask(url, "POST", subject, {"schema": '{"type": "int"}'}) == (200, whole)
    assert ask(url, "GET", f"/schemas/ids/{schema_id}") == (200, {"schema": '"int"'})
    assert ask(url, "GET", f"/schemas/ids/{schema_id}/schema") == (200, "int")
    place = {"subject": "orders-value", "version": 1}
    assert place in ask(url, "GET", f"/schemas/ids/{schema_id}/versions")[1]
    path = "/compatibility/subjects/orders-value/versions/latest?verbose=true"
    check = ask(url, "POST", path, {"schema": '"string"'})[1]
    assert check["is_compatible"] is False
    assert "TYPE_MISMATCH" in check["messages"][0]
    status, refusal = ask(url, "POST", f"{subject}/versions", {"schema": '"string"'})
    assert (status, refusal["error_code"]) == (409, 409)
    none = {"compatibility": "NONE"}
    assert ask(url, "PUT", "/config/orders-value", none) == (200, none)
    assert ask(url, "GET", "/config/orders-value") == (200, {"compatibilityLevel": "NONE"})
    assert ask(url, "GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask(url, "POST", f"{subject}/versions", {"schema": '"string"'})[1]["version"] == 2
    assert ask(url, "DELETE", f"{subject}/versions/2") == (200, 2)
    assert ask(url, "DELETE", subject) == (200, [1])
    assert ask(url, "GET", f"{subject}/versions")[1]["error_code"] == 40401


def test_a_subject_may_have_any_name(url: str) -> None:
    for name in ("a/b", "ü x", "versions", "a/versions", "%"):
        path = f"/subjects/{quote(name, safe='')}"
        assert ask(url, "POST", f"{path}/versions", INT)[0] == 200
        assert ask(url, "GET", f"{path}/versions") == (200, [1])
        assert name in ask(url, "GET", "/subjects")[1]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, 404),
        ("PATCH", "/subjects", None, 405, 405),
        ("GET", "/subjects/absent/versions", None, 404, 40401),
        ("GET", "/schemas/ids/99999", None, 404, 40403),
        ("GET", "/schemas/ids/x", None, 404, 404),
        ("GET", "/subjects/known/versions/1?format=resolved", None, 422, 422),
        ("POST", "/subjects/s/versions", b"{", 400, 400),
        ("POST", "/subjects/s/versions", [], 400, 400),
        ("POST", "/subjects/s/versions", b"[" * 100_000, 400, 400),
        ("POST", "/subjects/s/versions", {}, 422, 42201),
        ("POST", "/subjects/s/versions", {"schema": '"int"', "schemaType": "XML"}, 422, 42201),
        ("POST", "/subjects/s/versions", {"schema": '"int"', "references": [5]}, 422, 42201),
        ("POST", "/subjects/s/versions", {"schema": '"int"', "ruleSet": {"a": 1}}, 422, 422),
        ("POST", "/subjects/s/versions", {"schema": '"int"', "id": "x"}, 422, 422),
        ("POST", "/subjects/s/versions", {"schema": '"colour"'}, 422, 42201),
        ("POST", "/subjects/s/versions", b" " * (MAX_BODY_BYTES + 1), 413, 413),
        ("PUT", "/config", {"compatibility": "SIDEWAYS"}, 422, 42203),
        ("PUT", "/mode", {"mode": "SIDEWAYS"}, 422, 42204),
        ("GET", "/config/s", None, 404, 40408),
    ],
)
def test_a_bad_request_is_told_why(
    url: str, method: str, path: str, body: Any, status: int, code: int
) -> None:
    ask(url, "POST", "/subjects/known/versions", INT)
    answer = ask(url, method, path, body)
    assert (answer[0], answer[1]["error_code"]) == (status, code)
    assert answer[1]["message"]


def test_several_registries_on_a_topic_give_each_schema_one_id(broker: klamm.Broker, url: str) -> None:
    with RegistryServer({"bootstrap.servers": broker.bootstrap}) as other, ThreadPoolExecutor(4) as pool:

        def register(number: int) -> int:
            schema = json.dumps({"type": "fixed", "name": "F", "size": number // 2 + 1})
            target = (url, other.url)[number % 2]
            while True:
                status, answer = ask(target, "POST", f"/subjects/f{number}/versions", {"schema": schema})
                if answer.get("error_code") != 50003:
                    assert status == 200, answer
                    return int(answer["id"])

        ids = list(pool.map(register, range(16)))
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 8
    with RegistryServer({"bootstrap.servers": broker.bootstrap}) as restarted:
        for number, schema_id in enumerate(ids):
            assert ask(restarted.url, "GET", f"/subjects/f{number}/versions/1")[1]["id"] == schema_id
        assert ask(restarted.url, "GET", "/schemas") == ask(url, "GET", "/schemas")


def test_a_topic_that_forgets_is_refused() -> None:
    with klamm.Broker() as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(klamm.NewTopic("_schemas", 1, configs={"cleanup.policy": "delete"}))
        with (
            pytest.raises(RegistryError, match=r"cleanup\.policy=delete"),
            RegistryServer({"bootstrap.servers": broker.bootstrap}),
        ):
            pass


def record_schema(size: int) -> dict[str, str]:
    """A schema whose text has so many bytes at least."""
    return {"schema": json.dumps({"type": "record", "name": "Large", "doc": "d" * size, "fields": []})}


def test_a_schema_of_several_megabytes_is_registered_and_read(url: str) -> None:
    large = record_schema(5 * 1024 * 1024)
    status, registered = ask(url, "POST", "/subjects/large/versions", large)
    assert status == 200, registered["message"]
    assert ask(url, "GET", f"/schemas/ids/{registered['id']}")[1]["schema"] == registered["schema"]


def test_a_schema_that_the_topic_does_not_take_is_refused_with_what_to_do() -> None:
    with klamm.Broker() as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            configs = {"cleanup.policy": "compact", "max.message.bytes": "1000000"}
            admin.create_topics(klamm.NewTopic("_schemas", 1, configs=configs))
        with RegistryServer({"bootstrap.servers": broker.bootstrap}) as server:
            path = "/subjects/large/versions"
            status, refusal = ask(server.url, "POST", path, record_schema(2_000_000))
            assert (status, refusal["error_code"]) == (413, 413)
            assert "klamm topics alter _schemas --config max.message.bytes=" in refusal["message"]
            assert ask(server.url, "POST", path, INT)[0] == 200


def test_a_registry_with_a_token_serves_nobody_else(broker: klamm.Broker) -> None:
    secret = "a-token"
    with RegistryServer({"bootstrap.servers": broker.bootstrap}, token=Password(secret)) as server:
        for fields in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic %%%"}):
            status, refusal = ask(server.url, "GET", "/subjects", **fields)
            assert (status, refusal["error_code"]) == (401, 401)
            assert secret not in str(refusal)
        assert ask(server.url, "DELETE", "/subjects/orders-value")[0] == 401
        for client in (
            SchemaRegistry(server.url, token=secret),
            SchemaRegistry(server.url, username="anybody", password=secret),
        ):
            assert client.ask("GET", "/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
        with pytest.raises(SchemaRegistryError, match="needs its token"):
            SchemaRegistry(server.url).ask("GET", "/schemas/types")


def test_a_web_page_that_has_a_name_for_this_machine_is_refused(url: str) -> None:
    assert ask(url, "GET", "/subjects", Host="evil.example:8081")[0] == 403
    assert ask(url, "GET", "/subjects", Host="localhost:8081")[0] == 200
