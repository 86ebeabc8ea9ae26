"""The client's thread outlives whatever its callers do."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from random import Random
from typing import Any

import pytest

from klamm.client import runtime
from klamm.client.runtime import ClientThread
from klamm.clock import SystemClock
from klamm.net.metadata import MetadataConfig
from klamm.net.network import NetworkConfig

PATIENCE_S = 10


class CancelledMeanwhile(Future[Any]):
    """A future that its caller cancels just as the result comes."""

    def set_result(self, result: Any) -> None:
        self.cancel()
        super().set_result(result)


def test_a_result_that_is_cancelled_as_it_comes_does_not_end_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread = ClientThread(
        NetworkConfig((("127.0.0.1", 1),), "test"),
        MetadataConfig(),
        clock=SystemClock(),
        random=Random(1),
        name="test",
    )
    thread.start()
    monkeypatch.setattr(runtime, "future_on", lambda _clock: CancelledMeanwhile())

    async def work() -> int:
        await thread.core.tasks.sleep(1)
        return 1

    with pytest.raises(CancelledError):
        thread.run(work).result(PATIENCE_S)
    assert thread.ask(lambda: 2).result(PATIENCE_S) == 2
    thread.stop()
    assert thread.reactor.failure is None
