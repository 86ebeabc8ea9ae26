"""Moves of leadership that a client asks for: announced in the store, carried out by the leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from klamm.storage.cluster import ClusterChanges, LeaderChange

if TYPE_CHECKING:
    from klamm.broker.cluster.image import ClusterImage
    from klamm.broker.services import Services


async def announce(services: Services, moves: Sequence[LeaderChange]) -> None:
    """Announce moves; the leader of each partition hands it over when it learns of it.

    Raises ClusterStoreError or FencedError.
    """
    if moves:
        await services.run_blocking(services.cluster.start_moves, moves)
        await services.follower.catch_up()


async def finished(
    services: Services, moves: Sequence[LeaderChange], timeout_ms: int
) -> Collection[LeaderChange]:
    """Wait until partitions have their next leaders; those that have, when all do or the time is over."""
    changed = asyncio.Event()

    def notice(_: ClusterChanges) -> None:
        changed.set()

    services.follower.change_watchers.append(notice)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while any(not _is_finished(services.image, each) for each in moves):
                changed.clear()
                await changed.wait()
    except TimeoutError:
        pass  # what has moved is returned
    finally:
        services.follower.change_watchers.remove(notice)
    return [each for each in moves if _is_finished(services.image, each)]


def _is_finished(image: ClusterImage, move: LeaderChange) -> bool:
    state = image.partition(move.topic, move.partition)
    return state is not None and state.leader_id == move.next_leader_id
