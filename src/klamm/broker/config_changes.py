"""What AlterConfigs and IncrementalAlterConfigs make of a resource's settings: all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from klamm.broker.config import BrokerConfig
from klamm.broker.settings import BROKER_SETTINGS
from klamm.config import ConfigError, Definition, Kind, as_text
from klamm.protocol.errors import ErrorCode
from klamm.storage.topic_settings import TOPIC_SETTINGS


class AlterError(Exception):
    """A change that cannot be; `error_code` is what the client is told."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class Operation(IntEnum):
    """What to do with one setting; the numbers are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One setting of one request; `operation` is the number that came."""

    name: str
    operation: int
    value: str | None


def alter_topic(
    config: BrokerConfig, current: Mapping[str, str], changes: Sequence[Change]
) -> dict[str, str]:
    """A topic's overrides after these changes. Raises AlterError; then nothing changes."""
    overrides = _altered(TOPIC_SETTINGS, current, changes)
    check_topic(config, overrides)
    return overrides


def replace_topic(config: BrokerConfig, entries: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """A topic's overrides once these replace them all. Raises AlterError."""
    overrides = _replaced(entries)
    check_topic(config, overrides)
    return overrides


def check_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Refuse overrides that a topic of this broker cannot have."""
    try:
        config.topic_config(overrides)
    except ConfigError as error:
        raise AlterError(ErrorCode.invalid_config, str(error)) from error


def alter_broker(config: BrokerConfig, changes: Sequence[Change], *, cluster_wide: bool) -> dict[str, str]:
    """The settings made while running after these changes, of all brokers or of this one."""
    layers = config.layers
    made = _altered(BROKER_SETTINGS, layers.dynamic_default if cluster_wide else layers.dynamic, changes)
    _check_broker(config, made, cluster_wide=cluster_wide)
    return made


def replace_broker(
    config: BrokerConfig, entries: Iterable[tuple[str, str | None]], *, cluster_wide: bool
) -> dict[str, str]:
    """The settings made while running once these replace them all. Raises AlterError."""
    made = _replaced(entries)
    _check_broker(config, made, cluster_wide=cluster_wide)
    return made


def _check_broker(config: BrokerConfig, made: Mapping[str, str], *, cluster_wide: bool) -> None:
    layers = config.layers
    try:
        for name in made:
            if not BROKER_SETTINGS[name].dynamic:
                raise AlterError(
                    ErrorCode.invalid_request, f"{name} is fixed at start: set it there and restart"
                )
        config.changed(
            dynamic_default=made if cluster_wide else layers.dynamic_default,
            dynamic=layers.dynamic if cluster_wide else made,
        )
    except ConfigError as error:
        raise AlterError(ErrorCode.invalid_config, str(error)) from error


def _replaced(entries: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, value in entries:
        if name in made:
            raise AlterError(ErrorCode.invalid_request, f"{name} is named twice")
        if value is None:
            raise AlterError(ErrorCode.invalid_request, f"{name} has no value")
        made[name] = value
    return made


def _altered(definition: Definition, current: Mapping[str, str], changes: Sequence[Change]) -> dict[str, str]:
    if len({change.name for change in changes}) < len(changes):
        raise AlterError(ErrorCode.invalid_request, "a setting is named twice")
    altered = dict(current)
    for change in changes:
        if change.operation not in set(Operation):
            raise AlterError(ErrorCode.invalid_request, f"{change.operation} is no operation")
        if change.operation == Operation.DELETE:
            altered.pop(change.name, None)
        elif change.value is None:
            raise AlterError(ErrorCode.invalid_request, f"{change.name} has no value")
        elif change.operation == Operation.SET:
            altered[change.name] = change.value
        else:
            altered[change.name] = _with_words(definition, altered, change, change.value.split(","))
    return altered


def _with_words(
    definition: Definition, current: Mapping[str, str], change: Change, words: Sequence[str]
) -> str:
    """A list after an APPEND or SUBTRACT: repeats and absentees are ignored."""
    setting = definition.settings.get(change.name)
    if setting is None or setting.kind is not Kind.LIST:
        raise AlterError(
            ErrorCode.invalid_config, f"{change.name} is no list: use SET instead of APPEND or SUBTRACT"
        )
    text = current.get(change.name, as_text(setting.default))
    present = dict.fromkeys(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        if change.operation == Operation.APPEND:
            present[word.strip()] = None
        else:
            present.pop(word.strip(), None)
    return ",".join(present)
