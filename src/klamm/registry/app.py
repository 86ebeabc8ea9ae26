"""The REST API of the registry. Handlers run on threads: a decision waits for the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from klamm.registry.answers import TYPES, loaded, number_in, schema_in, schema_out, text_in, version_out
from klamm.registry.model import RegistryError, Schema, SchemaVersion
from klamm.registry.registry import Decided, Registry
from klamm.registry.service import RegistryService
from klamm.version import __version__

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MAX_BODY_BYTES: Final = 8 * 1024 * 1024

_log = logging.getLogger(__name__)


class Answer(JSONResponse):
    """JSON with the content type that clients of a registry ask for."""

    media_type = CONTENT_TYPE


class Api:
    """One handler for each path and method."""

    def __init__(self, service: RegistryService) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """The paths. A subject may have a slash: clients send it as %2F, and it comes back decoded."""
        version = "/subjects/{subject:path}/versions/{version}"
        table: tuple[tuple[str, str, Callable[[Ask], Any]], ...] = (
            ("GET", "/", lambda _ask: {}),
            ("GET", "/contexts", lambda _ask: ["."]),
            ("GET", "/v1/metadata/id", lambda _ask: {"scope": {"path": [], "clusters": {}}, "id": ""}),
            ("GET", "/v1/metadata/version", lambda _ask: {"version": f"klamm {__version__}", "commitId": ""}),
            ("GET", "/schemas", self.list_schemas),
            ("GET", "/schemas/types", lambda _ask: list(TYPES)),
            ("GET", "/schemas/ids/{id}", self.get_schema),
            ("GET", "/schemas/ids/{id}/schema", self.get_schema_text),
            ("GET", "/schemas/ids/{id}/subjects", self.subjects_of_schema),
            ("GET", "/schemas/ids/{id}/versions", self.versions_of_schema),
            ("GET", "/subjects", self.list_subjects),
            ("GET", "/subjects/{subject:path}/versions", self.list_versions),
            ("POST", "/subjects/{subject:path}/versions", self.register),
            ("GET", version, self.get_version),
            ("DELETE", version, self.delete_version),
            ("GET", f"{version}/schema", self.get_version_text),
            ("GET", f"{version}/referencedby", self.referenced_by),
            ("POST", "/subjects/{subject:path}", self.find),
            ("DELETE", "/subjects/{subject:path}", self.delete_subject),
            ("POST", "/compatibility/subjects/{subject:path}/versions", self.check),
            ("POST", "/compatibility/subjects/{subject:path}/versions/{version}", self.check),
            ("GET", "/config", self.get_level),
            ("PUT", "/config", self.set_level),
            ("DELETE", "/config", self.remove_level),
            ("GET", "/config/{subject:path}", self.get_level),
            ("PUT", "/config/{subject:path}", self.set_level),
            ("DELETE", "/config/{subject:path}", self.remove_level),
            ("GET", "/mode", self.get_mode),
            ("PUT", "/mode", self.set_mode),
            ("DELETE", "/mode", self.remove_mode),
            ("GET", "/mode/{subject:path}", self.get_mode),
            ("PUT", "/mode/{subject:path}", self.set_mode),
            ("DELETE", "/mode/{subject:path}", self.remove_mode),
        )
        return [Route(path, _endpoint(handle), methods=[method]) for method, path, handle in table]

    def _look(self, read: Callable[[Registry], Any]) -> Any:
        return self._service.look(read)

    def _change(self, decide: Callable[[Registry], Decided]) -> Any:
        return self._service.change(decide)

    # Schemas by id

    def list_schemas(self, ask: Ask) -> Any:
        prefix, deleted = ask.query("subjectPrefix"), ask.flag("deleted")
        found = self._look(lambda registry: list(registry.state.all_versions(deleted=deleted)))
        named = [each for each in found if each.subject.startswith(_plain(prefix))]
        if ask.flag("latestOnly"):
            named = list({each.subject: each for each in named}.values())
        return ask.page([version_out(each) for each in named])

    def get_schema(self, ask: Ask) -> Any:
        last_id = self._look(lambda registry: registry.state.last_id)
        return schema_out(self._schema(ask)) | ({"maxId": last_id} if ask.flag("fetchMaxId") else {})

    def get_schema_text(self, ask: Ask) -> Response:
        return PlainTextResponse(self._schema(ask).text)

    def _schema(self, ask: Ask) -> Schema:
        schema_id, form = ask.number("id"), ask.query("format")
        found: Schema = self._look(lambda registry: registry.in_form(registry.schema(schema_id), form))
        return found

    def subjects_of_schema(self, ask: Ask) -> Any:
        return sorted({each.subject for each in self._of_id(ask)})

    def versions_of_schema(self, ask: Ask) -> Any:
        return [{"subject": each.subject, "version": each.version} for each in self._of_id(ask)]

    def _of_id(self, ask: Ask) -> list[SchemaVersion]:
        schema_id, deleted = ask.number("id"), ask.flag("deleted")

        def read(registry: Registry) -> list[SchemaVersion]:
            registry.schema(schema_id)
            return registry.state.of_id(schema_id, deleted=deleted)

        found: list[SchemaVersion] = self._look(read)
        return found

    # Subjects

    def list_subjects(self, ask: Ask) -> Any:
        prefix, deleted = _plain(ask.query("subjectPrefix")), ask.flag("deleted")
        found = self._look(lambda registry: list(registry.state.all_versions(deleted=deleted)))
        return ask.page(sorted({each.subject for each in found if each.subject.startswith(prefix)}))

    def list_versions(self, ask: Ask) -> Any:
        subject, deleted = ask.subject, ask.flag("deleted")
        return [
            each.version for each in self._look(lambda registry: registry.versions(subject, deleted=deleted))
        ]

    def register(self, ask: Ask) -> Any:
        subject, schema = ask.subject, schema_in(ask.body)
        schema_id, version = number_in(ask.body, "id"), number_in(ask.body, "version")
        made = self._change(lambda registry: registry.register(subject, schema, schema_id, version))
        return {"id": made.schema_id, "version": made.version} | schema_out(made.schema)

    def find(self, ask: Ask) -> Any:
        subject, schema, deleted = ask.subject, schema_in(ask.body), ask.flag("deleted")
        return version_out(self._look(lambda registry: registry.find(subject, schema, deleted=deleted)))

    def get_version(self, ask: Ask) -> Any:
        return version_out(self._version(ask))

    def get_version_text(self, ask: Ask) -> Response:
        return PlainTextResponse(self._version(ask).schema.text)

    def referenced_by(self, ask: Ask) -> Any:
        found = self._version(ask)
        return self._look(lambda registry: registry.state.referenced_by(found.subject, found.version))

    def _version(self, ask: Ask) -> SchemaVersion:
        subject, stated, deleted = ask.subject, ask.path["version"], ask.flag("deleted")
        form = ask.query("format")

        def read(registry: Registry) -> SchemaVersion:
            found = registry.version(subject, stated, deleted=deleted)
            return replace(found, schema=registry.in_form(found.schema, form))

        found: SchemaVersion = self._look(read)
        return found

    def delete_subject(self, ask: Ask) -> Any:
        subject, permanent = ask.subject, ask.flag("permanent")
        return self._change(lambda registry: registry.delete_subject(subject, permanent=permanent))

    def delete_version(self, ask: Ask) -> Any:
        subject, stated, permanent = ask.subject, ask.path["version"], ask.flag("permanent")
        return self._change(lambda registry: registry.delete_version(subject, stated, permanent=permanent))

    def check(self, ask: Ask) -> Any:
        subject, schema, version = ask.subject, schema_in(ask.body), ask.path.get("version")
        found = self._look(lambda registry: registry.compatible(subject, schema, version))
        return {"is_compatible": not found} | ({"messages": found} if ask.flag("verbose") else {})

    # Levels and modes

    def get_level(self, ask: Ask) -> Any:
        subject, or_default = ask.path.get("subject"), ask.flag("defaultToGlobal")
        if subject is None:
            return {"compatibilityLevel": self._look(lambda registry: registry.state.level(None))}
        return {
            "compatibilityLevel": self._look(lambda registry: registry.level(subject, or_default=or_default))
        }

    def set_level(self, ask: Ask) -> Any:
        subject, level = ask.path.get("subject"), text_in(ask.body, "compatibility")
        return self._change(lambda registry: registry.set_level(subject, level))

    def remove_level(self, ask: Ask) -> Any:
        subject = ask.path.get("subject")
        return self._change(lambda registry: registry.remove_level(subject))

    def get_mode(self, ask: Ask) -> Any:
        subject, or_default = ask.path.get("subject"), ask.flag("defaultToGlobal")
        if subject is None:
            return {"mode": self._look(lambda registry: registry.state.mode(None))}
        return {"mode": self._look(lambda registry: registry.mode(subject, or_default=or_default))}

    def set_mode(self, ask: Ask) -> Any:
        subject, mode, force = ask.path.get("subject"), text_in(ask.body, "mode"), ask.flag("force")
        return self._change(lambda registry: registry.set_mode(subject, mode, force=force))

    def remove_mode(self, ask: Ask) -> Any:
        subject = ask.path.get("subject")
        return self._change(lambda registry: registry.remove_mode(subject))


class Ask:
    """One request, its body read."""

    def __init__(self, request: Request, body: bytes) -> None:
        self.path: dict[str, str] = request.path_params
        self._request = request
        self._body = body

    @property
    def body(self) -> dict[str, Any]:
        return loaded(self._body)

    @property
    def subject(self) -> str:
        return self.path["subject"]

    def query(self, name: str) -> str:
        return self._request.query_params.get(name, "")

    def flag(self, name: str) -> bool:
        return self.query(name).lower() == "true"

    def number(self, name: str) -> int:
        stated = self.path[name]
        if not stated.isascii() or not stated.isdigit() or len(stated) > 10:
            raise RegistryError(404, f"{stated} is not a schema id")
        return int(stated)

    def page(self, found: list[Any]) -> list[Any]:
        """The part of a list that the client asks for."""
        parts = {}
        for name in ("offset", "limit"):
            stated = self.query(name) or ("0" if name == "offset" else "-1")
            try:
                parts[name] = int(stated)
            except ValueError:
                raise RegistryError(422, f"{name}={stated} is not a number") from None
        begin = max(0, parts["offset"])
        return found[begin : begin + parts["limit"]] if parts["limit"] >= 0 else found[begin:]


def application(service: RegistryService) -> Starlette:
    """The registry as an ASGI application."""

    def failed(_request: Request, error: Exception) -> Response:
        match error:
            case RegistryError():
                return _refusal(error)
            case HTTPException():
                return _refusal(RegistryError(error.status_code, f"HTTP {error.status_code} {error.detail}"))
            case _:
                _log.error("request failed", exc_info=error)
                return _refusal(RegistryError(50001, "internal error, see the registry's log"))

    handlers: Any = {RegistryError: failed, HTTPException: failed, Exception: failed}
    return Starlette(routes=Api(service).routes(), exception_handlers=handlers)


def _endpoint(handle: Callable[[Ask], Any]) -> Any:
    from starlette.concurrency import run_in_threadpool  # noqa: PLC0415 - beside its only use

    async def endpoint(request: Request) -> Response:
        ask = Ask(request, await _body(request))
        answer = await run_in_threadpool(handle, ask)
        return answer if isinstance(answer, Response) else Answer(answer)

    return endpoint


async def _body(request: Request) -> bytes:
    """The body, as far as one may be large."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise RegistryError(413, f"the request exceeds {MAX_BODY_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _refusal(error: RegistryError) -> Response:
    return Answer({"error_code": error.code, "message": str(error)}, status_code=error.status)


def _plain(prefix: str) -> str:
    """A prefix without the context that some clients put before it: `:*:` means every one."""
    return "" if prefix == ":*:" else prefix
