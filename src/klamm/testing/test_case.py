"""A base class for tests with unittest."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import ClassVar

from klamm.config import RawValue
from klamm.testing.broker import Broker


class BrokerTestCase(unittest.TestCase):
    """Each test has a broker of its own, `self.broker`; `settings` of the class are the broker's.

    Their names are Kafka's, with dots or with underscores.
    """

    settings: ClassVar[Mapping[str, RawValue]] = {}
    broker: Broker

    def setUp(self) -> None:
        super().setUp()
        settings = {name.replace("_", "."): value for name, value in self.settings.items()}
        self.broker = Broker(settings=settings).start()
        self.addCleanup(self.broker.stop)
