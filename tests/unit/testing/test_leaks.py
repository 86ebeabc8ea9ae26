"""A broker that starts and stops leaves nothing behind: no threads, no descriptors, no memory.

Each measurement has a process of its own: what other tests left in theirs may come and go meanwhile.
`KLAMM_LEAK_CYCLES=1000` runs more cycles than CI does.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections import Counter
from typing import NamedTuple

import pytest

import klamm
from klamm.testing import Broker, ScriptedGroup

CYCLES = int(os.environ.get("KLAMM_LEAK_CYCLES", "200"))
WARM_UP = 20  # the first cycles import modules, compile codecs and fill caches


class Held(NamedTuple):
    """What the process has."""

    descriptors: int
    threads: int
    objects: Counter[str]  # by type, of those that the garbage collector knows


def held() -> Held:
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    kinds = Counter(type(each).__qualname__ for each in gc.get_objects())
    return Held(descriptors, threading.active_count(), kinds)


def cycle(number: int) -> None:
    with Broker() as broker:
        broker.clock.advance("1s")
        if number % 10:
            return
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("t", "x").result()
        with klamm.Consumer(
            "t", bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            assert len(consumer.consume(1, timeout=30)) == 1
        assert broker.group("g").total_lag == 0
        broker.kill()
        broker.restart()


def brokers() -> None:
    for number in range(WARM_UP):
        cycle(number)
    before = held()
    for number in range(CYCLES):
        cycle(number)
    after = held()
    assert after.descriptors == before.descriptors, (before.descriptors, after.descriptors)
    assert after.threads == before.threads, (before.threads, after.threads)
    # One object that stays in each cycle would be seen; a cache that grows a little now and then is not one.
    grown = _grown(before, after, CYCLES // 2)
    assert not grown, grown


def scripted_groups() -> None:
    def script() -> None:
        group = ScriptedGroup({"orders": 3}, "cooperative-sticky")
        group.join("a", "b")
        group.settle()
        group.die("a")
        group.settle()

    for _ in range(10):  # codecs are made when they are used for the first time
        script()
        before = held()
    for _ in range(10):
        script()
    grown = _grown(before, held(), 5)
    assert not grown, grown


def _grown(before: Held, after: Held, limit: int) -> dict[str, int]:
    return {kind: count for kind, count in (after.objects - before.objects).items() if count >= limit}


@pytest.mark.parametrize("measured", ["brokers", "scripted_groups"])
def test_what_starts_and_stops_leaves_nothing_behind(measured: str) -> None:
    done = subprocess.run([sys.executable, __file__, measured], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    {"brokers": brokers, "scripted_groups": scripted_groups}[sys.argv[1]]()
