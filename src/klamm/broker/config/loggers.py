"""Levels of this broker's loggers, as settings under Kafka's names of levels."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from klamm.broker.config.changes import AlterError, Change, ConfigOperation
from klamm.broker.config.entries import DescribedSetting
from klamm.config import ConfigSource
from klamm.protocol.errors import ErrorCode

BROKER_LOGGER: Final = 8  # the resource type; levels are not stored
ROOT: Final = "root"
_PACKAGE: Final = "klamm"
_UNKNOWN_KIND: Final = 0
_LEVELS: Final = {
    "TRACE": logging.DEBUG,  # Python has none below
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def describe_loggers(keys: Collection[str] | None = None) -> list[DescribedSetting]:
    """The level of each logger; `keys` none or empty: of all of them."""
    return [
        DescribedSetting(
            name=name,
            value=_level_name(_logger(name).getEffectiveLevel()),
            source=ConfigSource.BROKER_LOGGER,
            kind=_UNKNOWN_KIND,
            is_read_only=False,
            is_sensitive=False,
            synonyms=(),
            documentation="",
        )
        for name in sorted(_names())
        if not keys or name in keys
    ]


def alter_loggers(changes: Sequence[Change], *, validate_only: bool) -> None:
    """Set levels, or let loggers follow the next one above them again. Raises AlterError."""
    names = _names()
    for change in changes:
        _check(change, names)
    if validate_only:
        return
    for change in changes:
        level = logging.NOTSET if change.value is None else _LEVELS[change.value]
        _logger(change.name).setLevel(logging.NOTSET if _deletes(change) else level)


def _check(change: Change, names: Collection[str]) -> None:
    if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise AlterError(ErrorCode.invalid_request, "A logger's level can be set or deleted, nothing else.")
    if change.name not in names:
        raise AlterError(ErrorCode.invalid_config, f"Logger {change.name} does not exist!")
    if _deletes(change):
        if change.name == ROOT:
            raise AlterError(ErrorCode.invalid_request, "The level of the root logger cannot be deleted.")
    elif change.value not in _LEVELS:
        levels = ", ".join(sorted(_LEVELS))
        raise AlterError(ErrorCode.invalid_config, f"{change.value} is no level of a logger: write {levels}")


def _deletes(change: Change) -> bool:
    return change.operation == ConfigOperation.DELETE


def _names() -> set[str]:
    return {ROOT, *(name for name in logging.root.manager.loggerDict if name.split(".")[0] == _PACKAGE)}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(level: int) -> str:
    names = {number: name for name, number in _LEVELS.items() if name != "TRACE"}
    return names.get(level, logging.getLevelName(level))
