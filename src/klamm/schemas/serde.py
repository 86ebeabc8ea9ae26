"""What the formats have in common: the schema to write a value with, and the one it was written with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from klamm.schemas.framing import STRATEGIES, SubjectStrategy, framed, unframed
from klamm.schemas.registry_client import (
    RegisteredSchema,
    SchemaReference,
    SchemaRegistry,
    SchemaRegistryError,
)

Parsed = TypeVar("Parsed")


class RegistrySerde(ABC, Generic[Parsed]):
    """Both directions of a format whose schemas are in a registry."""

    schema_type: ClassVar[str]
    form: ClassVar[str] = ""  # in which the registry gives a schema

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: str | None = None,
        *,
        is_key: bool = False,
        references: Sequence[SchemaReference] = (),
        auto_register: bool = True,
        use_latest: bool = False,
        subject: str | SubjectStrategy = "topic",
    ) -> None:
        """`schema` is what values are written with; with `use_latest` the latest one of the subject.

        `subject` names a strategy (topic, record, topic-record) or is a function of the topic, the name of
        the record and whether it is a key.
        """
        if use_latest and schema is not None:
            raise ValueError("use_latest takes the schema from the registry: give no schema")
        if isinstance(subject, str) and subject not in STRATEGIES:
            raise ValueError(f"subject={subject!r} is not known: write one of {', '.join(STRATEGIES)}")
        self.registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self._subject = STRATEGIES[subject] if isinstance(subject, str) else subject
        self._is_key = is_key
        self._auto_register = auto_register
        self._use_latest = use_latest
        self._references = tuple(references)
        self._text = schema
        self._own = None if schema is None else self._parse_own(schema)
        self._writers: dict[str, tuple[int, Parsed]] = {}  # by topic
        self._readers: dict[int, Parsed] = {}

    def serialize(self, topic: str, value: Any) -> bytes:
        """The bytes of a value, with the id of its schema. Raises ValueError, SchemaRegistryError."""
        schema_id, parsed = self._writers.get(topic) or self._writer(topic)
        return framed(schema_id, self.encode(parsed, value))

    def deserialize(self, _topic: str, data: bytes) -> Any:
        """The value of bytes that name their schema. Raises ValueError, SchemaRegistryError."""
        schema_id, payload = unframed(data)
        parsed = self._readers.get(schema_id)
        if parsed is None:
            found = self.registry.schema(schema_id, self.form)
            self._require_type(found)
            parsed = self._readers[schema_id] = self.parse(found)
        return self.decode(parsed, payload)

    def _require_type(self, found: RegisteredSchema) -> None:
        if found.schema_type != self.schema_type:
            raise ValueError(
                f"schema {found.schema_id} is of type {found.schema_type}, not {self.schema_type}"
            )

    def _writer(self, topic: str) -> tuple[int, Parsed]:
        if self._use_latest:
            found = self.registry.latest(self._subject(topic, None, self._is_key))
            self._require_type(found)
            made = found.schema_id, self.parse(found)
        elif self._own is None or self._text is None:
            raise ValueError(
                f"{type(self).__name__} has no schema to write with: give one, or use_latest=True"
            )
        else:
            subject = self._subject(topic, self.name_of(self._own), self._is_key)
            made = self._id(subject), self._own
        self._writers[topic] = made
        return made

    def _id(self, subject: str) -> int:
        assert self._text is not None
        try:
            return self.registry.id_of(
                subject, self.schema_type, self._text, self._references, register=self._auto_register
            )
        except SchemaRegistryError as error:
            if error.code == 40403 and not self._auto_register:
                raise SchemaRegistryError(
                    f"subject {subject} does not have this schema: register it, or set auto_register=True",
                    error.code,
                ) from error
            raise

    def _parse_own(self, schema: str) -> Parsed:
        used = self.registry.texts_of(self._references, self.form)
        return self.parse(RegisteredSchema(0, self.schema_type, schema, used))

    @abstractmethod
    def parse(self, schema: RegisteredSchema) -> Parsed:
        """Understand a schema. Raises ValueError."""

    @abstractmethod
    def encode(self, parsed: Parsed, value: Any) -> bytes:
        """A value without its frame. Raises ValueError."""

    @abstractmethod
    def decode(self, parsed: Parsed, payload: bytes) -> Any:
        """The value of bytes behind their frame. Raises ValueError."""

    @abstractmethod
    def name_of(self, parsed: Parsed) -> str | None:
        """The full name of the record that a schema describes."""
