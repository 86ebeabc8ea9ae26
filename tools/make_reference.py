"""The reference pages of the documentation: settings, API versions, errors and Python API, from the code.

`tools/docs_site.py` adds them to the site when it is built. To read them as files:

    python tools/make_reference.py FOLDER
"""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import compat_names
import klamm
from klamm import aio, errors
from klamm.broker.config.settings import BROKER_SETTINGS
from klamm.broker.routes import ROUTES
from klamm.broker.security.table import RULES
from klamm.cli import exit_codes
from klamm.client import config as client_config
from klamm.config import Setting
from klamm.protocol.errors import ErrorCode
from klamm.storage.topic_settings import TOPIC_SETTINGS

CLIENTS: Final = {
    "Consumer": client_config.CONSUMER,
    "Producer": client_config.PRODUCER,
    "Admin": client_config.ADMIN,
}
# Methods that a class has by its nature: they would only make its page longer.
_IMPLIED: Final = frozenset({"__init__", "__init_subclass__", "__class_getitem__", "__subclasshook__"})


def pages() -> dict[str, str]:
    """Path within the site -> Markdown."""
    return {
        "reference/broker-settings.md": broker_settings(),
        "reference/topic-settings.md": topic_settings(),
        "reference/client-settings.md": client_settings(),
        "reference/api-versions.md": api_versions(),
        "reference/errors.md": error_reference(),
        "reference/python.md": python_api(),
        "reference/asyncio.md": asyncio_api(),
        "reference/other-libraries.md": compat_names.page(),
    }


def broker_settings() -> str:
    """Settings of the broker: those with an effect, and the accepted ones without."""
    settings = sorted(BROKER_SETTINGS.settings.values(), key=lambda item: item.name)
    used = [item for item in settings if item.has_effect]
    idle = [item for item in settings if not item.has_effect]
    return "\n".join(
        [
            "# Broker settings\n",
            "Set them in a file (`--config`), in the environment, or with `--set NAME=VALUE`; "
            "see [Run a broker](../broker.md). *Dynamic* settings can change while the broker runs.\n",
            *_settings_table(used, dynamic=True),
            "\n## Accepted without effect\n",
            "These belong to parts of Apache Kafka that klamm does not have: replication, the controller "
            "quorum, thread pools, quotas. Their values are checked, so that a file for Kafka can be used.\n",
            ", ".join(f"`{item.name}`" for item in idle) + "\n",
        ]
    )


def topic_settings() -> str:
    """Settings of topics."""
    settings = sorted(TOPIC_SETTINGS.settings.values(), key=lambda item: item.name)
    return "\n".join(
        [
            "# Topic settings\n",
            "Set them when you create a topic, or later: "
            "`klamm topics create orders --config retention.ms=60000`, `klamm topics alter orders "
            "--config retention.ms=60000`.\n",
            *_settings_table([item for item in settings if item.has_effect]),
            "\n## Accepted without effect\n",
            ", ".join(f"`{item.name}`" for item in settings if not item.has_effect) + "\n",
        ]
    )


def client_settings() -> str:
    """Settings of the consumer, the producer and the admin client."""
    lines = [
        "# Client settings\n",
        "Give them as keywords with underscores (`group_id=`) or in a dictionary with Kafka's names "
        '(`{"group.id": ...}`). An invalid name or value raises `ConfigError` at construction.\n',
    ]
    for name, definition in CLIENTS.items():
        lines += [f"## {name}\n", *_settings_table(definition.settings.values()), ""]
    return "\n".join(lines)


