"""Entries of DescribeConfigs: each value, its source, and its synonyms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.broker.config.broker_config import BrokerConfig, Layers
from klamm.broker.config.idle_settings import REPLICATION_THROTTLES
from klamm.broker.config.settings import BROKER_SETTINGS
from klamm.config import ConfigSource, Setting, as_text
from klamm.storage.topic_config import effective_values
from klamm.storage.topic_settings import BROKER_NAMES, TOPIC_SETTINGS


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A source of a value; the first of several is in effect."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class DescribedSetting:
    """One setting of a resource."""

    name: str
    value: str | None  # null for secrets and for unset settings
    source: ConfigSource
    kind: int  # the number of a Kind, or 0
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], keys: Collection[str] | None = None
) -> list[DescribedSetting]:
    """The settings of a topic with these overrides; `keys` none or empty: all of them."""
    values = effective_values(config.layers.merged, overrides)
    entries = []
    for setting in _wanted(TOPIC_SETTINGS.settings, keys):
        broker_names = [broker.name for broker in BROKER_NAMES.get(setting.name, ())]
        synonyms = broker_synonyms(config.layers, broker_names)
        if setting.name in overrides:
            own = ConfigSynonym(setting.name, as_text(values[setting.name]), ConfigSource.TOPIC)
            synonyms = (own, *synonyms)
        entries.append(described_setting(setting, as_text(values[setting.name]), synonyms))
    return entries


def describe_broker(config: BrokerConfig, keys: Collection[str] | None = None) -> list[DescribedSetting]:
    """The settings of this broker."""
    values = BROKER_SETTINGS.parse(config.layers.merged)
    entries = []
    for setting in _wanted(BROKER_SETTINGS.settings, keys):
        value = config.node_id if setting.name in _NODE_ID_NAMES else values[setting.name]
        if value is None and setting in REPLICATION_THROTTLES:
            continue
        names = [setting.name, *(name for name in _kin(setting.name) if name != setting.name)]
        synonyms = broker_synonyms(config.layers, names)
        entries.append(described_setting(setting, None if value is None else as_text(value), synonyms))
    return entries


def describe_cluster_default(
    config: BrokerConfig, keys: Collection[str] | None = None
) -> list[DescribedSetting]:
    """Only the dynamic settings of all brokers."""
    made = config.layers.dynamic_default
    return [
        described_setting(
            setting,
            made[setting.name],
            (ConfigSynonym(setting.name, made[setting.name], ConfigSource.DYNAMIC_DEFAULT_BROKER),),
        )
        for setting in _wanted(BROKER_SETTINGS.settings, keys)
        if setting.name in made
    ]


_NODE_ID_NAMES: Final = ("node.id", "broker.id")
_FAMILIES: Final = {
    broker.name: tuple(each.name for each in brokers)
    for brokers in BROKER_NAMES.values()
    for broker in brokers
}


def _kin(name: str) -> tuple[str, ...]:
    """The names of the same setting in other units, and its former names."""
    return _NODE_ID_NAMES if name in _NODE_ID_NAMES else _FAMILIES.get(name, (name,))


def _wanted(settings: Mapping[str, Setting], keys: Collection[str] | None) -> Iterable[Setting]:
    return (settings[name] for name in sorted(settings) if not keys or name in keys)


def broker_synonyms(layers: Layers, names: Sequence[str]) -> tuple[ConfigSynonym, ...]:
    """The sources of a value, in order of precedence.

    Kafka leaves out what comes before the setting's own name, so hours alone never explain `.ms`.
    """
    found = [
        ConfigSynonym(name, texts[name], source)
        for source, texts in (
            (ConfigSource.DYNAMIC_BROKER, layers.dynamic),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, layers.dynamic_default),
            (ConfigSource.STATIC_BROKER, layers.static),
        )
        for name in names
        if name in texts
    ]
    found += [
        ConfigSynonym(name, as_text(default), ConfigSource.DEFAULT)
        for name in names
        if (default := BROKER_SETTINGS[name].default) is not None
    ]
    own = next((index for index, synonym in enumerate(found) if synonym.name == names[0]), len(found))
    return tuple(found[own:])


def described_setting(
    setting: Setting, value: str | None, synonyms: tuple[ConfigSynonym, ...]
) -> DescribedSetting:
    """A setting with its value and where it comes from; nothing of that if it is a secret."""
    if setting.is_sensitive:
        value = None
        synonyms = tuple(ConfigSynonym(each.name, None, each.source) for each in synonyms)
    return DescribedSetting(
        name=setting.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        kind=setting.kind,
        is_read_only=not setting.dynamic,
        is_sensitive=setting.is_sensitive,
        synonyms=synonyms,
        documentation=setting.doc,
    )
