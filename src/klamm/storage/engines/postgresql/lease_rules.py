"""When the lease of a broker has ended, as conditions on its row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zlib import crc32

_EARLY_MARGIN_MS: Final = 1000  # beyond the serve window, for clocks that drift


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """The times of leases, and the advisory locks of brokers of one cluster."""

    cluster_id: str
    session_timeout_ms: int
    serve_window_ms: int

    @property
    def lock_class(self) -> int:
        """The first key of its advisory locks; the second is the broker id."""
        return crc32(f"klamm {self.cluster_id}".encode()) - 2**31

    @property
    def silence_ms(self) -> int:
        """After this time without a renewal a broker holds its responses back."""
        return self.serve_window_ms + _EARLY_MARGIN_MS

    def values(self) -> dict[str, int]:
        """The parameters that the conditions use."""
        return {
            "session": self.session_timeout_ms,
            "silence": self.silence_ms,
            "lock_class": self.lock_class,
        }

    def is_silent(self) -> str:
        """Whether a broker holds its responses back by now: it has not renewed for that long."""
        return "renewed_at < clock_timestamp() - %(silence)s * interval '1 millisecond'"

    def is_dead(self) -> str:
        """Whether others may take a broker's partitions over.

        Not soon after a start of the database: then all locks are free, and nobody had time to renew.
        """
        return (
            "state <> 'gone' AND pg_postmaster_start_time() < clock_timestamp() - %(session)s * "
            "interval '1 millisecond' AND (expires_at < clock_timestamp() OR "
            f"({self.is_silent()} AND NOT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND classid = (%(lock_class)s::bigint & 4294967295)::oid AND objid = broker_id::oid "
            "AND granted)))"
        )
