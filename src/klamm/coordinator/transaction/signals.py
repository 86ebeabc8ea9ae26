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


class IdExpiryDue(NamedTuple):
    """Time to look for transactional ids that are no longer used."""


class MarkersDue(NamedTuple):
    """Time to send markers again, after the back-off."""

    order: WriteMarkers


class EndHeldTooLong(NamedTuple):
    """Writing the markers of a transaction exceeds the limit: its client is answered before that."""

    transactional_id: str


# --- next steps --------------------------------------------------------------------------------------


class Prepared(NamedTuple):
    """The decision to commit or abort is logged: markers may be durable when it is."""

    transactional_id: str


class EndComplete(NamedTuple):
    """All markers of a transaction are durable."""

    token: object
    response: object
    prepared_until: int


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


class IdExpiryRefused(NamedTuple):
    """The log rejected the tombstones of expired ids."""

    error_code: ErrorCode
