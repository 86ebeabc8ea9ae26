"""Becoming a broker of a cluster: acquire the lease of the id, then register."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from klamm.broker.cluster.lease import Lease, LeaseHolder
from klamm.broker.net.server import StartError
from klamm.broker.services import RunBlocking
from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterStore,
    ClusterStoreError,
    FencedError,
)

_TRY_EVERY_S: Final = 0.02
_REMIND_AFTER_TRIES: Final = round(2 / _TRY_EVERY_S)  # a live process has renewed by then
_REMIND_EVERY_TRIES: Final = round(60 / _TRY_EVERY_S)

_log = logging.getLogger(__name__)


async def join_cluster(
    cluster: ClusterStore, lease: Lease, me: BrokerRegistration, run_blocking: RunBlocking
) -> BrokerRegistration:
    """Register as a starting broker; the registration with its epoch.

    An earlier process with this id may still have the lease: wait until it ends. Raises StartError if that
    process is alive, which its next renewal shows.
    """
    while True:
        waiting = _Waiting(cluster, me.broker_id)
        while (holder := await run_blocking(lease.try_acquire)) is not None:
            await run_blocking(waiting.check, holder)
            await asyncio.sleep(_TRY_EVERY_S)
        registered = await run_blocking(cluster.register, replace(me, state=BrokerState.STARTING))
        try:
            await run_blocking(lease.registered, registered)
            return registered
        except FencedError as error:
            _log.warning("registering took longer than the lease is valid, repeating it: %s", error)


async def renew_quietly(lease: Lease, run_blocking: RunBlocking) -> None:
    """Renew a lease while the broker starts. If that fails, the first renewal of a member finds out why."""
    try:
        await run_blocking(lease.renew)
    except (ClusterStoreError, FencedError) as error:
        _log.warning("renewing the lease while starting failed: %s", error)


def acquire_lease(
    cluster: ClusterStore, lease: Lease, broker_id: int, sleep: Callable[[float], None]
) -> None:
    """Acquire a lease before anything that it protects is opened; blocks. Raises StartError as above."""
    waiting = _Waiting(cluster, broker_id)
    while (holder := lease.try_acquire()) is not None:
        waiting.check(holder)
        sleep(_TRY_EVERY_S)


class _Waiting:
    """Waits for the lease of an earlier process to end."""

    def __init__(self, cluster: ClusterStore, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self._first: LeaseHolder | None = None
        self._tries = 0

    def check(self, holder: LeaseHolder) -> None:
        if holder.is_alive or (self._first is not None and holder.renewal != self._first.renewal):
            raise StartError(self._is_running(holder))
        self._first = holder
        if self._tries % _REMIND_EVERY_TRIES == _REMIND_AFTER_TRIES:
            _log.info(
                "broker %d: waiting for the lease of its former process to end (%s)",
                self._broker_id,
                holder.description,
            )
        self._tries += 1

    def _is_running(self, holder: LeaseHolder) -> str:
        addresses = [
            f"{host}:{port}"
            for each in self._cluster.brokers()
            if each.broker_id == self._broker_id
            for host, port in each.listeners.values()
        ]
        where = f" at {', '.join(addresses)}" if addresses else ""
        return (
            f"broker {self._broker_id} is already running{where} ({holder.description}): "
            "stop it, or choose another node.id"
        )
