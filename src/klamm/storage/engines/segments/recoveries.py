"""Recovery off the event loop: a broker that takes logs over from another one has clients to serve.

Loading a log repairs it, and can be repeated. So a worker loads it first, with file handles of its own; the
event loop then opens it as a log that was closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.storage.engines.segments.files import Files
from klamm.storage.engines.segments.handles import HandlePool
from klamm.storage.engines.segments.journal_reading import JournaledBatch
from klamm.storage.engines.segments.loading import LoadSettings, load_parts
from klamm.storage.log import LogError, MustLoadError

_HANDLES: Final = 16


class Recoveries:
    """Logs that were recovered and are to be opened: where they end, or why their recovery failed."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._outcomes: dict[TopicPartition, int | LogError] = {}

    def settings_after(self, place: TopicPartition, settings: LoadSettings) -> LoadSettings | None:
        """How to load a log that was recovered; None if it was not. Raises LogError if that failed."""
        outcome = self._outcomes.pop(place, None)
        if isinstance(outcome, LogError):
            raise outcome
        return None if outcome is None else replace(settings, is_clean=True, expected_end=outcome)

    def needed(
        self,
        place: TopicPartition,
        directory: str,
        settings: LoadSettings,
        read_journals: Callable[[], Sequence[JournaledBatch]],
    ) -> MustLoadError:
        """What to raise so that the log is recovered, with what journals hold of it."""

        def recover() -> None:
            try:
                journaled = read_journals()
                parts = load_parts(
                    self._files,
                    HandlePool(self._files, _HANDLES),
                    directory,
                    replace(settings, journaled=journaled),
                )
                parts.chain.close()
                self._outcomes[place] = parts.log_end_offset
            except LogError as error:
                self._outcomes[place] = error
            except OSError as error:
                self._outcomes[place] = LogError(
                    ErrorCode.kafka_storage_error, f"recovering {place} failed: {error}"
                )

        return MustLoadError(recover)
