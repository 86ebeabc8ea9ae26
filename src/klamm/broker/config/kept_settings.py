"""Settings of groups and of client metrics: checked, stored and shown as Kafka does.

Those of consumer groups have effect, at the next heartbeat of each member. Tools and clients may set the
others too; what they are for, klamm does not have: share and streams groups, and metrics that clients push.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.changes import AlterError, Make
from klamm.broker.config.consumer_groups import check_group, group_defaults
from klamm.broker.config.entries import (
    ConfigSynonym,
    DescribedSetting,
    broker_synonyms,
    described_setting,
)
from klamm.config import (
    Check,
    ConfigError,
    ConfigSource,
    Definition,
    Kind,
    Setting,
    Value,
    Values,
    as_text,
    at_least,
    between,
    one_of,
)
from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import ConfigResourceType

_NO_LISTS: Final = Definition(())  # Kafka appends to no setting of these resources, although some are lists
_DURATION: Final = re.compile(r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{0,9})?S)?)?", re.IGNORECASE)
_INTERVALS_MS: Final = range(100, 3_600_000 + 1)
_MATCHED: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def _is_offset_reset(value: Value) -> bool:
    if not isinstance(value, str) or value in ("earliest", "latest"):
        return True
    kind, _, duration = value.partition(":")
    return kind == "by_duration" and _DURATION.fullmatch(duration) is not None


_OFFSET_RESET: Final = Check(_is_offset_reset, "earliest, latest or by_duration:PnDTnHnMn.nS")
_FILLED: Final = Check(lambda value: isinstance(value, tuple) and all(value), "none empty", is_of_words=True)


def _setting(name: str, kind: Kind, default: Value, check: Check | None, doc: str) -> Setting:
    return Setting(
        name=name, kind=kind, default=default, check=check, doc=doc, dynamic=True, has_effect=False
    )


def _milliseconds(name: str, default: int, low: int, high: int | None, doc: str) -> Setting:
    return _setting(name, Kind.INT, default, at_least(low) if high is None else between(low, high), doc)


def _of_members(kind: str) -> tuple[Setting, ...]:
    """The settings that each newer kind of group has."""
    return (
        _milliseconds(f"{kind}.session.timeout.ms", 45_000, 45_000, 60_000,
                      f"How long a member of a {kind} group may be silent."),
        _milliseconds(f"{kind}.heartbeat.interval.ms", 5_000, 5_000, 15_000,
                      f"How often a member of a {kind} group sends a heartbeat."),
        _milliseconds(f"{kind}.assignment.interval.ms", 1_000, 0, 15_000,
                      f"The shortest time between two assignments of a {kind} group."),
    )  # fmt: skip


def _of_consumers(name: str, default: int, low: int, doc: str) -> Setting:
    """A setting of consumer groups; its limits are the broker's."""
    return Setting(name=name, kind=Kind.INT, default=default, check=at_least(low), doc=doc, dynamic=True)


GROUP_SETTINGS: Final = Definition(
    (
        _of_consumers("consumer.session.timeout.ms", 45_000, 1,
                      "How long a member of a consumer group may be silent."),
        _of_consumers("consumer.heartbeat.interval.ms", 5_000, 1,
                      "How often a member of a consumer group sends a heartbeat."),
        _of_consumers("consumer.assignment.interval.ms", 0, 0,
                      "The shortest time between two assignments of a consumer group."),
        *_of_members("share"),
        *_of_members("streams"),
        _setting("share.auto.offset.reset", Kind.STRING, "latest", _OFFSET_RESET,
                 "Where a share group begins to read a partition."),
        _setting("share.isolation.level", Kind.STRING, "read_uncommitted",
                 one_of("read_committed", "read_uncommitted"),
                 "Whether a share group reads records of open and aborted transactions."),
        _setting("share.renew.acknowledge.enable", Kind.BOOLEAN, True, None,
                 "A member of a share group may renew its locks."),
        _milliseconds("share.record.lock.duration.ms", 30_000, 15_000, 60_000,
                      "How long a record is locked for the member that got it."),
        _setting("share.delivery.count.limit", Kind.INT, 5, between(2, 10),
                 "How often a record is delivered at most."),
        _setting("share.partition.max.record.locks", Kind.INT, 2000, between(100, 4000),
                 "Records of a partition that are locked at the same time."),
        _milliseconds("streams.initial.rebalance.delay.ms", 3_000, 0, None,
                      "How long a new streams group waits for more members."),
        _setting("streams.num.standby.replicas", Kind.INT, 0, between(0, 2),
                 "Standby replicas of each task."),
    )
)  # fmt: skip
METRICS_SETTINGS: Final = Definition(
    (
        _setting("interval.ms", Kind.INT, 300_000, None, "How often clients push their metrics."),
        _setting(
            "match", Kind.LIST, (), _FILLED, "Which clients: client_id=REGULAR_EXPRESSION and the like."
        ),
        _setting("metrics", Kind.LIST, (), _FILLED, "Prefixes of the names of the metrics."),
    )
)
# The settings of a group that have no default among the settings of brokers.
_OWN_DEFAULT: Final = ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")


