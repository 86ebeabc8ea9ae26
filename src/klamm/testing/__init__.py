"""For tests of code that talks to Kafka: a broker in the process, time that the test moves, faults."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.testing.broker import Broker as Broker
    from klamm.testing.faults import Fault as Fault
    from klamm.testing.faults import Faults as Faults
    from klamm.testing.observation import Group as Group
    from klamm.testing.observation import NotKnownError as NotKnownError
    from klamm.testing.observation import assert_consumed_exactly_once as assert_consumed_exactly_once
    from klamm.testing.observation import wait_until as wait_until
    from klamm.testing.rebalances.group import ScriptedGroup as ScriptedGroup
    from klamm.testing.rebalances.scripts import check_rebalances as check_rebalances
    from klamm.testing.rebalances.scripts import random_script as random_script
    from klamm.testing.secure_broker import SecureBroker as SecureBroker
    from klamm.testing.test_case import BrokerTestCase as BrokerTestCase
    from klamm.testing.virtual_loop import VirtualLoop as VirtualLoop
    from klamm.testing.wire import WireClient as WireClient

# Imported on first use: pytest imports this package in every project where klamm is installed.
_HOMES = {
    "Broker": "klamm.testing.broker",
    "BrokerTestCase": "klamm.testing.test_case",
    "Fault": "klamm.testing.faults",
    "Faults": "klamm.testing.faults",
    "Group": "klamm.testing.observation",
    "NotKnownError": "klamm.testing.observation",
    "ScriptedGroup": "klamm.testing.rebalances.group",
    "SecureBroker": "klamm.testing.secure_broker",
    "VirtualLoop": "klamm.testing.virtual_loop",
    "WireClient": "klamm.testing.wire",
    "assert_consumed_exactly_once": "klamm.testing.observation",
    "check_rebalances": "klamm.testing.rebalances.scripts",
    "random_script": "klamm.testing.rebalances.scripts",
    "wait_until": "klamm.testing.observation",
}
__all__ = [
    "Broker",
    "BrokerTestCase",
    "Fault",
    "Faults",
    "Group",
    "NotKnownError",
    "ScriptedGroup",
    "SecureBroker",
    "VirtualLoop",
    "WireClient",
    "assert_consumed_exactly_once",
    "check_rebalances",
    "random_script",
    "wait_until",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'klamm.testing' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
