"""The asyncio face of the producer: it never blocks the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from klamm.aio import Producer
from klamm.errors import KlammTimeoutError

NOWHERE = "127.0.0.1:1"  # nobody listens there


def test_waiting_for_metadata_happens_beside_the_loop() -> None:
    async def scenario() -> None:
        async with Producer(bootstrap_servers=NOWHERE, max_block_ms=50) as producer:
            sending = asyncio.create_task(producer.send_and_wait("t", b"x"))
            await asyncio.sleep(0)
            assert not sending.done()
            with pytest.raises(KlammTimeoutError, match="no metadata of topic t"):
                await sending
            await producer.flush()
            await producer.start()

    before = threading.active_count()
    asyncio.run(scenario())
    assert threading.active_count() <= before
