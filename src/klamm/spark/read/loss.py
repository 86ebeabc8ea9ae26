"""Handling lost data: the query fails, or logs a warning and continues, by `failOnDataLoss`."""

from __future__ import annotations

import logging

from klamm.errors import KlammError

log = logging.getLogger(__name__)


class DataLossError(KlammError):
    """Records that the query should have read are not there any more."""


def report_loss(message: str, *, is_fatal: bool) -> None:
    """Raise, or write it into the log."""
    if is_fatal:
        raise DataLossError(f"{message}; to continue without it, set option failOnDataLoss=false")
    log.warning("%s; continuing because failOnDataLoss=false", message)
