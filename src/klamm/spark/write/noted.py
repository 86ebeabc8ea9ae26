"""The transaction that a batch has open, noted on the driver's machine for the process that aborts the batch.

Spark plans a batch in one process and aborts it in another, to which it passes what the tasks report. Tasks
that fail report nothing: without the note their transaction would stay open, and readers of committed records
would wait, until the next plan or `transaction.timeout.ms`.
"""

from __future__ import annotations

import json
import logging
import os
from hashlib import sha256
from pathlib import Path

from klamm.client.producer.transactions.handover import OpenTransaction
from klamm.spark.options.options import SinkOptions

log = logging.getLogger(__name__)


def local_folder() -> Path | None:
    """A folder for the Python processes of one executor or driver, and no others; Spark removes it."""
    folders = os.environ.get("SPARK_LOCAL_DIRS")
    return Path(folders.split(",")[0]) / "klamm" if folders else None


def note(options: SinkOptions, transaction: OpenTransaction) -> None:
    """Keep the transaction that a batch was planned with, in place of the one before."""
    path = _path(options)
    if path is None:
        return
    text = json.dumps([*transaction.identity, transaction.version])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        # The batch does not need it.
        log.warning("writing %s failed: a failed batch is aborted when it is run again: %s", path, error)


def noted(options: SinkOptions) -> OpenTransaction | None:
    """The transaction that the current batch was planned with; None where that is not known."""
    path = _path(options)
    if path is None or not path.exists():
        return None
    transactional_id, producer_id, epoch, version = json.loads(path.read_text(encoding="utf-8"))
    return OpenTransaction(transactional_id, producer_id, epoch, version)


def _path(options: SinkOptions) -> Path | None:
    folder = local_folder()
    if folder is None:
        return None
    # By checkpoint, too: of two queries with one id, the older must not abort for the newer.
    key = json.dumps([options.transactional_id, options.checkpoint])
    return folder / f"planned-{sha256(key.encode()).hexdigest()[:24]}.json"
