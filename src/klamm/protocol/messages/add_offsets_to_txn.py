"""AddOffsetsToTxn (key 25), versions 0 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    """AddOffsetsToTxn, the request."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""
    knows_producer_fenced: bool = False  # what the version implies


@dataclass(slots=True)
class AddOffsetsToTxnResponse:
    """AddOffsetsToTxn, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