@dataclass(frozen=True, slots=True)
class KeptResource:
    """One kind of resource: its settings, and where Kafka says that they come from."""

    resource_type: ConfigResourceType
    definition: Definition
    source: ConfigSource
    noun: str
    has_default_synonyms: bool
    unknown_name: ErrorCode
    check: Callable[[Values, Collection[str], BrokerConfig], None]

    @property
    def no_name(self) -> str:
        """What is wrong with a resource without a name."""
        return f"{self.noun} name must not be empty"

    def described(
        self, overrides: Mapping[str, str], keys: Collection[str] | None, config: BrokerConfig
    ) -> list[DescribedSetting]:
        """The settings of a resource with these overrides; `keys` none or empty: all of them."""
        defaults = group_defaults(config) if self.resource_type is ConfigResourceType.GROUP else {}
        values = self.definition.parse(overrides)
        entries = []
        for name, setting in sorted(self.definition.settings.items()):
            if keys and name not in keys:
                continue
            default = as_text(defaults.get(name, setting.default))
            synonyms: tuple[ConfigSynonym, ...] = ()
            broker_name = name if name in _OWN_DEFAULT else f"group.{name}"
            if name in defaults:
                synonyms = broker_synonyms(config.layers, [broker_name])
            elif self.has_default_synonyms:
                synonyms = (ConfigSynonym(broker_name, default, ConfigSource.DEFAULT),)
            shown = default
            if name in overrides:
                shown = as_text(values[name])
                synonyms = (ConfigSynonym(name, shown, self.source), *synonyms)
            entries.append(described_setting(setting, shown, synonyms))
        return entries

    def altered(
        self, resource: str, current: Mapping[str, str], make: Make, config: BrokerConfig
    ) -> dict[str, str]:
        """The overrides of a resource after a request. Raises AlterError."""
        made = make(_NO_LISTS, current)
        if not resource:
            raise AlterError(ErrorCode.invalid_request, self.no_name)
        for name in made:
            if name not in self.definition:
                raise AlterError(self.unknown_name, f"Unknown {self.noun.lower()} configuration: {name}")
        try:
            self.check(self.definition.parse(made), made, config)
        except ConfigError as error:
            raise AlterError(ErrorCode.invalid_config, str(error)) from error
        return made


def _check_metrics(values: Values, given: Collection[str], config: BrokerConfig) -> None:
    if values.integer("interval.ms") not in _INTERVALS_MS:
        raise AlterError(ErrorCode.invalid_request, "interval.ms must be from 100 to 3600000 (1 hour)")
    for pattern in values.words("match"):
        name, _, expression = pattern.partition("=")
        if name.strip() not in _MATCHED or not expression or "=" in expression:
            raise ConfigError("match", f"Illegal client matching pattern: {pattern}")
        try:
            re.compile(expression.strip())
        except (re.error, RecursionError, OverflowError) as error:
            raise ConfigError("match", f"Illegal client matching pattern: {pattern}: {error}") from error


KEPT_RESOURCES: Final = {
    kept.resource_type: kept
    for kept in (
        KeptResource(
            ConfigResourceType.GROUP,
            GROUP_SETTINGS,
            ConfigSource.GROUP,
            "Group",
            has_default_synonyms=True,
            unknown_name=ErrorCode.invalid_config,
            check=check_group,
        ),
        KeptResource(
            ConfigResourceType.CLIENT_METRICS,
            METRICS_SETTINGS,
            ConfigSource.CLIENT_METRICS,
            "Client metrics",
            has_default_synonyms=False,
            unknown_name=ErrorCode.invalid_request,
            check=_check_metrics,
        ),
    )
}
