"""The base of messages and of the structures in them.

Messages are plain classes, not dataclasses: making two hundred of those takes a tenth of a second at start.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Self, TypeVar

Response = TypeVar("Response")

# First and last version, name, type, and the tag if it has one. Types are those of Kafka's schemas, such as
# `[]int32` and `[]TopicData`; one that may be null ends with `?`.
Row = tuple[int, int, str, str] | tuple[int, int, str, str, int]


class Message:
    """One message, or a structure in one, with the fields of all versions. Equal if all fields are."""

    __slots__ = ()

    SCHEMA: ClassVar[tuple[Row, ...]] = ()  # in the order on the wire

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """All fields, in the order of the constructor, with their defaults."""
        return cls().values()

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return cls.__slots__

    def values(self) -> dict[str, Any]:
        """All fields, in the order of the constructor, with their values."""
        return {name: getattr(self, name) for name in self._names()}

    def but(self, **changes: Any) -> Self:
        """A copy with other values of these fields."""
        return type(self)(**(self.values() | changes))

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """How it is copied and pickled."""
        return type(self), tuple(self.values().values())

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._names())

    __hash__ = None  # type: ignore[assignment]  # how Python spells "can be changed, so has no hash"

    def __repr__(self) -> str:
        content = ", ".join(f"{name}={value!r}" for name, value in self.values().items())
        return f"{type(self).__name__}({content})"


class Request(Message, Generic[Response]):
    """Base of every request message; `Response` is the type of its response."""

    __slots__ = ()
