"""Changes by AlterConfigs and IncrementalAlterConfigs: all settings of a resource, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from klamm.broker.cluster.topic_names import name_problem
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.security_settings import PREFIX, listener_setting
from klamm.broker.config.settings import BROKER_SETTINGS, MIN_IN_SYNC
from klamm.config import ConfigError, Definition, Kind, as_text
from klamm.protocol.errors import ErrorCode
from klamm.storage.topic_settings import TOPIC_SETTINGS


class AlterError(Exception):
    """An invalid change, with the error code for the client."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class ConfigOperation(IntEnum):
    """What to do with one setting; the numbers are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One setting of one request; `operation` is the number in the request."""

    name: str
    operation: int
    value: str | None


# From a resource's own settings to those after a request. Raises AlterError.
Make: TypeAlias = Callable[[Definition, Mapping[str, str]], dict[str, str]]


def altering(changes: Sequence[Change]) -> Make:
    """Change some settings, leave the others (IncrementalAlterConfigs)."""
    return lambda definition, current: _altered(definition, current, changes)


def replacing(entries: Sequence[tuple[str, str | None]]) -> Make:
    """Replace all settings (AlterConfigs)."""
    return lambda definition, current: _replaced(entries)


def alter_topic(config: BrokerConfig, topic: str, current: Mapping[str, str], make: Make) -> dict[str, str]:
    """A topic's overrides after a request, whether it exists or not. Raises AlterError."""
    overrides = make(TOPIC_SETTINGS, current)
    if not topic:
        raise AlterError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    problem = name_problem(topic)
    if problem is not None:
        raise AlterError(ErrorCode.invalid_topic_exception, problem)
    try:
        config.topic_config(overrides)
    except ConfigError as error:
        raise AlterError(ErrorCode.invalid_config, str(error)) from error
    return overrides


def alter_broker(
    config: BrokerConfig, make: Make, *, cluster_wide: bool, named: Collection[str] = ()
) -> dict[str, str]:
    """The dynamic settings after a request that names these, of all brokers or of this one.

    Raises AlterError.
    """
    made = make(BROKER_SETTINGS, config.layers.dynamic_default if cluster_wide else config.layers.dynamic)
    _check_broker(config, made, cluster_wide=cluster_wide)
    if cluster_wide and MIN_IN_SYNC in config.layers.dynamic_default and MIN_IN_SYNC not in made:
        raise AlterError(ErrorCode.invalid_config, f"{MIN_IN_SYNC} of all brokers cannot be removed")
    if not cluster_wide and (MIN_IN_SYNC in made or MIN_IN_SYNC in named):
        raise AlterError(ErrorCode.invalid_config, f"{MIN_IN_SYNC} can be changed for all brokers only")
    return made


def _check_broker(config: BrokerConfig, made: Mapping[str, str], *, cluster_wide: bool) -> None:
    layers = config.layers
    for name in made:
        try:
            setting = listener_setting(name) or BROKER_SETTINGS[name]
        except ConfigError as error:
            raise AlterError(ErrorCode.invalid_config, str(error)) from error
        if not setting.dynamic:
            raise AlterError(
                ErrorCode.invalid_request,
                f"{name} cannot be changed while the broker runs: change its configuration and restart it",
            )
    try:
        changed = config.changed(
            dynamic_default=made if cluster_wide else layers.dynamic_default,
            dynamic=layers.dynamic if cluster_wide else made,
        )
        if any(name.startswith(("ssl.", PREFIX)) for name in made):
            # Imported here: not needed where no listener has TLS.
            from klamm.broker.security.tls_listener import check_certificates  # noqa: PLC0415

            check_certificates(changed.listener_values.values())
    except ConfigError as error:
        # Kafka answers an invalid value of a topic with INVALID_CONFIG, one of a broker with INVALID_REQUEST.
        raise AlterError(ErrorCode.invalid_request, str(error)) from error


def _replaced(entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, value in entries:
        if name in made:
            raise AlterError(ErrorCode.invalid_request, "Error due to duplicate config keys")
        if value is None:
            raise AlterError(ErrorCode.invalid_request, f"Null value not supported for : {name}")
        made[name] = value
    return made


def _altered(definition: Definition, current: Mapping[str, str], changes: Sequence[Change]) -> dict[str, str]:
    check_changes(changes)
    settings = dict(current)
    for change in changes:
        match change.operation:
            case ConfigOperation.DELETE:
                settings.pop(change.name, None)
            case ConfigOperation.SET:
                assert change.value is not None, change.name
                settings[change.name] = change.value
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                assert change.value is not None, change.name
                settings[change.name] = _with_words(definition, settings, change, _words(change.value))
            case _:
                raise AlterError(ErrorCode.invalid_request, f"unknown operation {change.operation}")
    return settings


def check_changes(changes: Sequence[Change]) -> None:
    """What must hold for the changes of any resource. Raises AlterError."""
    if len({change.name for change in changes}) < len(changes):
        raise AlterError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    for change in changes:
        if change.value is None and change.operation != ConfigOperation.DELETE:
            raise AlterError(ErrorCode.invalid_request, f"Null value not supported for : {change.name}")


def _words(text: str) -> list[str]:
    """The items to add to or remove from a list; trailing commas are ignored."""
    words = text.split(",")
    while len(text) > 0 and words and not words[-1]:
        words.pop()
    return words


def _with_words(
    definition: Definition, current: Mapping[str, str], change: Change, words: Sequence[str]
) -> str:
    """A list after APPEND or SUBTRACT; adding a present item or removing an absent one has no effect."""
    setting = definition.settings.get(change.name)
    if setting is None or setting.kind is not Kind.LIST:
        raise AlterError(
            ErrorCode.invalid_config, f"{change.name} is not a list: use SET instead of APPEND or SUBTRACT"
        )
    text = current.get(change.name, as_text(setting.default))
    present = dict.fromkeys(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        if change.operation == ConfigOperation.APPEND:
            present[word.strip()] = None
        else:
            present.pop(word.strip(), None)
    return ",".join(present)
