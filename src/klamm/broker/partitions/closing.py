"""Closing a partition for its next leader: finish what is under way, flush, and leave a clean log."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from klamm.broker.partitions.loading import when_loaded
from klamm.protocol.errors import ErrorCode
from klamm.storage.durability import DurableLog
from klamm.storage.log import LogError

if TYPE_CHECKING:
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import RunBlocking, Services

_log = logging.getLogger(__name__)


async def close_for_move(services: Services, partition: Partition) -> None:
    """Close a partition that moves. Appends that were accepted are durable and acknowledged first.

    The partition stays registered, and refuses requests. If the disk fails, the log is closed as it is: the
    next leader recovers it.
    """
    run_blocking, logs = services.run_blocking, services.logs
    log = partition.seal()
    await asyncio.sleep(0)  # requests that wait for the partition are completed
    await services.flusher.settled(partition)
    if services.cleaning is not None:
        await services.cleaning.let_go(partition.name)
    try:
        if log is not None:
            await _flush(log, run_blocking)
            partition.release()
        await when_loaded(run_blocking, partial(logs.close_log, partition.topic, partition.partition))
    except (LogError, OSError) as error:
        _log.error("closing %s failed, its next leader will recover it: %s", partition.name, error)
    partition.fail(ErrorCode.not_leader_or_follower)


async def _flush(log: DurableLog, run_blocking: RunBlocking) -> None:
    while (ticket := log.start_sync()) is not None:  # the first may only repair the log
        ticket.keep_open()
        try:
            await run_blocking(ticket.run)
        except OSError:
            log.fail_sync(ticket)
            raise
        log.finish_sync(ticket)
