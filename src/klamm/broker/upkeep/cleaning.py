"""Compaction: planned on the event loop, run on a thread, and its result put in place on the loop."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from klamm.broker.partitions.loading import when_loaded
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.storage.engines.segments.cleaner import Cleaner, CleanerSettings

if TYPE_CHECKING:
    from klamm.broker.config.broker_config import BrokerConfig
    from klamm.broker.services import Services
    from klamm.storage.engines.segments.files import Files
    from klamm.storage.log import PartitionLog


class Cleaning:
    """Cleans one log after the other, until none is dirty enough."""

    def __init__(self, services: Services, files: Files) -> None:
        self._services = services
        self._is_called_back = False
        self._passes: dict[TopicPartition, Future[None]] = {}  # under way
        self.last_round_ms: int | None = None  # longest pass of the last round with any passes
        self.cleaner = Cleaner(
            files,
            self._logs,
            clock=services.clock,
            sleep=services.sleep,
            settings=_settings(services.config),
        )

    async def clean(self) -> None:
        """Run every pass that is due now."""
        self.cleaner.settings = _settings(self._services.config)
        clock, passes_ms = self._services.clock, []
        while not self._is_called_back and (job := self.cleaner.plan()) is not None:
            began_at_ms = clock.now_ms()
            self._passes[job.topic_partition] = ended = self._services.loop.create_future()
            try:
                await self._services.run_blocking(job.run)
                report = await when_loaded(self._services.run_blocking, partial(self.cleaner.finish, job))
                partition = self._services.partitions.get(*job.topic_partition)
                if report.is_log_lost and partition is not None:
                    # It takes nothing more until it is opened again: offline, for all to see.
                    partition.fail(ErrorCode.kafka_storage_error)
            finally:
                del self._passes[job.topic_partition]
                ended.set_result(None)
            passes_ms.append(clock.now_ms() - began_at_ms)
        self.last_round_ms = max(passes_ms, default=self.last_round_ms)

    async def let_go(self, name: TopicPartition) -> None:
        """Wait until no pass writes beside a log that is not served any more; its result is dropped.

        The directory of the log belongs to another broker from then on.
        """
        ended = self._passes.get(name)
        if ended is not None:
            for job in self.cleaner.running:
                if job.topic_partition == name:
                    job.cancel()
            await ended

    def call_back(self) -> None:
        """Cancel the running pass and drop its result."""
        self._is_called_back = True
        for job in self.cleaner.running:
            job.cancel()

    def _logs(self) -> Iterable[PartitionLog]:
        for partition in self._services.partitions:
            if partition.error_code is ErrorCode.none:
                yield partition.log


def _settings(config: BrokerConfig) -> CleanerSettings:
    return CleanerSettings(
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size // max(1, config.log_cleaner_threads),
        load_factor=config.log_cleaner_io_buffer_load_factor,
        max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        max_decompressed_bytes=config.klamm_decompress_max_bytes,
    )
