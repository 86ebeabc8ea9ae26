"""The types of keys and values, as type checkers see them: what each argument of a constructor says of them.

Without serializers they are bytes (a producer takes text, too). A function says what it takes or returns.
A name, a Serde or a dictionary of settings says nothing, so they are Any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Plain: TypeAlias = bytes | bytearray | memoryview | str | None  # what needs no serializer

    # Of records.
    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    # Of a consumer.
    Key = TypeVar("Key", default=bytes | None)
    Value = TypeVar("Value", default=bytes | None)
    # Of a producer.
    SentKey = TypeVar("SentKey", default=Plain)
    SentValue = TypeVar("SentValue", default=Plain)

    Given_co = TypeVar("Given_co", covariant=True)
    Other_co = TypeVar("Other_co", covariant=True)
    Taken_contra = TypeVar("Taken_contra", contravariant=True)
    Sent = TypeVar("Sent")

    # A type variable that no argument says anything about has its default. One that is to be Any is matched
    # with a method that each object has and that, in the types of Python's library, gives Any: __reduce__.
    class _Name(Protocol[Given_co]):
        def isidentifier(self) -> bool: ...

        def __reduce__(self) -> str | tuple[Given_co, ...]: ...

    class _Serde(Protocol[Given_co]):
        def serialize(self, topic: str, value: Any, /) -> bytes: ...

        def deserialize(self, topic: str, data: bytes, /) -> Any: ...

        def __reduce__(self) -> str | tuple[Given_co, ...]: ...

    class _Reads(Protocol[Given_co]):
        def __call__(self, data: Any, /) -> Given_co: ...

    class _Writes(Protocol[Taken_contra]):
        def __call__(self, value: Taken_contra, /) -> Plain: ...

    class _WritesAny(Protocol[Given_co]):  # a lambda, which does not say what it takes
        def __call__(self, value: Any, /) -> Plain: ...

        def __reduce__(self) -> str | tuple[Given_co, ...]: ...

    class SettingsOf(Protocol[Given_co, Other_co]):
        """A dictionary of settings by Kafka's names; it may have serializers."""

        def keys(self) -> Any: ...

        def __getitem__(self, name: str, /) -> Any: ...

        def __reduce__(self) -> str | tuple[Given_co, ...]: ...

        def __reduce_ex__(self, protocol: Any, /) -> str | tuple[Other_co, ...]: ...

    Deserializing: TypeAlias = _Reads[Given_co] | _Serde[Given_co] | _Name[Given_co]
    Serializing: TypeAlias = _Writes[Sent] | _WritesAny[Sent] | _Serde[Sent] | _Name[Sent]
else:
    from typing import TypeVar

    K, V = TypeVar("K"), TypeVar("V")
    Key, Value = TypeVar("Key"), TypeVar("Value")
    SentKey, SentValue = TypeVar("SentKey"), TypeVar("SentValue")
    Deserializing = Serializing = SettingsOf = Mapping
