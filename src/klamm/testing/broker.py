"""A broker for tests: virtual time, faults, kill and restart, and a look inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, Self, TypeVar, cast

from klamm.broker import broker as assembly
from klamm.broker import embedded
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.net.server import MakeConnection
from klamm.broker.storage import Storage, segment_store
from klamm.client.consumer.records import ConsumerRecord
from klamm.clock import Clock, SystemClock
from klamm.config import RawValue
from klamm.coordinator.runtime.events import Event
from klamm.storage.engines.memory_cluster import MemoryCluster
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.testing.faults import Faults
from klamm.testing.faulty_connection import FaultyConnection
from klamm.testing.observation import ANYTHING_TRUE, Activity, Group, Observer, Seen, Story

T = TypeVar("T")

_FOLDER: Final = "/memory"
_LOOK_EVERY_S: Final = 0.25  # of real time, for what happens without a request: a record that expires
# Every Fetch names its partitions, so that faults can select by them.
_CONTAINERS: Final = "CONTAINERS"  # the listener for them
_DOCKER_HOST: Final = "host.docker.internal"
_SETTINGS: Final[Mapping[str, RawValue]] = {"max.incremental.fetch.session.cache.slots": 0}


class Broker(embedded.Broker):
    """A broker for tests, in this process.

    It runs on virtual time (`broker.clock`), has faults (`broker.faults`), can be killed and restarted, and
    keeps its data on a simulated disk in memory. Settings are those of `klamm.Broker`.

    With `containers=True` it also listens on all interfaces of this machine, for containers, and
    `container_bootstrap` is the address for them; a text is the name of this machine there.
    """

    _not_in_bootstrap = (_CONTAINERS,)

    def __init__(
        self,
        data: str | Path | None = None,
        settings: Mapping[str, RawValue] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | Literal["virtual", "system"] = "virtual",
        seed: int = 0,
        containers: bool | str = False,
        **more_settings: RawValue,
    ) -> None:
        named = {name.replace("_", "."): value for name, value in more_settings.items()}
        given = {**_SETTINGS, **_listeners(host, port, containers), **(settings or {}), **named}
        super().__init__(data, given, host=host, port=port, clock=clock)
        self._ports: dict[str, int] = {}  # that were bound, by listener
        self._container_bootstrap = ""
        self._disk: SimulatedFiles | None = None
        self._cluster: MemoryCluster | None = None
        if self._is_in_memory:
            self._disk = SimulatedFiles(Random(seed), self._clock)
            self._cluster = MemoryCluster(random=Random(seed))
            self._disk.make_directory(_FOLDER)
            self._disk.sync_directory("/")
        self._ends_by: Literal["stop", "kill"] = "stop"
        self._story = Story()
        self._activity = Activity(self._clock)
        self._activity_outside = Activity(SystemClock(), look_every_s=_LOOK_EVERY_S)
        self._observer: Observer | None = None
        self._seen: Seen = {}
        self.faults = Faults(self._clock, self._disk, self._has_happened)
        self.log: Any = None  # what the pytest plugin keeps of the log

    @property
    def container_bootstrap(self) -> str:
        """The address for `bootstrap.servers` of a program in a container of this machine."""
        if not self._container_bootstrap:
            raise RuntimeError(
                "containers cannot connect to this broker: use Broker(containers=True), and start it"
            )
        return self._container_bootstrap

    # --- looking ---------------------------------------------------------------------------------------

    def records(
        self, topic: str, *, committed: bool = True
    ) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """All records of a topic, by timestamp; `committed=False` includes those of other transactions.

        Raises NotKnownError, an AssertionError, if there is no such topic.
        """
        __tracebackhide__ = True
        return self._look().records(topic, "read_committed" if committed else "read_uncommitted")

    def topics(self) -> dict[str, int]:
        """The topics, except internal ones, with their numbers of partitions."""
        return self._look().topics()

    def create_topic(self, name: str, partitions: int = -1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic, with the broker's number of partitions if none is given. Raises KlammError."""
        self._look().create_topic(name, partitions, configs or {})

    def group(self, group_id: str) -> Group:
        """State, members, assignment, committed offsets and lag of a group."""
        return self._look().group(group_id)

    def story(self, key: str | None = None, *, times: bool = False) -> str:
        """What happened to a group or transactional id, or to all, with causes: one line for each event.

        Without times it is the same in each run of a test that does the same.
        """
        return self._story.text(key, times)

    @property
    def story_so_far(self) -> int:
        """The number of lines that the story has."""
        return self._story.count

    def story_since(self, line: int) -> str:
        """What happened after so many lines of the story, with times."""
        return self._story.text(None, True, line)

    def wait_until(
        self,
        is_so: Callable[[], T],
        timeout: str = "30s",
        *,
        equals: object = ANYTHING_TRUE,
        real_time: bool = False,
    ) -> T:
        """Wait until a condition holds, or has this value, and return its value.

        It is checked when the broker does something. The time-out is on the broker's clock, unless
        `real_time`. AssertionError, with the last value, what was seen of groups and topics, and the story,
        when it is over. The condition may fail with an AssertionError itself: it is tried again.
        """
        __tracebackhide__ = True
        activity = self._activity_outside if real_time else self._activity
        story = partial(self.story, times=True)
        return cast("T", activity.wait_until(is_so, timeout, story, equals, self._seen))

    def _look(self) -> Observer:
        if not self.is_running:
            raise RuntimeError("the broker is not running")
        if self._observer is None:
            self._observer = Observer(self._own_settings(), self._seen)
        return self._observer

    def _own_settings(self) -> dict[str, RawValue]:
        """Of its own clients, which look at topics and groups."""
        return {"bootstrap.servers": self.bootstrap}

    # --- ending ----------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End it as `kill -9` does: connections break, nothing is completed or flushed. See `restart`."""
        self._end("kill").kill()

    def cut_power(self) -> None:
        """End it as a power failure does: writes that were not flushed may be lost. See `restart`."""
        self._end("power failure").crash()

    def restart(self) -> Self:
        """Start again at the same address, with what is on the disk; stops it first if it runs."""
        self.stop()
        self._given["listeners"] = [
            str(replace(each, port=self._ports.get(each.name, each.port))) for each in self._config.listeners
        ]
        self._config = BrokerConfig.from_settings(self._given)
        self._forget_run()
        return self.start()

    def stop(self) -> None:
        self.faults.lift()  # what a fault keeps waiting would keep the broker from stopping
        self._look_no_more()
        super().stop()

    def _look_no_more(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.close()

    def _end(self, how: str) -> SimulatedFiles:
        if self._disk is None:
            raise RuntimeError(
                f"a {how} needs a broker in memory: with a data folder, kill the process of `klamm up` "
                "and start it again"
            )
        if not self.is_running:
            raise RuntimeError("the broker is not running")
        self._ends_by = "kill"
        self._look_no_more()
        super().stop()
        self._ends_by = "stop"
        return self._disk

    # --- what embedded.Broker calls on its thread --------------------------------------------------------

    def _open_storage(self, random: Random) -> Storage:
        if self._disk is None or self._cluster is None:
            return super()._open_storage(random)
        cluster = self._cluster.join()
        logs = segment_store(self._config, _FOLDER, cluster, self._disk, self._clock)
        logs.journal.leaves_out = self.faults.separates
        return Storage(logs, cluster, self._disk)

    def _make_connection(self) -> MakeConnection:
        return partial(FaultyConnection, self.faults, self._has_acted)

    def _has_started(self, broker: assembly.BrokerNode) -> None:
        broker.services.events.watchers.append(self._has_happened)
        self._ports = {bound.name: bound.port for bound in broker.listeners}
        advertised = {each.name: each.host for each in self._config.advertised_listeners}
        if _CONTAINERS in self._ports:
            self._container_bootstrap = f"{advertised[_CONTAINERS]}:{self._ports[_CONTAINERS]}"

    def _has_happened(self, event: Event) -> None:
        self._story.add(event)
        self._has_acted()

    def _has_acted(self) -> None:
        self._activity.happened()
        self._activity_outside.happened()

    async def _close(self, broker: assembly.BrokerNode) -> None:
        if self._ends_by == "stop":
            await super()._close(broker)
            return
        await broker.kill()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for _ in range(_TURNS_TO_CLOSE):
            await asyncio.sleep(0)


_TURNS_TO_CLOSE: Final = 5  # of the loop, until aborted connections are closed


def _listeners(host: str, port: int, containers: bool | str) -> dict[str, RawValue]:
    """A listener for this program, and one for containers that knows this machine under another name."""
    if not containers:
        return {}
    named = containers if isinstance(containers, str) else _DOCKER_HOST
    return {
        "listeners": f"PLAINTEXT://{host}:{port},{_CONTAINERS}://0.0.0.0:0",
        "advertised.listeners": f"PLAINTEXT://{host}:{port},{_CONTAINERS}://{named}:0",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{_CONTAINERS}:PLAINTEXT",
    }
