"""Random scripts for a group, from a seed; and the shortest part of one that still fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from klamm.testing.rebalances.group import ScriptedGroup

SEED: Final = "KLAMM_SEED"  # runs this one alone
_NAMES: Final = ("a", "b", "c", "d", "e", "f")
_MOST_ATTEMPTS: Final = 300  # to make a script shorter
_PAUSES: Final = ("100ms", "1s", "5s", "20s", "50s")
_WEIGHTS: Final[Mapping[str, int]] = {
    "join": 10, "leave": 4, "die": 4, "restart": 4, "stall": 3, "stop_polling": 1, "resume": 6,
    "advance": 12, "settle": 4, "add_partitions": 1, "restart_coordinator": 1,
}  # fmt: skip
_OF_RUNNING: Final = ("leave", "die", "stall", "stop_polling")


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a `ScriptedGroup`."""

    name: str
    arguments: tuple[str | int, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        given = [repr(each) for each in self.arguments]
        given += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"group.{self.name}({', '.join(given)})"

    def applies(self, group: ScriptedGroup) -> bool:
        """Whether this can happen now; steps before it may have been left out."""
        name = self.arguments[0] if self.arguments else ""
        match self.name:
            case "join":
                return name not in group.members
            case "leave" | "die" | "stall" | "stop_polling" | "subscribe":
                return name in group.running
            case "resume":
                return name in group.members and name not in group.running
            case "restart":
                return name in group.joined
            case "add_partitions":
                return group.partitions.get(str(name), 0) < int(self.arguments[1])
            case "restart_coordinator":
                return not group.unregistered  # they would be fenced, and their applications would end
            case "create_topic":
                return name not in group.partitions
        return True

    def run(self, group: ScriptedGroup) -> None:
        getattr(group, self.name)(*self.arguments, **self.options)


def play(group: ScriptedGroup, script: Iterable[Step]) -> None:
    """Run the steps that apply."""
    for step in script:
        if step.applies(group):
            step.run(group)


def random_script(
    seed: int, steps: int = 40, *, partitions: Mapping[str, int] | None = None, names: Sequence[str] = _NAMES
) -> list[Step]:
    """A script that makes sense: members join before they leave. It ends with a group at rest.

    `partitions` are the topics that may get more partitions. Some of the names are static members.
    """
    random = Random(seed)
    sizes = dict(partitions or {})
    is_static = {name: random.random() < 0.3 for name in names}
    running: set[str] = set()
    paused: set[str] = set()
    script: list[Step] = []

    def of_member(kind: str) -> Step | None:
        candidates = {
            "join": [each for each in names if each not in running | paused],
            "restart": sorted(running | paused),
            "resume": sorted(paused),
        }.get(kind, sorted(running))
        if not candidates:
            return None
        name = random.choice(candidates)
        running.discard(name)
        paused.discard(name)
        if kind in ("join", "restart", "resume"):
            running.add(name)
        elif kind in ("stall", "stop_polling"):
            paused.add(name)
        return Step(kind, (name,), {"static": True} if kind == "join" and is_static[name] else {})

    def other(kind: str) -> Step | None:
        if kind == "advance":
            return Step(kind, (random.choice(_PAUSES),))
        if kind == "add_partitions":
            if not sizes:
                return None
            topic = random.choice(sorted(sizes))
            sizes[topic] += random.randint(1, 3)
            return Step(kind, (topic, sizes[topic]))
        return Step(kind)

    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    while len(script) < steps:
        (kind,) = random.choices(kinds, weights)
        step = of_member(kind) if kind in ("join", "restart", "resume", *_OF_RUNNING) else other(kind)
        if step is not None:
            script.append(step)
    return [*script, *(Step("resume", (name,)) for name in sorted(paused)), Step("settle")]


def check_rebalances(
    make_group: Callable[[int], ScriptedGroup],
    *,
    seeds: Iterable[int] = range(100),
    steps: int = 40,
    check: Callable[[ScriptedGroup], object] | None = None,
) -> None:
    """Run a random script for each seed, with your check at the end of each.

    `make_group` makes a group for a seed. AssertionError with the seed, the shortest script that fails in the
    same way, and its story. `KLAMM_SEED=7` in the environment runs seed 7 alone.
    """
    __tracebackhide__ = True
    chosen = [int(os.environ[SEED])] if SEED in os.environ else seeds
    for seed in chosen:
        script = random_script(seed, steps, partitions=make_group(seed).partitions)
        failure = _failure(make_group, seed, script, check)
        if failure is not None:
            shortest, failure = _shortened(make_group, seed, script, check, failure)
            raise AssertionError(_report(seed, script, shortest, failure)) from failure.error


@dataclass(frozen=True, slots=True)
class _Failure:
    group: ScriptedGroup
    error: Exception

    def is_like(self, other: _Failure) -> bool:
        return type(self.error) is type(other.error)


Check = Callable[[ScriptedGroup], object] | None


def _failure(
    make_group: Callable[[int], ScriptedGroup], seed: int, script: Sequence[Step], check: Check
) -> _Failure | None:
    group = make_group(seed)
    try:
        play(group, script)
        if check is not None:
            check(group)
    except Exception as error:  # of the code under test: reported with its script
        return _Failure(group, error)
    return None


def _shortened(
    make_group: Callable[[int], ScriptedGroup],
    seed: int,
    script: Sequence[Step],
    check: Check,
    failure: _Failure,
) -> tuple[Sequence[Step], _Failure]:
    """Leave out steps, large parts first, as long as it fails in the same way."""
    attempts = 0
    size = max(1, len(script) // 2)
    while True:
        start, is_shorter = 0, False
        while start < len(script) and attempts < _MOST_ATTEMPTS:
            shorter = [*script[:start], *script[start + size :]]
            attempts += 1
            found = _failure(make_group, seed, shorter, check)
            if found is not None and found.is_like(failure):
                script, failure, is_shorter = shorter, found, True
            else:
                start += size
        if attempts >= _MOST_ATTEMPTS or (size == 1 and not is_shorter):
            return script, failure
        size = max(1, size // 2)


def _report(seed: int, script: Sequence[Step], shortest: Sequence[Step], failure: _Failure) -> str:
    first_line = str(failure.error).partition("\n")[0]
    steps = "\n".join(f"    {step}" for step in shortest)
    return (
        f"seed {seed}: {type(failure.error).__name__}: {first_line}\n\n"
        f"{len(shortest)} of {len(script)} steps are enough:\n\n    group = make_group({seed})\n{steps}\n\n"
        f"{failure.group.story()}"
    )
