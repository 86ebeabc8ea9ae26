"""What enters the machine besides requests: due timers, next steps, and results of actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from klamm.coordinator.transaction.actions import WriteMarkers
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition

# --- due timers --------------------------------------------------------------------------------------


class TimeoutsDue(NamedTuple):
    """Time to look for transactions that are open for longer than their timeout."""


class ExpiryDue(NamedTuple):
    """Time to look for transactional ids that are no longer used."""


class MarkersDue(NamedTuple):
    """Time to send markers again, after the back-off."""

    order: WriteMarkers


class EndHeldTooLong(NamedTuple):
    """The markers of a transaction take long: its client is answered before they are written."""

    transactional_id: str


# --- next steps --------------------------------------------------------------------------------------


class PrepareDurable(NamedTuple):
    """The decision to commit or abort cannot be lost any more: partitions may hear of it."""

    transactional_id: str


class TimedOut(NamedTuple):
    """A transaction is open for longer than its timeout."""

    transactional_id: str


# --- results of actions ------------------------------------------------------------------------------


class MarkersWritten(NamedTuple):
    """What became of the markers of one order, or of some of them."""

    order: WriteMarkers
    results: Mapping[TopicPartition, ErrorCode]


class ProducerIdAllocated(NamedTuple):
    """A new producer id, or why there is none."""

    transactional_id: str
    producer_id: int = -1
    error_code: ErrorCode = ErrorCode.none


# --- the log -----------------------------------------------------------------------------------------


class AppendRefused(NamedTuple):
    """The log rejected the record of a decision about a transactional id."""

    transactional_id: str
    request: object
    token: object
    error_code: ErrorCode


class CompletionRefused(NamedTuple):
    """The log rejected the record of a completion."""

    written: MarkersWritten
    error_code: ErrorCode


class ExpiryRefused(NamedTuple):
    """The log rejected the tombstones of expired ids."""

    error_code: ErrorCode
