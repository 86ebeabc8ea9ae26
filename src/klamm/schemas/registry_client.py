"""A client of a schema registry: what it was told once it does not ask again."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from klamm.errors import KlammError

TIMEOUT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class SchemaRegistryError(KlammError):
    """The registry refused a request, or did not answer; `code` is the one of its answer, 0 without one."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """Another schema that a schema uses."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of the registry, with the texts of those that it uses, each after those that it needs."""

    schema_id: int
    schema_type: str
    text: str
    used: tuple[tuple[str, str], ...] = ()


class SchemaRegistry:
    """A registry by its URL, or several by URLs with commas: the next one is asked if one does not answer."""

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        ca_location: str | None = None,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self._urls = [_checked(each.strip().rstrip("/")) for each in url.split(",") if each.strip()]
        if not self._urls:
            raise ValueError("the URL of the schema registry is empty: write http://host:port")
        self._authorization = _authorization(username, password, token)
        self._tls = ssl.create_default_context(cafile=ca_location) if ca_location else None
        self._timeout_s = timeout
        self._by_id: dict[tuple[int, str], RegisteredSchema] = {}
        self._ids: dict[tuple[Any, ...], int] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"SchemaRegistry({','.join(self._urls)!r})"

    def schema(self, schema_id: int, form: str = "") -> RegisteredSchema:
        """The schema of an id. Raises SchemaRegistryError."""
        key = (schema_id, form)
        with self._lock:
            found = self._by_id.get(key)
        if found is None:
            query = f"?format={form}" if form else ""
            found = self._understood(self.ask("GET", f"/schemas/ids/{schema_id}{query}"), schema_id, form)
            with self._lock:
                self._by_id[key] = found
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        """The latest schema of a subject. Raises SchemaRegistryError."""
        answer = self.ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        return self._understood(answer, int(answer["id"]), "")

    def id_of(
        self,
        subject: str,
        schema_type: str,
        text: str,
        references: Sequence[SchemaReference] = (),
        *,
        register: bool = True,
    ) -> int:
        """The id of a schema under a subject; it is registered there first unless told not to.

        Raises SchemaRegistryError, also if the schema is not compatible with the subject's earlier ones.
        """
        key = (subject, schema_type, text, tuple(references))
        with self._lock:
            known = self._ids.get(key)
        if known is None:
            path = f"/subjects/{quote(subject, safe='')}{'/versions' if register else ''}"
            known = int(self.ask("POST", path, _request(schema_type, text, references))["id"])
            with self._lock:
                self._ids[key] = known
        return known

    def version_of(
        self, subject: str, schema_type: str, text: str, references: Sequence[SchemaReference] = ()
    ) -> int:
        """The version of a subject that has this schema. Raises SchemaRegistryError."""
        path = f"/subjects/{quote(subject, safe='')}"
        return int(self.ask("POST", path, _request(schema_type, text, references))["version"])

    def texts_of(self, references: Sequence[SchemaReference], form: str = "") -> tuple[tuple[str, str], ...]:
        """The texts that these references lead to, by name, each after those that it needs."""
        used: dict[str, str] = {}
        self._collect([_as_json(each) for each in references], form, used)
        return tuple(used.items())

    def _understood(self, answer: dict[str, Any], schema_id: int, form: str) -> RegisteredSchema:
        used: dict[str, str] = {}
        self._collect(answer.get("references") or (), form, used)
        schema_type = str(answer.get("schemaType") or "AVRO")
        return RegisteredSchema(schema_id, schema_type, str(answer["schema"]), tuple(used.items()))

    def _collect(self, references: Sequence[dict[str, Any]], form: str, used: dict[str, str]) -> None:
        for each in references:
            if each["name"] in used:
                continue
            path = f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}"
            answer = self.ask("GET", path + (f"?format={form}" if form else ""))
            self._collect(answer.get("references") or (), form, used)
            used[each["name"]] = str(answer["schema"])

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request of the REST API. Raises SchemaRegistryError."""
        failures: list[str] = []
        for url in self._urls:
            try:
                return self._ask(f"{url}{path}", method, body)
            except SchemaRegistryError as error:
                if error.code:
                    raise
                failures.append(str(error))
        raise SchemaRegistryError("; ".join(failures))

    def _ask(self, url: str, method: str, body: Any) -> Any:
        request = Request(url, method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("Accept", _CONTENT_TYPE)
        request.add_header("Content-Type", _CONTENT_TYPE)
        if self._authorization is not None:
            request.add_unredirected_header("Authorization", self._authorization)
        until = time.monotonic() + self._timeout_s
        try:
            with urlopen(request, timeout=self._timeout_s, context=self._tls) as answer:
                raw = _whole(answer, until)
        except HTTPError as error:
            with error:
                raise _refusal(error.code, error.read(MAX_ANSWER_BYTES), method, url) from None
        except (URLError, OSError) as error:
            cause = getattr(error, "reason", error)
            raise SchemaRegistryError(
                f"the schema registry did not answer {method} {url} within {self._timeout_s:g} s: {cause}"
            ) from error
        if len(raw) > MAX_ANSWER_BYTES:
            raise SchemaRegistryError(f"the answer to {method} {url} exceeds {MAX_ANSWER_BYTES} bytes", 1)
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise SchemaRegistryError(
                f"the answer to {method} {url} is not JSON: is this the address of a schema registry?", 1
            ) from error


def _whole(answer: Any, until: float) -> bytes:
    """A body, as far as it may be large. The time-out of a socket is for each part of it."""
    parts: list[bytes] = []
    size = 0
    while size <= MAX_ANSWER_BYTES and (part := answer.read1(MAX_ANSWER_BYTES + 1 - size)):
        parts.append(part)
        size += len(part)
        if time.monotonic() > until:
            raise TimeoutError(f"{size} bytes came until then")
    return b"".join(parts)


def _request(schema_type: str, text: str, references: Sequence[SchemaReference]) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": text, "schemaType": schema_type}
    return body | ({"references": [_as_json(each) for each in references]} if references else {})


def _as_json(reference: SchemaReference) -> dict[str, Any]:
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def _refusal(status: int, raw: bytes, method: str, url: str) -> SchemaRegistryError:
    try:
        answer = json.loads(raw)
        code, message = int(answer["error_code"]), str(answer["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        code, message = status, f"HTTP {status}"
    return SchemaRegistryError(f"the schema registry refused {method} {url}: {message} ({code})", code)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url} is not the URL of a schema registry: write http://host:port")
    return url


def _authorization(username: str | None, password: str | None, token: str | None) -> str | None:
    if token is not None:
        return f"Bearer {token}"
    if username is not None:
        credentials = f"{username}:{password or ''}".encode()
        return f"Basic {base64.b64encode(credentials).decode()}"
    return None
