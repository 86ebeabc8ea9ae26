"""A job as its file defines it: read and checked before Spark starts."""

from __future__ import annotations

import difflib
import importlib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException

from klamm.config import ConfigError

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
NO_SESSION: Final = "SESSION_OR_CONTEXT_NOT_EXISTS"
WITH_SCHEMAS: Final = ("avro", "json-schema", "protobuf")  # of a registry
FORMATS: Final = ("raw", "json", "csv", *WITH_SCHEMAS)
DELIVERIES: Final = ("exactly-once", "at-least-once")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "name",
        "bootstrap",
        "checkpoint",
        "delivery",
        "trigger",
        "schema_registry",
        "client",
        "source",
        "transform",
        "sink",
        "spark",
    ),
    "source": ("topics", "format", "schema", "start", "dead_letters", "max_per_batch", "options"),
    "transform": ("sql", "function"),
    "sink": ("topic", "key", "format", "schema", "parallelism", "mode", "options"),
}
_MODES: Final = ("append", "complete")
_UNITS: Final = "microsecond|millisecond|second|minute|hour|day|week"
_INTERVAL: Final = re.compile(rf"(interval\s+)?(\d+(\.\d+)?\s+({_UNITS})s?\s*)+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything that a run goes by."""

    name: str
    bootstrap: str
    topics: tuple[str, ...]
    target: str
    checkpoint: str
    sql: str | None = None
    function: str | None = None
    delivery: str = "exactly-once"
    trigger: str = "continuous"  # `once`: what there is now, then end; or an interval, as in `10 seconds`
    source_format: str = "raw"
    schema: str | None = None
    start: str = "earliest"
    dead_letters: str | None = None
    max_per_batch: int | None = None
    key: str | None = None
    sink_format: str = "json"
    mode: str = "append"
    parallelism: int | None = None
    client: Mapping[str, str] = field(default_factory=dict, repr=False)  # Kafka's settings of both ends
    source_options: Mapping[str, str] = field(default_factory=dict, repr=False)  # with passwords, perhaps
    sink_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema_registry: str | None = field(default=None, repr=False)
    sink_schema: str | None = None
    dead_start: str | None = None  # where the source of dead letters starts, if not at `start`

    @property
    def for_dead_letters(self) -> Job:
        """The job as the source of dead letters reads it: with headers, and without progress of its own."""
        options = {"commitOffsets": "none", **self.source_options, "includeHeaders": "true"}
        return replace(self, start=self.dead_start or self.start, source_options=options)

    @property
    def has_schemas(self) -> bool:
        """Whether its values are read with schemas of a registry."""
        return self.source_format in WITH_SCHEMAS

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery == "exactly-once"

    @property
    def loops(self) -> tuple[str, ...]:
        """The topics that it both reads and writes."""
        return tuple(name for name in self.topics if name in (self.target, self.dead_letters))


def load_job(
    path: Path, *, bootstrap: str = DEFAULT_BOOTSTRAP, client: Mapping[str, str] | None = None
) -> Job:
    """Read a job file; raises ConfigError. The address and the settings of clients are for what it lacks."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"{path} is not TOML: {error}") from None
    return job_of(tree, name=path.stem, bootstrap=bootstrap, client=client)


def job_of(
    tree: Mapping[str, Any],
    *,
    name: str,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    client: Mapping[str, str] | None = None,
) -> Job:
    """A job from the tables of its file."""
    _check_keys(tree, "")
    source, transform, sink = (_table(tree, part) for part in ("source", "transform", "sink"))
    chosen = _text(tree, "name", name)
    topics = source.get("topics")
    if isinstance(topics, str):
        topics = [topics]
    if not topics or not isinstance(topics, list) or not all(isinstance(item, str) for item in topics):
        raise ConfigError("source.topics", 'source.topics is missing: write topics = ["orders"]')
    job = Job(
        name=chosen,
        bootstrap=_text(tree, "bootstrap", bootstrap),
        topics=tuple(topics),
        target=_required(sink, "sink", "topic", '"revenue"'),
        checkpoint=_text(tree, "checkpoint", f"checkpoints/{chosen}"),
        sql=_optional(transform, "transform", "sql"),
        function=_optional(transform, "transform", "function"),
        delivery=_choice(tree, "delivery", DELIVERIES, "exactly-once"),
        trigger=_text(tree, "trigger", "continuous"),
        source_format=_choice(source, "source.format", FORMATS, "raw"),
        schema=_optional(source, "source", "schema"),
        start=_text(source, "source.start", "earliest"),
        dead_letters=_optional(source, "source", "dead_letters"),
        max_per_batch=_number(source, "source.max_per_batch"),
        key=_optional(sink, "sink", "key"),
        sink_format=_choice(sink, "sink.format", FORMATS, "json"),
        mode=_choice(sink, "sink.mode", _MODES, "append"),
        parallelism=_number(sink, "sink.parallelism"),
        client={**(client or {}), **_settings(tree.get("client", {}), "client")},
        source_options=_options(source, "source"),
        sink_options=_options(sink, "sink"),
        schema_registry=_text(tree, "schema_registry", "") if "schema_registry" in tree else None,
        sink_schema=_optional(sink, "sink", "schema"),
        spark={name: str(value) for name, value in _table(tree, "spark").items()},
    )
    check(job)
    return job


def check(job: Job) -> None:
    """What must fit together."""
    if job.sql is not None and job.function is not None:
        raise ConfigError("transform", "transform has both sql and function: remove one")
    check_schemas(job)
    if job.source_format in ("json", "csv") and job.schema is None:
        raise ConfigError(
            "source.schema",
            f'source.format = "{job.source_format}" needs source.schema, as in "id long, cents long"',
        )
    if job.source_format == "raw":
        for name, given in (("schema", job.schema), ("dead_letters", job.dead_letters)):
            if given is not None:
                raise ConfigError(
                    f"source.{name}", f"source.{name} needs source.format {', '.join(FORMATS[1:])}"
                )
    if job.trigger not in ("once", "continuous") and not _INTERVAL.fullmatch(job.trigger):
        raise ConfigError(
            "trigger",
            f'invalid value "{job.trigger}" for trigger: expected once, continuous, or an interval such as '
            '"10 seconds"',
        )
    if job.function is not None:
        _check_function(job.function)


def check_schemas(job: Job) -> None:
    """Formats with schemas need a registry; there is nothing to ask it for otherwise."""
    used = [
        (part, name)
        for part, name in (("source", job.source_format), ("sink", job.sink_format))
        if name in WITH_SCHEMAS
    ]
    if used and job.schema_registry is None:
        part, name = used[0]
        raise ConfigError(
            "schema_registry",
            f'{part}.format = "{name}" needs schema_registry = "http://host:8081" at the top of the file',
        )
    if job.schema_registry is not None and not used:
        raise ConfigError(
            "schema_registry", f"schema_registry needs source.format or sink.format {', '.join(WITH_SCHEMAS)}"
        )
    if job.sink_schema is not None and job.sink_format not in WITH_SCHEMAS:
        raise ConfigError("sink.schema", f"sink.schema needs sink.format {', '.join(WITH_SCHEMAS)}")
    if job.sink_format in WITH_SCHEMAS[1:] and job.sink_schema is None:
        raise ConfigError(
            "sink.schema",
            f'sink.format = "{job.sink_format}" needs sink.schema: a subject, an id, or latest',
        )


def _check_function(text: str) -> None:
    try:
        transform_function(text)
    except PySparkException as error:
        # Types and columns that a module makes when it is imported need a session: it is imported again then.
        if error.getCondition() != NO_SESSION:
            raise


def transform_function(text: str) -> Callable[[Any], Any]:
    """`module:function`; raises ConfigError when it cannot be imported."""
    module_name, colon, name = text.partition(":")
    example = 'write "module:function", as in "jobs.revenue:per_minute"'
    if not colon or not module_name or not name:
        raise ConfigError("transform.function", f"invalid value {text} for transform.function: {example}")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            "transform.function", f"cannot import {module_name} ({error}): is its folder in PYTHONPATH?"
        ) from None
    except PySparkException:
        raise
    except Exception as error:
        raise ConfigError(
            "transform.function", f"importing {module_name} raised {type(error).__name__}: {error}"
        ) from error
    found = getattr(module, name, None)
    if found is None:
        raise ConfigError("transform.function", f"module {module_name} has no function {name}")
    if not callable(found):
        raise ConfigError("transform.function", f"{text} is not a function")
    function: Callable[[Any], Any] = found
    return function


def _check_keys(table: Mapping[str, Any], part: str) -> None:
    for name in table:
        if name not in _KEYS[part]:
            near = difflib.get_close_matches(name, _KEYS[part], n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_KEYS[part])}"
            full = f"{part}.{name}" if part else name
            raise ConfigError(full, f"unknown key {full}: {hint}")


def _table(tree: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    table = tree.get(part, {})
    if not isinstance(table, dict):
        raise ConfigError(part, f"{part} must be a table: write [{part}]")
    if part in _KEYS:
        _check_keys(table, part)
    return table


def _text(table: Mapping[str, Any], full: str, default: str) -> str:
    value = table.get(full.rpartition(".")[2], default)
    if not isinstance(value, str) or not value:
        raise ConfigError(full, f"invalid value {value!r} for {full}: expected a text")
    return value


def _optional(table: Mapping[str, Any], part: str, name: str) -> str | None:
    return _text(table, f"{part}.{name}", "") if name in table else None


def _required(table: Mapping[str, Any], part: str, name: str, example: str) -> str:
    if name not in table:
        raise ConfigError(f"{part}.{name}", f"{part}.{name} is missing: write {name} = {example}")
    return _text(table, f"{part}.{name}", "")


def _choice(table: Mapping[str, Any], full: str, words: tuple[str, ...], default: str) -> str:
    value = table.get(full.rpartition(".")[2], default)
    if value not in words:
        raise ConfigError(full, f"invalid value {value!r} for {full}: expected one of {', '.join(words)}")
    return str(value)


def _number(table: Mapping[str, Any], full: str) -> int | None:
    value = table.get(full.rpartition(".")[2])
    if value is not None and (type(value) is not int or value < 1):
        raise ConfigError(full, f"invalid value {value!r} for {full}: expected a whole number, 1 or more")
    return value


def _options(table: Mapping[str, Any], part: str) -> dict[str, str]:
    return _settings(table.get("options", {}), f"{part}.options", "kafka.client.id")


def _settings(found: Any, full: str, example: str = "security.protocol") -> dict[str, str]:
    if not isinstance(found, dict) or any(isinstance(value, dict | list) for value in found.values()):
        raise ConfigError(full, f'{full} needs quoted names: "{example}" = "..."')
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()
    }
