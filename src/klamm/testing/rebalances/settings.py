"""The settings of the consumers in a scripted group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, Final

from klamm.assignors.base import Assignor
from klamm.assignors.registry import SETTING, Strategy, load_assignors
from klamm.client.consumer.settings import ConsumerSettings, parse
from klamm.net.metadata import MetadataConfig
from klamm.net.network import NetworkConfig

_STRATEGY: Final = SETTING.replace(".", "_")


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """What one consumer is made with."""

    network: NetworkConfig
    metadata: MetadataConfig
    consumer: ConsumerSettings


@dataclass(frozen=True, slots=True)
class _Parsed:
    keywords: Mapping[str, Any]
    strategies: Strategy | Sequence[Strategy]
    config: Mapping[str, object]  # for the assignors
    settings: MemberSettings

    def again(self) -> MemberSettings:
        """The same settings with assignors of their own."""
        assignors = tuple(load_assignors(_copied(self.strategies), self.config))
        values = [getattr(self.settings.consumer, name) for name in _NAMES]
        values[_ASSIGNORS] = assignors
        return MemberSettings(self.settings.network, self.settings.metadata, ConsumerSettings(*values))


_NAMES: Final = tuple(each.name for each in fields(ConsumerSettings))
_ASSIGNORS: Final = _NAMES.index("assignors")


class SettingsByName:
    """Settings are parsed once for each member: parsing takes as long as a tenth of a rebalance."""

    def __init__(self) -> None:
        self._parsed: dict[str, _Parsed] = {}

    def of(self, name: str, keywords: Mapping[str, Any]) -> MemberSettings:
        """What these keywords of `klamm.Consumer` mean. Raises as that does.

        Each consumer has its own assignors, because an assignor may have a memory.
        """
        parsed = self._parsed.get(name)
        if parsed is not None and parsed.keywords == keywords:
            return parsed.again()
        given = dict(keywords)
        if _STRATEGY in given:
            given[_STRATEGY] = _copied(given[_STRATEGY])
        config, consumer = parse(None, given, 1)
        settings = MemberSettings(
            config.network(consumer.client_id),
            config.metadata(allow_auto_topic_creation=False),
            consumer,
        )
        strategies = keywords.get(_STRATEGY) or config.values.words(SETTING)
        self._parsed[name] = _Parsed(keywords, strategies, {**config.values, **config.objects}, settings)
        return settings


def _copied(given: Strategy | Sequence[Strategy]) -> Any:
    if isinstance(given, Assignor):
        return deepcopy(given)
    if isinstance(given, str | type):
        return given
    return [deepcopy(each) if isinstance(each, Assignor) else each for each in given]
