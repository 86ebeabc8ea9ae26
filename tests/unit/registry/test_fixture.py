"""The fixture of a registry beside the broker of a test."""

from __future__ import annotations

import json
from urllib.request import urlopen

from klamm.testing import Broker


def test_a_test_gets_a_registry_on_its_broker(klamm_broker: Broker, klamm_registry: str) -> None:
    with urlopen(f"{klamm_registry}/subjects", timeout=30) as answer:
        assert json.load(answer) == []
    assert "_schemas" in klamm_broker.topics()
