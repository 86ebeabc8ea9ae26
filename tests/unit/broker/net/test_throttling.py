"""Throttle times: set in a copy, because handlers may share their responses."""

from __future__ import annotations

from klamm.broker.net.throttling import throttled
from klamm.protocol.messages.heartbeat import HeartbeatResponse
from klamm.protocol.messages.write_txn_markers import WriteTxnMarkersResponse


def test_a_shared_response_is_not_changed() -> None:
    shared = HeartbeatResponse(error_code=27)
    slowed = throttled(shared, 50)
    assert (slowed.throttle_time_ms, slowed.error_code) == (50, 27)
    assert shared.throttle_time_ms == 0
    assert throttled(shared, 0) is shared


def test_a_longer_time_of_the_handler_stays() -> None:
    own = HeartbeatResponse(throttle_time_ms=80)
    assert throttled(own, 50) is own
    assert throttled(own, 90).throttle_time_ms == 90


def test_a_response_without_a_throttle_time_stays_as_it_is() -> None:
    response = WriteTxnMarkersResponse()
    assert throttled(response, 50) is response
