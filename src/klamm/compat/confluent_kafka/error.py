"""confluent-kafka's errors, made of klamm's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from klamm import errors
from klamm.compat.confluent_kafka.error_codes import CODES, NAMES
from klamm.config import ConfigError

P = ParamSpec("P")
R = TypeVar("R")


class KafkaError:
    """An error as a value: `code()`, `str()`, `retriable()`, `fatal()`; its class has all codes by name."""

    def __init__(
        self,
        error: int,
        reason: str = "",
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self._code = error
        self._reason = reason or self.name()
        self._is_fatal = fatal
        self._is_retriable = retriable
        self._requires_abort = txn_requires_abort

    @classmethod
    def of(cls, error: BaseException) -> KafkaError:
        """What one of klamm's errors is in confluent-kafka's terms."""
        return cls(
            _code_of(error),
            str(error),
            bool(getattr(error, "is_fatal", False)),
            bool(getattr(error, "retriable", False)),
            bool(getattr(error, "is_abortable", False)),
        )

    @classmethod
    def of_delivery(cls, error: BaseException) -> KafkaError:
        """As `of`, for a record that was not delivered."""
        if isinstance(error, errors.KlammTimeoutError):
            return cls(CODES["_MSG_TIMED_OUT"], str(error))
        if isinstance(error, errors.PurgedError | errors.TransactionAbortedError):
            return cls(CODES["_PURGE_QUEUE"], str(error))
        return cls.of(error)

    def code(self) -> int:
        return self._code

    def name(self) -> str:
        return NAMES.get(self._code, f"ERR_{self._code}")

    def str(self) -> str:
        return self._reason

    def retriable(self) -> bool:
        return self._is_retriable

    def fatal(self) -> bool:
        return self._is_fatal

    def txn_requires_abort(self) -> bool:
        return self._requires_abort

    def __eq__(self, other: object) -> bool:
        code = other._code if isinstance(other, KafkaError) else other
        return self._code == code

    def __hash__(self) -> int:
        return hash(self._code)

    def __repr__(self) -> Any:
        return f'KafkaError{{code={self.name()},val={self._code},str="{self._reason}"}}'

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        flags = (self._is_fatal, self._is_retriable, self._requires_abort)
        return KafkaError, (self._code, self._reason, *flags)


for _name, _number in CODES.items():
    setattr(KafkaError, _name, _number)


def _code_of(error: BaseException) -> int:
    if isinstance(error, errors.ProducerFencedError):
        return CODES["_FENCED"]  # whatever the broker's word for it
    if isinstance(error, errors.BrokerError):
        return error.error_code
    for kind, name in (
        (errors.KlammTimeoutError, "_TIMED_OUT"),
        (errors.SslAuthenticationError, "_SSL"),
        (errors.AuthenticationError, "_AUTHENTICATION"),
        (errors.NoBrokersError, "_ALL_BROKERS_DOWN"),
        (errors.DisconnectedError, "_TRANSPORT"),
        (errors.RecordDeserializationError, "_VALUE_DESERIALIZATION"),
        (errors.NoOffsetForPartitionError, "_AUTO_OFFSET_RESET"),
        (errors.LogTruncationError, "_LOG_TRUNCATION"),
        (errors.IllegalStateError, "_STATE"),
        (errors.PurgedError, "_PURGE_QUEUE"),
        (errors.RecordTooLargeError, "MSG_SIZE_TOO_LARGE"),
        (errors.UnsupportedVersionError, "_UNSUPPORTED_FEATURE"),
        (ConfigError, "_INVALID_ARG"),
    ):
        if isinstance(error, kind):
            return CODES[name]
    return CODES["_APPLICATION"]


class KafkaException(Exception):  # noqa: N818  # its name there
    """Carries a KafkaError in `args[0]`."""


class IllegalStateException(KafkaException):
    """Not raised by klamm, which has no share consumer."""


class ConcurrentModificationException(KafkaException):
    """Not raised by klamm, which has no share consumer."""


class SerializationError(KafkaException):
    """A serializer or deserializer could not do its work."""


class _ClientError(KafkaException):
    """Carries a KafkaError, what raised it, and the message that it is about."""

    def __init__(
        self, kafka_error: KafkaError, exception: BaseException | None = None, kafka_message: Any = None
    ) -> None:
        super().__init__(kafka_error)
        self.exception = exception
        self.kafka_message = kafka_message

    @property
    def code(self) -> int:
        return self._error.code()

    @property
    def name(self) -> str:
        return self._error.name()

    @property
    def _error(self) -> KafkaError:
        error: KafkaError = self.args[0]
        return error


class ConsumeError(_ClientError):
    """`poll` of a DeserializingConsumer met an error."""


class KeyDeserializationError(ConsumeError, SerializationError):
    """The deserializer of keys raised; `kafka_message` has the bytes."""

    def __init__(self, exception: BaseException | None = None, kafka_message: Any = None) -> None:
        super().__init__(_of_serde("_KEY_DESERIALIZATION", exception), exception, kafka_message)


class ValueDeserializationError(ConsumeError, SerializationError):
    """The deserializer of values raised; `kafka_message` has the bytes."""

    def __init__(self, exception: BaseException | None = None, kafka_message: Any = None) -> None:
        super().__init__(_of_serde("_VALUE_DESERIALIZATION", exception), exception, kafka_message)


class ProduceError(_ClientError):
    """`produce` of a SerializingProducer met an error."""

    def __init__(self, kafka_error: KafkaError, exception: BaseException | None = None) -> None:
        super().__init__(kafka_error, exception)


class KeySerializationError(ProduceError, SerializationError):
    """The serializer of keys raised."""

    def __init__(self, exception: BaseException | None = None) -> None:
        super().__init__(_of_serde("_KEY_SERIALIZATION", exception), exception)


class ValueSerializationError(ProduceError, SerializationError):
    """The serializer of values raised."""

    def __init__(self, exception: BaseException | None = None) -> None:
        super().__init__(_of_serde("_VALUE_SERIALIZATION", exception), exception)


def _of_serde(code: str, exception: BaseException | None) -> KafkaError:
    return KafkaError(CODES[code], str(exception))


def not_supported(what: str, advice: str) -> KafkaException:
    """What a call raises that klamm's client does not have."""
    return KafkaException(KafkaError(CODES["_NOT_IMPLEMENTED"], f"this class does not have {what}: {advice}"))


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
        except (errors.KlammError, ConfigError) as error:
            raise KafkaException(KafkaError.of(error)) from error

    return call
