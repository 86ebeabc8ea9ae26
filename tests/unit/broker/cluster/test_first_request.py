"""What the first client of a broker meets."""

from __future__ import annotations

from pathlib import Path

import pytest

import klamm
from klamm.broker.net.server import BoundListener, Server


def test_a_broker_that_listens_is_in_its_own_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[list[int]] = []
    listen = Server.listen

    async def observed(server: Server, bound: BoundListener) -> None:
        listed.append([each.broker_id for each in server._services.image.running_brokers()])
        await listen(server, bound)

    monkeypatch.setattr(Server, "listen", observed)
    with klamm.Broker(tmp_path / "data"):
        assert listed == [[1]]
