"""Orders to write transaction markers that are lost, answered to nobody, repeated and late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.markers import MarkerResults, TransactionMarker
from klamm.broker.partitions.registry import Partition
from klamm.broker.services import Services
from klamm.protocol.types import TopicPartition
from simulation.faults import Faults

_SOON_MS: Final = (0, 1, 50, 500)
_LATE_MS: Final = (100, 1_000, 5_000)


def make_unreliable(services: Services, random: Random, rates: Callable[[], Faults]) -> None:
    """Put a bad connection between a broker's transaction coordinator and the partitions."""
    markers = services.markers
    really_write = markers.write

    def call_later(delays_ms: Sequence[int], action: Callable[[], object]) -> None:
        services.loop.call_later(random.choice(delays_ms) / 1000, action)

    def unanswered() -> HeldResponse[MarkerResults]:
        """The coordinator learns that the connection broke, and nothing of the markers."""
        response: HeldResponse[MarkerResults] = HeldResponse()
        call_later(_SOON_MS, lambda: response.keep({}))
        return response

    def write(
        marker: TransactionMarker, partitions: Sequence[TopicPartition], after: Partition | None = None
    ) -> HeldResponse[MarkerResults]:
        chance = rates().marker
        fate = (
            ""
            if random.random() >= chance
            else random.choice(("lost", "in part", "unheard", "twice", "late"))
        )
        match fate:
            case "lost":
                return unanswered()
            case "in part":
                return really_write(marker, [each for each in partitions if random.random() < 0.5], after)
            case "unheard":
                really_write(marker, partitions, after)
                return unanswered()
            case "twice":
                really_write(marker, partitions, after)
            case "late" if marker.bumps_epoch and after is None:
                # Version 1 has no defence against a copy that arrives in the next transaction. What shares
                # the flush of the decision is not on its way for long.
                call_later(_LATE_MS, lambda: really_write(marker, partitions))
        return really_write(marker, partitions, after)

    setattr(markers, "write", write)  # noqa: B010 - a method is replaced, for this one broker
