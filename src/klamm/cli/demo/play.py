"""The demo's script: which members join, leave and are killed, and what must hold at the end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from klamm.cli.demo.orders import TOPIC, OrderSource
from klamm.cli.demo.processes import DemoBroker, DemoMember
from klamm.cli.demo.screen import Screen
from klamm.cli.demo.watching import DemoWatcher, View
from klamm.client.admin.admin import Admin
from klamm.client.admin.model import NewTopic
from klamm.clock import Clock

GROUP: Final = "billing"
PARTITIONS: Final = 6
PER_SECOND: Final = 200
SESSION_TIMEOUT_MS: Final = 6_000
PACE_S: Final = 7.0  # to show each step
LOOK_EVERY_S: Final = 0.4
PATIENCE_S: Final = 45.0


class DemoFailedError(Exception):
    """An expectation of the demo failed."""


@dataclass(frozen=True, slots=True)
class GroupResult:
    """How the orders were read."""

    bootstrap: str
    sent: int
    revenue_cents: int
    read: int  # different orders
    repeated: int  # read once more after a crash
    rebalances: int


class Play:
    """Runs the script. Everything it starts ends with the stack that it is given."""

    def __init__(
        self,
        folder: Path,
        screen: Screen,
        stack: ExitStack,
        clock: Clock,
        random: Random,
        pace_s: float = PACE_S,
    ) -> None:
        self._screen = screen
        self._pace_s = pace_s
        self._stack = stack
        self._clock = clock
        self._random = random
        self._lock = threading.Lock()
        self._read: Counter[int] = Counter()
        self._by_member: Counter[str] = Counter()
        self._members: dict[str, DemoMember] = {}
        screen.say("starting a broker")
        started = time.perf_counter()
        broker = self.broker = DemoBroker(folder)
        stack.callback(broker.stop)
        self.bootstrap = broker.bootstrap
        screen.say(
            f"a broker serves at {broker.bootstrap}, {(time.perf_counter() - started) * 1000:.0f} ms later"
        )
        self._watcher = DemoWatcher(broker.bootstrap, GROUP)
        stack.callback(self._watcher.close)

    def run(self) -> GroupResult:
        """The group's part: three members, one more, one less, one killed; every order counted."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).unwrap()
        source = OrderSource(self.bootstrap, per_second=PER_SECOND, clock=self._clock, random=self._random)
        self._stack.callback(source.close)
        source.start()
        self._step(
            "anna, bert and carl join the group and share six partitions", self._join("anna", "bert", "carl")
        )
        self._until(self._has("anna", "bert", "carl"), "three members in a stable group")
        self._watch(self._pace_s)
        self._step("dora joins: some partitions move to her, the others keep being read", self._join("dora"))
        self._until(self._has("anna", "bert", "carl", "dora"), "dora in the group")
        self._watch(self._pace_s)
        self._step("carl leaves the group", self._members["carl"].leave)
        self._until(self._has("anna", "bert", "dora"), "the group without carl")
        self._watch(self._pace_s)
        self._step(
            f"kill -9 for bert: without heartbeats for {SESSION_TIMEOUT_MS // 1000} s he is removed",
            self._members["bert"].kill,
        )
        self._until(self._has("anna", "dora"), "the group without bert")
        self._watch(self._pace_s)
        source.stop()
        self._screen.say(f"{source.sent} orders are sent; waiting until all of them are read")
        view = self._until(lambda view: view.lag == 0 and self._count() >= source.sent, "no lag")
        for name in ("anna", "dora"):
            self._members[name].leave()
        return self._result(source, view)

    def _result(self, source: OrderSource, view: View) -> GroupResult:
        with self._lock:
            missing = source.sent - len(self._read)
            repeated = sum(self._read.values()) - len(self._read)
        if missing:
            raise DemoFailedError(f"{missing} of {source.sent} orders were not read")
        rebalances = sum(chapter.event.get("type") == "rebalance_completed" for chapter in view.story)
        return GroupResult(
            self.bootstrap, source.sent, source.revenue_cents, source.sent, repeated, rebalances
        )

    def _count(self) -> int:
        with self._lock:
            return len(self._read)

    def _on_orders(self, name: str, orders: list[int]) -> None:
        with self._lock:
            self._read.update(orders)
            self._by_member[name] += len(orders)

    def counts(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._by_member)

    def _join(self, *names: str) -> Callable[[], None]:
        def join() -> None:
            for name in names:
                member = self._members[name] = DemoMember(
                    name,
                    self.bootstrap,
                    GROUP,
                    session_timeout_ms=SESSION_TIMEOUT_MS,
                    on_orders=self._on_orders,
                )
                self._stack.callback(member.kill)

        return join

    def _step(self, text: str, act: Callable[[], None]) -> None:
        self._screen.say(text)
        act()

    def _look(self) -> View:
        view = self._watcher.look()
        self._screen.show(view, dict(self.counts()))
        return view

    def _watch(self, duration_s: float) -> None:
        end = time.monotonic() + duration_s
        while time.monotonic() < end:
            self._look()
            time.sleep(LOOK_EVERY_S)

    def _until(self, condition: Callable[[View], bool], what: str) -> View:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            view = self._look()
            if condition(view):
                return view
            time.sleep(LOOK_EVERY_S)
        raise DemoFailedError(f"{what}: not within {PATIENCE_S:.0f} s")

    def _has(self, *names: str) -> Callable[[View], bool]:
        def holds(view: View) -> bool:
            return view.state == "Stable" and set(view.members) == set(names) == set(view.owners.values())

        return holds
