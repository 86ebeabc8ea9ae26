"""How many steps of a scripted group, and how many rebalances, does klamm.testing run in a second of CPU?

Run with: python bench/scripted_groups.py [members ...]

One member of the group leaves and another joins, again and again, with the group at rest in between: two
steps and two settles for two rebalances of all members with `range`, three with `cooperative-sticky`. A
rebalance is a new generation: JoinGroup and SyncGroup of each member, its callbacks, and an assignment by the
leader; one of the two or three has a consumer that is new. The time is CPU time of the process. A loop of
plain Python is measured beside it, to compare machines, and a machine that is busy with one that is not.
"""

from __future__ import annotations

import sys
import time

from klamm.testing import ScriptedGroup

_SECONDS = 2.0
_LOOP = 2_000_000


def plain_loop_s() -> float:
    """CPU time of a loop that does not change with klamm."""
    began = time.process_time()
    total = 0
    for number in range(_LOOP):
        total += number & 7
    return time.process_time() - began


def measure(assignor: str, members: int) -> str:
    names = [f"m{number}" for number in range(members)]
    group = ScriptedGroup({"orders": 2 * members}, assignor)
    group.join(*names)
    group.settle()
    steps, generation, at = group.step_count, group.generation, group.now
    began = time.process_time()
    while time.process_time() - began < _SECONDS:
        group.leave(names[-1])
        group.settle()
        group.join(names[-1])
        group.settle()
    spent_s = time.process_time() - began
    rebalances = group.generation - generation
    return (
        f"{assignor:20} {members:4} members  {(group.step_count - steps) / spent_s:8.0f} steps/s  "
        f"{rebalances / spent_s:7.0f} rebalances/s  {rebalances * members / spent_s:8.0f} members rejoin/s  "
        f"{(group.now - at).total_seconds() / spent_s:8.0f} s of the group in a second"
    )


def main() -> None:
    print(f"plain loop of {_LOOP:,} turns: {plain_loop_s() * 1000:.0f} ms")
    for members in map(int, sys.argv[1:] or ("2", "3", "10", "50")):
        for assignor in ("range", "cooperative-sticky"):
            print(measure(assignor, members))
    print(f"plain loop of {_LOOP:,} turns: {plain_loop_s() * 1000:.0f} ms")


if __name__ == "__main__":
    main()
