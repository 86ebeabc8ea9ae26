"""Growth of groups: members that heartbeat and rebalance, groups that commit and are loaded at a restart."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from statistics import median

from bench.brokers import Klamm, cpu_s, resident_mb
from bench.group_load import Crowd, frame, wait_for_coordinator
from bench.group_rates import COMMIT, a_commit, fill, served
from bench.growth_load import cpu_per_request, create_topic, used_by
from bench.growth_report import Cost, Growth
from klamm.protocol.api import ApiKey

MEMBERS, GROUPS = "members", "groups"
LANES = 8
IN_FLIGHT = 12  # on each
GROUP_SIZE = 100
COMMITTED = 10  # partitions in a commit
ASKED = 100  # groups that are asked for after a restart: about all shards have one of them

HEARTBEAT = Cost(MEMBERS, "CPU per heartbeat", "µs")
MEMBER_MEMORY = Cost(MEMBERS, "memory per member", "kB")
FRESH = Cost(MEMBERS, "CPU per member when a whole group joins", "µs")
ONE_MORE = Cost(MEMBERS, "CPU per member when one more joins", "µs")
FRESH_WALL = Cost(MEMBERS, "wall time per member when a whole group joins", "µs")

COMMIT_CPU = Cost(GROUPS, f"CPU per commit of {COMMITTED} partitions", "µs")
GROUP_MEMORY = Cost(GROUPS, f"memory per group with {COMMITTED} offsets", "kB")
LOADING = Cost(GROUPS, "CPU from start to served, above one without groups", "s", "linear")


def grown_members(growth: Growth, broker: Klamm, sizes: Sequence[int], requests: int, repeats: int) -> None:
    """More and more members in groups of up to 100; heartbeats of all in turn."""
    address = ("127.0.0.1", broker.port)
    wait_for_coordinator(address, ["any"])
    create_topic(address, "orders", COMMITTED)
    crowd = Crowd(address, GROUP_SIZE)
    crowd.settle("warming", GROUP_SIZE).leave(address)
    empty_mb = resident_mb(broker.pid)
    beats: list[bytes] = []
    said_at = time.monotonic()
    for size in sizes:
        while len(beats) < size:
            joining = min(GROUP_SIZE, size - len(beats))
            group = crowd.settle(f"spread-{len(beats)}", joining)
            beats += group.heartbeats()
            if time.monotonic() - said_at > 10:
                said_at = time.monotonic()
                growth.say(f"{len(beats):,} of {size:,} members have joined")
        if size >= 1000:
            growth.add(MEMBER_MEMORY, size, (resident_mb(broker.pid) - empty_mb) * 1000 / size)
        shuffled = Random(1).sample(beats, len(beats))  # neighbours in memory do not beat one after the other
        lanes = [shuffled[lane::LANES] for lane in range(LANES)]
        for cpu_us in cpu_per_request(
            address, broker.pid, lanes, in_flight=IN_FLIGHT, requests=requests, repeats=repeats
        ):
            growth.add(HEARTBEAT, size, cpu_us)
    crowd.close()


def rebalanced(growth: Growth, broker: Klamm, sizes: Sequence[int], joins: int, repeats: int) -> None:
    """One group of each size, with a connection per member: all join at once, then one more."""
    address = ("127.0.0.1", broker.port)
    wait_for_coordinator(address, ["any"])
    crowd = Crowd(address, max(sizes) + 1)
    for turn, size in enumerate((min(1000, max(sizes)), 10)):  # to warm up
        crowd.settle(f"warming-{turn}", size).leave(address)
    for size in sizes:
        for repeat in range(repeats):
            rounds = max(1, joins // size)
            fresh = again = fresh_wall = 0.0
            for turn in range(rounds):
                with used_by(broker.pid) as joining:
                    group = crowd.settle(f"fresh-{size}-{repeat}-{turn}", size)
                fresh_wall += group.took_s
                with used_by(broker.pid) as joining_again:
                    crowd.one_more(group)
                fresh, again = fresh + joining.cpu_s, again + joining_again.cpu_s
                group.leave(address)
            growth.add(FRESH, size, fresh / rounds / size * 1e6)
            growth.add(ONE_MORE, size, again / rounds / (size + 1) * 1e6)
            growth.add(FRESH_WALL, size, fresh_wall / rounds / size * 1e6)
    crowd.close()


def grown_groups(growth: Growth, broker: Klamm, sizes: Sequence[int], requests: int, repeats: int) -> None:
    """More and more groups that commit, and a restart with each number of them."""
    address = ("127.0.0.1", broker.port)
    wait_for_coordinator(address, ["any"])
    create_topic(address, "orders", COMMITTED)
    one = fill(address, records=COMMITTED, groups=1, partitions=COMMITTED)
    without_s = median(_restarted(broker, one) for _ in range(repeats))
    empty_mb = resident_mb(broker.pid)
    for size in sizes:
        group_ids = fill(address, records=size * COMMITTED, groups=size, partitions=COMMITTED)
        asked = Random(1).sample(group_ids, min(ASKED, size))
        for _ in range(repeats if size < 10_000 else 1):
            growth.add(LOADING, size, max(0.0, _restarted(broker, asked) - without_s))
        if size >= 1000:
            growth.add(GROUP_MEMORY, size, (resident_mb(broker.pid) - empty_mb) * 1000 / size)
        commits = [
            frame(ApiKey.OFFSET_COMMIT, COMMIT, a_commit(group_id, range(COMMITTED)))
            for group_id in Random(2).sample(group_ids, size)
        ]
        lanes = [commits[lane::LANES] or commits for lane in range(LANES)]
        for cpu_us in cpu_per_request(
            address, broker.pid, lanes, in_flight=IN_FLIGHT, requests=requests, repeats=repeats
        ):
            growth.add(COMMIT_CPU, size, cpu_us)


def _restarted(broker: Klamm, group_ids: Sequence[str]) -> float:
    """Stop, start, wait until the offsets of some groups are served; the CPU of the new process."""
    broker.stop()
    broker.start()
    deadline = time.monotonic() + 300
    while served(("127.0.0.1", broker.port), group_ids, COMMITTED):
        time.sleep(0.05)
        if time.monotonic() > deadline:
            raise TimeoutError("the offsets are not served after five minutes")
    return cpu_s(broker.pid)
