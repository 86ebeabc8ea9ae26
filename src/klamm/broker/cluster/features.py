"""Finalized features: what the cluster has agreed on, and how UpdateFeatures changes it.

Of Kafka's features klamm has those that change what clients do: `transaction.version`, and `group.version`,
at whose level 1 consumer groups are served. The others describe Kafka's own metadata log and groups of
kinds that klamm does not serve, so they are unknown here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.image import GROUP_VERSION, TRANSACTION_VERSION
from klamm.broker.cluster.refusal import Refusal
from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import ClusterStore, ClusterStoreError, ConflictError, FencedError

if TYPE_CHECKING:
    from klamm.broker.services import Services
    from klamm.protocol.messages.update_features import FeatureUpdateKey

HIGHEST_LEVELS: Final[Mapping[str, int]] = MappingProxyType({TRANSACTION_VERSION: 2, GROUP_VERSION: 1})
_TRIES: Final = 5  # after so many conflicts with other brokers the client has to retry


class UpgradeType(IntEnum):
    """What an update may do; the numbers are the protocol's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def finalize_defaults(store: ClusterStore, transaction_version: int) -> None:
    """Store the default levels of a new cluster; blocks."""
    if store.features().epoch < 0:
        # ConflictError: another broker of the cluster started at the same time, and stored them first.
        with suppress(ConflictError):
            store.finalize_features(
                {TRANSACTION_VERSION: transaction_version, GROUP_VERSION: HIGHEST_LEVELS[GROUP_VERSION]},
                expected_epoch=-1,
            )


def planned_levels(
    present: Mapping[str, int], updates: Iterable[FeatureUpdateKey], controller_id: int
) -> Mapping[str, int] | Refusal:
    """The levels after all updates, or the error for which none of them is made, worded as Kafka does."""
    planned = dict(present)
    for update in updates:
        name, level = update.feature, update.max_version_level
        problem = _problem(name, level, update.upgrade_type, present.get(name, 0), controller_id)
        if problem is not None:
            return Refusal(
                ErrorCode.invalid_update_version,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {level} for feature {name}. {problem}",
            )
        planned[name] = level
    return planned


def _problem(name: str, level: int, upgrade_type: int, present: int, controller_id: int) -> str | None:
    if upgrade_type not in list(UpgradeType):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    highest = HIGHEST_LEVELS.get(name)
    if highest is None:
        if level == 0:
            return f"Feature {name} not found."
        return f"Local controller {controller_id} does not support this feature."
    if level > highest:
        return f"Local controller {controller_id} only supports versions 0-{highest}"
    if level < present and upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe "
            "or unsafe downgrade."
        )
    if level > present and upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


async def update_features(
    services: Services, updates: Iterable[FeatureUpdateKey], *, validate_only: bool
) -> Refusal | None:
    """Make all updates durable, or none of them and return the error."""
    for _ in range(_TRIES):
        present = services.image.features
        planned = planned_levels(present.levels, updates, services.image.broker_id)
        if isinstance(planned, Refusal):
            return planned
        if validate_only or {name: level for name, level in planned.items() if level} == present.levels:
            return None
        try:
            is_done = await services.run_blocking(_finalize, services.cluster, planned, present.epoch)
            await services.follower.catch_up()
        except (ClusterStoreError, FencedError) as error:
            return Refusal(ErrorCode.kafka_storage_error, f"The change cannot be made durable: {error}")
        if is_done:
            return None
    return Refusal(ErrorCode.request_timed_out, "Features were changed concurrently: try again.")


def _finalize(store: ClusterStore, levels: Mapping[str, int], expected_epoch: int) -> bool:
    """Whether the levels are stored; not when another broker changed them first."""
    try:
        store.finalize_features(levels, expected_epoch=expected_epoch)
    except ConflictError:
        return False
    return True
