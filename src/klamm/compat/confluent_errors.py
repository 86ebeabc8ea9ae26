"""confluent-kafka's errors, made of klamm's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from klamm import errors

P = ParamSpec("P")
R = TypeVar("R")


class KafkaError:
    """An error as a value: `code()`, `str()`, `retriable()`, `fatal()`."""

    _PARTITION_EOF = -191
    _ALL_BROKERS_DOWN = -187
    _TIMED_OUT = -185
    _STATE = -172
    _APPLICATION = -143
    _VALUE_DESERIALIZATION = -159
    UNKNOWN_TOPIC_OR_PART = 3

    def __init__(self, code: int, reason: str = "", *, cause: BaseException | None = None) -> None:
        self._code = code
        self._reason = reason
        self._cause = cause

    @classmethod
    def of(cls, error: BaseException) -> KafkaError:
        """What one of klamm's errors is in confluent-kafka's terms."""
        if isinstance(error, errors.BrokerError):
            code = error.error_code
        elif isinstance(error, errors.KlammTimeoutError):
            code = cls._TIMED_OUT
        elif isinstance(error, errors.NoBrokersError):
            code = cls._ALL_BROKERS_DOWN
        elif isinstance(error, errors.RecordDeserializationError):
            code = cls._VALUE_DESERIALIZATION
        elif isinstance(error, errors.IllegalStateError):
            code = cls._STATE
        else:
            code = cls._APPLICATION
        return cls(code, str(error), cause=error)

    def code(self) -> int:
        return self._code

    def name(self) -> str:
        return errors.error_name(self._code) if self._code >= 0 else f"_{-self._code}"

    def str(self) -> str:
        return self._reason

    def retriable(self) -> bool:
        return bool(getattr(self._cause, "retriable", False))

    def fatal(self) -> bool:
        return bool(getattr(self._cause, "is_fatal", False))

    def txn_requires_abort(self) -> bool:
        return bool(getattr(self._cause, "is_abortable", False))

    def __eq__(self, other: object) -> bool:
        code = other._code if isinstance(other, KafkaError) else other
        return self._code == code

    def __hash__(self) -> int:
        return hash(self._code)

    def __repr__(self) -> Any:
        return f"KafkaError{{code={self.name()},val={self._code},str={self._reason!r}}}"

    __str__ = __repr__


class KafkaException(Exception):  # noqa: N818  # its name there
    """Carries a KafkaError in `args[0]`."""


def raised_as_theirs(method: Callable[P, R]) -> Callable[P, R]:
    """Raise KafkaException where klamm's client raises one of its own, RuntimeError where it is closed."""

    @wraps(method)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            return method(*arguments, **keywords)
        except errors.IllegalStateError as error:
            if "closed" in str(error):
                raise RuntimeError(str(error)) from error
            raise KafkaException(KafkaError.of(error)) from error
        except errors.KlammError as error:
            raise KafkaException(KafkaError.of(error)) from error

    return call