def api_versions() -> str:
    """The table of APIs, from the routes."""
    rows = []
    for route in sorted(ROUTES, key=lambda item: item.api_key):
        needs = ", ".join(
            f"{need.operation.name} on {need.resource_type.name}".replace("_", " ").lower()
            for need in RULES[route.api_key].needs
        )
        rows.append(
            f"| {int(route.api_key)} | {_camel(route.api_key.name)} | {_span(*route.advertised)} | {needs} |"
        )
    return "\n".join(
        [
            "# API versions\n",
            "The requests of the Kafka protocol that the broker answers, and the operations that an "
            "authorizer "
            "would have to allow. A client reads the versions with ApiVersions. klamm has no "
            "authorizer yet.\n",
            "| key | API | versions | operations |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def error_reference() -> str:
    """Exceptions of the client, Kafka's error codes, exit codes of the command line."""
    hints = errors.HINTS
    lines = [
        "# Errors and what to do\n",
        "Every exception of the client is a `klamm.KlammError`. `retriable` is true if the same call can "
        "succeed later. A transactional producer has two more flags: after an error with "
        "`is_abortable`, call "
        "`abort_transaction()` and begin again; after one with `is_fatal`, close the producer and "
        "create a new "
        "one.\n",
        "## Exceptions\n",
        "| exception | meaning | retriable | Kafka's code |",
        "| --- | --- | --- | --- |",
    ]
    for kind in _exceptions():
        code = getattr(kind, "default_code", None)
        name = errors.error_name(code) if code else ""
        lines.append(f"| `{kind.__name__}` | {_summary(kind)} | {_yes(kind.retriable)} | {name} |")
    lines += [
        "\n## Error codes of a broker\n",
        "A `BrokerError` has the code in `error_code` and its name in the message. Codes without an "
        "exception of "
        "their own are raised as `BrokerError`. What the most frequent ones mean:\n",
        "| code | name | meaning |",
        "| --- | --- | --- |",
        *(
            f"| {int(code)} | {ErrorCode(code).name.upper()} | {hint} |"
            for code, hint in sorted(hints.items())
        ),
        "\n## Exit codes\n",
        "| code | name | meaning |",
        "| --- | --- | --- |",
        "| 0 | | the command succeeded |",
        f"| {exit_codes.FAILED} | FAILED | the command failed: a broker is unreachable, a topic does "
        f"not exist, "
        "a port or a folder is in use |",
        f"| {exit_codes.MISUSED} | MISUSED | the command line or a setting is invalid |",
        "",
        "`klamm pipe` has more: see [Spark](../spark.md).\n",
    ]
    return "\n".join(lines)


def python_api() -> str:
    """The public names of the package."""
    kinds = [(name, getattr(klamm, name)) for name in klamm.__all__ if name not in ("aio", "__version__")]
    return "\n".join(
        [
            "# Python API\n",
            "Everything here is imported from `klamm`. [klamm.aio](asyncio.md) has the same classes "
            "for asyncio; "
            "[Errors](errors.md) lists the exceptions.\n",
            *_documented((name, kind) for name, kind in kinds if not _is_exception(kind)),
        ]
    )


def asyncio_api() -> str:
    """The public names of klamm.aio."""
    return "\n".join(
        [
            "# asyncio API\n",
            "The same names as in [klamm](python.md). Methods marked `async` are awaited.\n",
            *_documented((name, getattr(aio, name)) for name in aio.__all__),
        ]
    )


def _exceptions() -> list[type[errors.KlammError]]:
    found = [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, errors.KlammError)
    ]
    return sorted(found, key=lambda kind: kind.__name__)


def _is_exception(kind: object) -> bool:
    return inspect.isclass(kind) and issubclass(kind, Exception)


def _settings_table(settings: Iterable[Setting], *, dynamic: bool = False) -> Iterator[str]:
    yield "| name | default | values | " + ("dynamic | " if dynamic else "") + "meaning |"
    yield "| --- | --- | --- | " + ("--- | " if dynamic else "") + "--- |"
    for item in settings:
        flag = f"{_yes(item.dynamic)} | " if dynamic else ""
        yield f"| `{item.name}` | {_default(item)} | {_cell(item.wanted)} | {flag}{_cell(item.doc)} |"


def _default(item: Setting) -> str:
    if item.required:
        return "required"
    if item.default is None:
        return "none"
    value = item.default
    shown = (
        ",".join(value)
        if isinstance(value, tuple)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
    return f"`{shown}`" if shown else "empty"


def _documented(items: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for name, kind in sorted(items):
        yield f"## {name}\n"
        if inspect.isclass(kind):
            yield from _documented_class(name, kind)
        else:
            yield from _documented_call(name, kind)


def _documented_class(name: str, kind: type) -> Iterator[str]:
    yield f"```py\n{name}{_signature(kind)}\n```\n"
    yield _whole_doc(kind) + "\n"
    members = [(key, value) for key, value in _members(kind) if not key.startswith("_")]
    values = (
        [(key, value) for key, value in members if isinstance(value, kind)]
        if issubclass(kind, enum.Enum)
        else []
    )
    if values:
        yield ", ".join(f"`{key}`" for key, _ in values) + "\n"
    for key, value in members:
        if isinstance(value, property) and value.__doc__:
            yield f"`{key}`\n:   {_whole_doc(value)}\n"
        elif inspect.isroutine(value) and value.__doc__:
            asynchronous = "async " if inspect.iscoroutinefunction(value) else ""
            yield f"`{asynchronous}{key}{_signature(value, skip_self=True)}`\n:   {_whole_doc(value)}\n"


def _documented_call(name: str, call: Callable[..., Any]) -> Iterator[str]:
    yield f"```py\n{name}{_signature(call)}\n```\n"
    yield _whole_doc(call) + "\n"


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Members in the order of their definition, those of base classes of ours included."""
    seen: set[str] = set(_IMPLIED)
    for base in kind.__mro__:
        if not base.__module__.startswith("klamm"):
            continue
        for key, value in vars(base).items():
            if key not in seen:
                seen.add(key)
                yield key, value.__func__ if isinstance(value, classmethod | staticmethod) else value


def _signature(call: Callable[..., Any], *, skip_self: bool = False) -> str:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(signature.parameters.values())
    if skip_self and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    plain = [item.replace(annotation=inspect.Parameter.empty) for item in parameters]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def _summary(item: Any) -> str:
    return _cell(_whole_doc(item).split("\n\n")[0])


def _whole_doc(item: Any) -> str:
    return inspect.cleandoc(item.__doc__ or "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _yes(flag: bool) -> str:
    return "yes" if flag else ""


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def main() -> None:
    folder = Path(sys.argv[1])
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
