"""What the registry asks of a format of schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, Self

MAX_COMPARISONS: Final = 200_000


class SchemaError(Exception):
    """A text is no schema of its format, or cannot be compared; says where and why."""


class Budget:
    """How many comparisons one pair of schemas may take: unions in unions double them with each level."""

    def __init__(self) -> None:
        self._left = MAX_COMPARISONS

    def spend(self) -> None:
        """One comparison. Raises SchemaError."""
        self._left -= 1
        if self._left < 0:
            raise SchemaError(f"the schemas take more than {MAX_COMPARISONS} steps to compare")


class ParsedSchema(Protocol):
    """A schema that was understood."""

    @property
    def text(self) -> str:
        """The canonical form: equal schemas have equal texts."""
        ...

    @property
    def serialized(self) -> str:
        """The form in which a client gets it that asks for `format=serialized`."""
        ...

    def unreadable(self, written: Self, /) -> list[str]:
        """Why data that was written with another schema cannot be read with this one; nothing if it can."""
        ...


class Format(Protocol):
    """One kind of schemas."""

    def parse(self, text: str, references: Mapping[str, str], /) -> ParsedSchema:
        """Understand a schema; `references` has the texts that it uses, by name, each after those it needs.

        Raises SchemaError.
        """
        ...
