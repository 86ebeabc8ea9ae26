"""What happens when data is gone: the query fails, or says so and goes on, as `failOnDataLoss` has it."""

from __future__ import annotations

import logging

from klamm.errors import KlammError

log = logging.getLogger(__name__)


class DataLossError(KlammError):
    """Records that the query should have read are not there any more."""


def report_loss(message: str, *, is_fatal: bool) -> None:
    """Raise, or write it into the log."""
    if is_fatal:
        raise DataLossError(f"{message}; to go on with what is left, set option failOnDataLoss=false")
    log.warning("%s; going on, because failOnDataLoss=false", message)
