"""A consumer group that a script drives: members come, go, die and stall, on virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Literal

from klamm.assignors.registry import Strategy
from klamm.assignors.server import GroupAssignor
from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.coordinator.group.config import GroupConfig
from klamm.durations import nanoseconds
from klamm.protocol.types import TopicPartition
from klamm.testing.rebalances.coordinator import ScriptedTopics
from klamm.testing.rebalances.epochs import assignor_name, group_assignors
from klamm.testing.rebalances.history import Callback, GroupGeneration
from klamm.testing.rebalances.kept_log import KeptLog
from klamm.testing.rebalances.member import ListenerMaker, ScriptedMember, Status
from klamm.testing.rebalances.network import ADDRESS
from klamm.testing.rebalances.settings import SettingsByName
from klamm.testing.rebalances.world import GROUP_ID, World

_COORDINATOR_SETTINGS: Final = frozenset(each.name for each in fields(GroupConfig))
_BOOTSTRAP: Final = "{}:{}".format(*ADDRESS)
_MS_NS: Final = 1_000_000
_MOST_LINES: Final = 200  # of the story, in an error


@dataclass(frozen=True, slots=True)
class _Joined:
    """How a member joined, to join again in the same way."""

    topics: tuple[str, ...] | None
    pattern: str | None
    is_static: bool
    assignor: Strategy | Sequence[Strategy] | GroupAssignor | None
    listener: ListenerMaker | None
    settings: Mapping[str, Any]


class ScriptedGroup:
    """One group: klamm's coordinator, its consumers, your assignor and your listener; no sockets, no threads.

    Each step (`join`, `leave`, `die`, ...) happens at the present instant of a virtual clock. `settle` lets
    time pass until the group is at rest, `advance` for as long as you say. Heartbeats, sessions and
    rebalances take the time that they take on a broker.

    `partitions` has the topics. `assignor` is as `partition.assignment.strategy` of a consumer; with
    `protocol="consumer"` it is the coordinator's: a name, or a `GroupAssignor`. `listener` makes the
    rebalance listener of a member; it may take the member's `klamm.Consumer`, which can commit.
    `settings` are those of the consumers, `coordinator` those of the broker. With a `seed`, messages of
    different members overtake each other, the same way in each run.

    Errors that a consumer's `poll` raises end the step; `errors="keep"` lets the members go on, see
    `poll_errors`. Checked all the time: no partition is given to a member while another one has it
    (`exclusive`), and at rest every partition has an owner (`complete`).
    """

    def __init__(
        self,
        partitions: Mapping[str, int],
        assignor: Strategy | Sequence[Strategy] | GroupAssignor | None = None,
        *,
        listener: ListenerMaker | None = None,
        settings: Mapping[str, Any] | None = None,
        coordinator: Mapping[str, int] | None = None,
        racks: Sequence[str] = (),
        protocol: Literal["classic", "consumer"] = "classic",
        seed: int | None = None,
        errors: Literal["raise", "keep"] = "raise",
        exclusive: bool = True,
        complete: bool = True,
    ) -> None:
        for name, value, expected in (
            ("errors", errors, ("raise", "keep")),
            ("protocol", protocol, ("classic", "consumer")),
        ):
            if value not in expected:
                raise ValueError(f"invalid {name} {value!r}: expected {' or '.join(map(repr, expected))}")
        self._protocol = protocol
        self._assignor = assignor
        self._listener = listener
        self._settings = {name.replace(".", "_"): value for name, value in (settings or {}).items()}
        self._is_complete = complete
        self._raises = errors == "raise"
        self._world = World(
            ScriptedTopics(partitions),
            _coordinator_config(coordinator or {}),
            racks=racks,
            seed=seed,
            is_exclusive=exclusive,
            assignors=group_assignors(assignor) if protocol == "consumer" else None,
        )
        self._world.ends_at_errors = self._raises
        self._settings_by_name = SettingsByName()
        self._joined: dict[str, _Joined] = {}
        self._reported_errors = 0
        self._kept_log = KeptLog()
        self.seed = seed
        self.step_count = 0
        self.is_told = False  # an error has the story

    # --- members -------------------------------------------------------------------------------------------

    def join(
        self,
        *names: str,
        topics: Iterable[str] | None = None,
        pattern: str | None = None,
        static: bool = False,
        assignor: Strategy | Sequence[Strategy] | GroupAssignor | None = None,
        listener: ListenerMaker | None = None,
        **settings: Any,
    ) -> None:
        """Start consumers of these names. They subscribe to all topics, to these, or to a pattern.

        `static=True` makes the name the member's `group.instance.id`.
        """
        __tracebackhide__ = True
        chosen = None if topics is None else tuple(topics)
        for name in names:
            if name in self._world.members:
                raise ValueError(f"{name} is running: end it with leave() or die(), or use restart()")
            how = _Joined(chosen, pattern, static, assignor, listener, settings)
            with self._step("join", name, *(["static"] if static else [])):
                self._start(name, how)

    def _start(self, name: str, how: _Joined) -> None:
        before = self._world.ended.pop(name, None)
        if before is not None:
            before.deliver()
            before.let_go()
        given = how.assignor if how.assignor is not None else self._assignor
        keywords: dict[str, Any] = {
            "enable_auto_commit": False,
            **self._settings,
            **{key.replace(".", "_"): value for key, value in how.settings.items()},
            "bootstrap_servers": _BOOTSTRAP,
            "group_id": GROUP_ID,
            "client_id": name,
        }
        if self._protocol == "consumer":
            keywords = {"group_protocol": "consumer", **keywords}
        if keywords.get("group_protocol") == "consumer":
            keywords["group_remote_assignor"] = assignor_name(given)
        elif given is not None:
            keywords["partition_assignment_strategy"] = given
        if how.is_static:
            keywords["group_instance_id"] = name
        settings = self._settings_by_name.of(name, keywords)
        member = ScriptedMember(self._world, name, settings, how.listener or self._listener)
        self._world.members[name] = member
        self._joined[name] = how
        if how.pattern is not None:
            member.consumer.subscribe(pattern=how.pattern, listener=member.recorder)
        else:
            topics = tuple(self._world.topics.known) if how.topics is None else how.topics
            member.consumer.subscribe(topics, listener=member.recorder)
        member.turn()

    def leave(self, *names: str) -> None:
        """Close consumers. A static member says nothing: the coordinator notices when its session ends."""
        __tracebackhide__ = True
        for name in names:
            member = self._member(name)
            with self._step("leave", name):
                try:
                    member.close()
                except Exception as error:  # of the listener: the consumer is closed all the same
                    self._world.poll_failed(member, error)
                finally:
                    self._ended(name)

    def _ended(self, name: str) -> None:
        self._world.ended[name] = self._world.members.pop(name)

    def die(self, *names: str) -> None:
        """End processes at once. The coordinator notices when the session ends."""
        __tracebackhide__ = True
        for name in names:
            member = self._member(name)
            with self._step("die", name):
                member.end()
                self._ended(name)

    def restart(self, *names: str) -> None:
        """Start a consumer again in the same way as before; if it runs, its process ends first."""
        __tracebackhide__ = True
        for name in names:
            if name not in self._joined:
                raise ValueError(f"{name} has never joined")
            with self._step("restart", name):
                if (running := self._world.members.get(name)) is not None:
                    running.end()
                    self._ended(name)
                self._start(name, self._joined[name])

    def stall(self, *names: str) -> None:
        """Stop processes, as a long pause of the garbage collector does: no heartbeats. See `resume`."""
        __tracebackhide__ = True
        for name in names:
            member = self._member(name)
            with self._step("stall", name):
                member.stall()

    def stop_polling(self, *names: str) -> None:
        """The application is busy and does not poll; heartbeats go on for `max.poll.interval.ms`."""
        __tracebackhide__ = True
        for name in names:
            member = self._member(name)
            with self._step("stop_polling", name):
                member.stop_polling()

    def resume(self, *names: str) -> None:
        """Go on after `stall` or `stop_polling`."""
        __tracebackhide__ = True
        for name in names:
            member = self._member(name)
            with self._step("resume", name):
                member.resume()

    def subscribe(self, name: str, *topics: str) -> None:
        """Subscribe to other topics."""
        __tracebackhide__ = True
        member = self._member(name)
        with self._step("subscribe", name, *topics):
            member.consumer.subscribe(topics, listener=member.recorder)
            member.turn()

    def _member(self, name: str) -> ScriptedMember:
        member = self._world.members.get(name)
        if member is None:
            running = ", ".join(self._world.members) or "none"
            raise ValueError(f"{name} is not running; running are: {running}")
        return member

    # --- cluster -------------------------------------------------------------------------------------------

    def add_partitions(self, topic: str, count: int) -> None:
        """Let a topic have more partitions. The leader sees them after at most `metadata.max.age.ms`."""
        __tracebackhide__ = True
        known = self._world.topics.by_name(topic)
        if known is None or count <= known.partition_count:
            present = "does not exist" if known is None else f"has {known.partition_count}"
            raise ValueError(f"{topic} cannot have {count} partitions: it {present}")
        with self._step("add_partitions", topic, count):
            self._world.topics.known[topic] = known._replace(partition_count=count)
            self._world.topics.version += 1
            self._world.topics_changed += 1

    def create_topic(self, topic: str, count: int) -> None:
        """Create a topic. Members that subscribed to it, or to a pattern, see it as in `add_partitions`."""
        __tracebackhide__ = True
        if self._world.topics.by_name(topic) is not None:
            raise ValueError(f"{topic} exists")
        with self._step("create_topic", topic, count):
            self._world.topics.create(topic, count)
            self._world.topics_changed += 1

    def restart_coordinator(self) -> None:
        """Restart the broker: connections break, the group is loaded from the coordinator's log.

        Static members that returned during a rebalance are fenced, as by Kafka: see `unregistered`.
        """
        __tracebackhide__ = True
        with self._step("restart_coordinator"):
            self._world.restart_coordinator()

    # --- time ----------------------------------------------------------------------------------------------

    def advance(self, duration: str | timedelta) -> None:
        """Let time pass."""
        __tracebackhide__ = True
        duration_ms = nanoseconds(duration) // _MS_NS
        with self._step("advance", str(duration)):
            self._world.run_until(lambda: False, self._world.now_ms + duration_ms)

    def settle(self, timeout: str | timedelta = "1h") -> None:
        """Let time pass until the group is at rest: all members in one generation, the others removed."""
        __tracebackhide__ = True
        limit_ms = nanoseconds(timeout) // _MS_NS
        with self._step("settle"):
            if not self._world.run_until(self._world.is_settled_or_over, self._world.now_ms + limit_ms):
                raise _NotAtRestError(f"the group is not at rest after {timeout}: {self._unrest()}")
        self._check(is_settled=not self._world.is_over)

    def _unrest(self) -> str:
        group = self._world.group
        phase = "no group" if group is None else f"{group.state_name}, generation {group.generation}"
        states = ", ".join(
            f"{each.name} {each.engine.membership.state.value} in {each.generation}"
            for each in self._world.members.values()
        )
        return f"coordinator: {phase}; members: {states or 'none'}"

    @property
    def now(self) -> timedelta:
        """The time since the group began."""
        return timedelta(milliseconds=self._world.at_ms)

    # --- what is ------------------------------------------------------------------------------------------

    @property
    def members(self) -> tuple[str, ...]:
        """The consumers whose processes run, also those that stall."""
        return tuple(self._world.members)

    @property
    def running(self) -> tuple[str, ...]:
        """The consumers that poll."""
        members = self._world.members.values()
        return tuple(each.name for each in members if each.status is Status.RUNNING)

    @property
    def unregistered(self) -> tuple[str, ...]:
        """The static members with a new id that is not yet in the coordinator's log, but their old one."""
        return self._world.unregistered()

    @property
    def joined(self) -> tuple[str, ...]:
        """The names that have ever joined."""
        return tuple(self._joined)

    @property
    def partitions(self) -> dict[str, int]:
        """The topics, with the number of their partitions."""
        return {name: known.partition_count for name, known in self._world.topics.known.items()}

    @property
    def assignment(self) -> dict[str, tuple[TopicPartition, ...]]:
        """What each consumer has, as it knows."""
        return {name: member.assignment for name, member in self._world.members.items()}

    @property
    def generation(self) -> int:
        """The coordinator's; 0 before the first."""
        return 0 if self._world.group is None else self._world.group.generation

    def consumer(self, name: str) -> Consumer[Any, Any]:
        """A member's consumer. It can commit and be asked; it has no records."""
        return self._member(name).consumer

    def listener(self, name: str) -> RebalanceListener:
        """A member's listener, as your function made it."""
        return self._member(name).listener

    # --- what was ------------------------------------------------------------------------------------------

    @property
    def history(self) -> list[GroupGeneration]:
        """The generations so far."""
        return self._world.history.generations

    def callbacks(self, name: str | None = None) -> list[Callback]:
        """The calls of listeners so far, of one member or of all."""
        found = self._world.history.callbacks
        return [each for each in found if name is None or each.member == name]

    @property
    def poll_errors(self) -> list[tuple[str, Exception]]:
        """What polls raised, with the member's name."""
        return self._world.poll_errors

    @property
    def moved(self) -> int:
        """How many partitions went from one member of the group to another."""
        return sum(len(each.moved) for each in self.history)

    @property
    def stickiness(self) -> float | None:
        """The share of partitions that stayed with their owner, in all generations; None if none had one."""
        kept = sum(each.kept for each in self.history)
        return kept / (kept + self.moved) if kept + self.moved else None

    def story(self, *, requests: bool = False) -> str:
        """Steps, generations, callbacks and events, in order.

        `requests=True`: with requests to the coordinator and its answers among them, as `klamm groups trace`
        shows those of a broker. The last 10,000 are kept.
        """
        history = self._world.history
        return history.story_with(self._world.requests.entries()) if requests else history.story()

    @property
    def requests(self) -> list[Mapping[str, Any]]:
        """The last requests, answers and events, with the fields of `klamm groups trace --as json`."""
        return [entry for _, entry in self._world.requests.entries()]

    @property
    def log(self) -> str:
        """What klamm's coordinator and clients have logged, by the levels of their loggers."""
        return self._kept_log.text()

    # --- checks --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """AssertionError, with the story, if a promise is broken."""
        __tracebackhide__ = True
        self._check(is_settled=self._world.is_settled())

    def _check(self, *, is_settled: bool) -> None:
        __tracebackhide__ = True
        problem = self._world.violation
        if not problem and self._is_complete and is_settled:
            problem = self._orphans()
        if problem:
            raise AssertionError(f"{problem}\n\n{self._told()}")

    def _orphans(self) -> str:
        running = [each for each in self._world.members.values() if each.status is Status.RUNNING]
        topics = frozenset().union(*(each.engine.state.topics for each in running))
        known = self._world.topics.known
        owned = set().union(*(each.engine.state.partitions for each in running))
        orphans = [
            each
            for topic in sorted(topics & known.keys())
            for number in range(known[topic].partition_count)
            if (each := TopicPartition(topic, number)) not in owned
        ]
        return f"no member has {', '.join(map(str, orphans))}, and the group is at rest" if orphans else ""

    def _told(self) -> str:
        self.is_told = True
        seed = "" if self.seed is None else f"seed {self.seed}\n"
        log = f"\n\nlog:\n{self.log}" if self.log else ""
        return seed + self._world.history.story(_MOST_LINES) + log

    def _step(self, name: str, *arguments: object) -> _Step:
        """One step of the script: note it, let happen what follows at once, raise what went wrong."""
        self.step_count += 1
        self._world.history.note(self._world.at_ms, f"{name} {' '.join(map(str, arguments))}".rstrip())
        return _Step(self._kept_log, self._end_step)

    def _end_step(self, error: BaseException | None) -> None:
        __tracebackhide__ = True
        world = self._world
        if error is None:
            try:
                # With a seed, some of what follows happens after the next step.
                world.exchange(None if world.random is None else world.random.randrange(20))
            except AssertionError as failed:
                error = failed
        if isinstance(error, AssertionError):
            cause = None if isinstance(error, _NotAtRestError) else error
            raise AssertionError(f"{error}\n\n{self._told()}") from cause
        if error is not None:
            return  # it goes on its way
        if self._raises and len(world.poll_errors) > self._reported_errors:
            member, failure = world.poll_errors[self._reported_errors]
            self._reported_errors = len(world.poll_errors)
            world.is_over = bool(world.violation)
            failure.add_note(f"raised by the poll of {member}\n\n{self._told()}")
            raise failure
        if world.violation:
            self.check()


class _NotAtRestError(AssertionError):
    """Says it all: the place in klamm where it was noticed does not matter."""


class _Step:
    """A class, since a generator would show frames of contextlib in the tracebacks of tests."""

    def __init__(self, kept_log: KeptLog, end: Callable[[BaseException | None], None]) -> None:
        self._kept_log = kept_log
        self._end = end

    def __enter__(self) -> None:
        self._kept_log.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        try:
            self._end(error)
        finally:
            self._kept_log.__exit__(kind, error, trace)


def _coordinator_config(given: Mapping[str, int]) -> GroupConfig:
    named: dict[str, Any] = {name.replace(".", "_"): value for name, value in given.items()}
    unknown = sorted(named.keys() - _COORDINATOR_SETTINGS)
    if unknown:
        known = ", ".join(sorted(each.replace("_", ".") for each in _COORDINATOR_SETTINGS))
        raise ValueError(f"unknown setting {unknown[0]!r} of the coordinator: expected one of {known}")
    # As in klamm.Broker: the first rebalance does not wait for more members.
    return GroupConfig(**{"group_initial_rebalance_delay_ms": 0, **named})
