"""Brokers on one folder: how soon after kill -9 is a commit answered, and what do two brokers gain over one?

    python -m bench.folder_cluster [--kills 5] [--seconds 3] [--rounds 3]

Failover: three brokers; a client commits offsets of one group, one commit after the other. The coordinator of
the group is killed; the time until the first commit is answered without error, by the broker that took over.

Scale: 1 and 2 brokers, interleaved; commits and heartbeats of many groups, pipelined. On a machine that also
runs the load, the rate says little. The figure is what the brokers could do on cores of their own: requests
divided by the processor time of the busiest broker. It rises to twice that of one broker if the groups are
spread evenly and a request costs as much with two brokers as with one. That cost is a figure of its own, and
so is the cost of a broker that has nothing to do: its polls of the cluster store and of the others' locks.

Two brokers get twice the groups of one, and in another case as many: with half of that in flight at each,
fewer requests share a wake-up and a flush, so that each costs more.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from bench.brokers import cpu_s
from bench.group_load import Address, Crowd, ask, connect, frame
from bench.group_rates import COMMIT, Rate, a_commit, pipelined
from bench.report import Figure, Report
from faults.folder_cluster import FolderCluster
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest

FAILOVER = Figure("kill -9 to the first answered commit", "ms", more_is_better=False)
COMMITS = Figure("commits of one partition, per busiest broker's cpu second", "/s", more_is_better=True)
HEARTBEATS = Figure("heartbeats, per busiest broker's cpu second", "/s", more_is_better=True)
COMMIT_COST = Figure("processor time of a commit, all brokers", "us", more_is_better=False)
HEARTBEAT_COST = Figure("processor time of a heartbeat, all brokers", "us", more_is_better=False)
IDLE = Figure("processor time of an idle broker", "ms/s", more_is_better=False)
GROUPS = 48
IDLE_S = 3.0
CASES = {"1": (1, GROUPS), "2": (2, 2 * GROUPS), "2 (as many groups)": (2, GROUPS)}  # brokers, groups
DEFAULTS: Mapping[str, str] = {
    "broker.heartbeat.interval.ms": "1000",
    "klamm.broker.serve.window.ms": "3000",
    "broker.session.timeout.ms": "9000",
    "offsets.topic.num.partitions": "50",
}


def addresses(cluster: FolderCluster) -> dict[int, Address]:
    found: dict[int, Address] = {}
    for broker_id, process in cluster.running.items():
        host, _, port = process.bootstrap.rpartition(":")
        found[broker_id] = host, int(port)
    return found


def coordinator(address: Address, group_id: str) -> tuple[int, Address] | None:
    with connect(address) as connection:
        request = FindCoordinatorRequest(coordinator_keys=[group_id])
        (found,) = ask(connection, ApiKey.FIND_COORDINATOR, 4, request).coordinators
    return None if found.error_code else (found.node_id, (found.host, found.port))


def found_coordinator(address: Address, group_id: str) -> tuple[int, Address]:
    while (found := coordinator(address, group_id)) is None:
        time.sleep(0.02)
    return found


def commit(connection: socket.socket, group_id: str) -> bool:
    answer = ask(connection, ApiKey.OFFSET_COMMIT, COMMIT, a_commit(group_id, range(1)))
    return not answer.topics[0].partitions[0].error_code


def committed_at(survivors: Sequence[Address], group_id: str) -> float:
    """Ask the survivors until one of them has answered a commit without error."""
    while True:
        for address in survivors:
            try:
                found = coordinator(address, group_id)
                if found is None:
                    continue
                with connect(found[1]) as connection:
                    if commit(connection, group_id):
                        return time.perf_counter()
            except OSError:
                continue
        time.sleep(0.005)


def failover(report: Report, kills: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cluster = FolderCluster(Path(folder), settings=DEFAULTS)
        try:
            prepare(addresses(cluster)[1])
            for number in range(kills):
                group_id = f"group-{number}"
                at = addresses(cluster)
                broker_id, address = found_coordinator(at[1], group_id)
                with connect(address) as connection:
                    while not commit(connection, group_id):
                        time.sleep(0.02)
                    for _ in range(200):
                        assert commit(connection, group_id)
                    survivors = [each for other, each in at.items() if other != broker_id]
                    killed_at = time.perf_counter()
                    os.kill(cluster.running[broker_id].pid, signal.SIGKILL)
                    report.add(FAILOVER, "3", (committed_at(survivors, group_id) - killed_at) * 1000)
                cluster.kill(broker_id)
                cluster.start(broker_id)
                time.sleep(0.5)
        finally:
            cluster.close()


def prepare(address: Address) -> None:
    with connect(address) as connection:
        request = CreateTopicsRequest([CreatableTopic("orders", 1, 1)])
        ask(connection, ApiKey.CREATE_TOPICS, 7, request)
    found_coordinator(address, "any")
    time.sleep(1.5)  # every broker has seen the topics


def scale(report: Report, case: str, brokers: int, groups: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cluster = FolderCluster(Path(folder), count=brokers, settings=DEFAULTS)
        try:
            at = addresses(cluster)
            prepare(at[1])
            by_broker: dict[int, list[str]] = {broker_id: [] for broker_id in at}
            for number in range(groups):
                broker_id, _ = found_coordinator(at[1], f"group-{number}")
                by_broker[broker_id].append(f"group-{number}")
            commits: dict[int, list[bytes]] = {}
            beats: dict[int, list[bytes]] = {}
            for broker_id, group_ids in by_broker.items():
                crowd = Crowd(at[broker_id], 1)
                settled = [crowd.settle(group_id, 1) for group_id in group_ids]
                crowd.close()
                beats[broker_id] = [beat for group in settled for beat in group.heartbeats()]
                commits[broker_id] = [
                    frame(
                        ApiKey.OFFSET_COMMIT,
                        COMMIT,
                        a_commit(
                            group.group_id,
                            range(1),
                            member_id=group.member_ids[0],
                            generation=group.generation,
                        ),
                    )
                    for group in settled
                ]
            pids = {broker_id: process.pid for broker_id, process in cluster.running.items()}
            used_s = -sum(map(cpu_s, pids.values()))
            time.sleep(IDLE_S)
            used_s += sum(map(cpu_s, pids.values()))
            report.add(IDLE, case, used_s * 1000 / IDLE_S / brokers)
            for figure, cost, requests in (
                (COMMITS, COMMIT_COST, commits),
                (HEARTBEATS, HEARTBEAT_COST, beats),
            ):
                rates = loaded(at, pids, requests, seconds)
                per_second = sum(rate.per_second for rate in rates)
                used = [rate.per_second * rate.cpu_us / 1e6 for rate in rates]  # of a core, by each broker
                report.add(figure, case, per_second / max(used))
                report.add(cost, case, sum(used) / per_second * 1e6)
        finally:
            cluster.close()


def loaded(
    at: Mapping[int, Address],
    pids: Mapping[int, int],
    requests: Mapping[int, Sequence[bytes]],
    seconds: float,
) -> Sequence[Rate]:
    """Of each broker, all loaded at once."""

    def load(broker_id: int) -> Rate:
        own = requests[broker_id]
        lanes = [own[lane::4] for lane in range(4)]
        return pipelined(at[broker_id], pids[broker_id], lanes, warm_up_s=0.5, measure_s=seconds)

    with ThreadPoolExecutor(len(at)) as threads:
        return list(threads.map(load, at))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    report = Report(
        "How soon after kill -9 is a commit answered, and what do two brokers on one folder gain over one?",
        "1",
        {
            "1": "one broker",
            "2": "two brokers on one folder",
            "2 (as many groups)": "with the load of one",
            "3": "three brokers on one folder",
        },
    )
    failover(report, arguments.kills)
    for _ in range(arguments.rounds):
        for case, (brokers, groups) in CASES.items():
            print(f"{brokers} broker(s), {groups} groups")
            scale(report, case, brokers, groups, arguments.seconds)
    for figure in (COMMIT_COST, HEARTBEAT_COST, IDLE):
        medians = {case: round(median(report.samples[figure][case]), 1) for case in CASES}
        print(f"{figure.name}, {figure.unit}: {medians}")
    for figure in (COMMITS, HEARTBEATS):
        ratios = {case: round(report.ratio(figure, case) or 0, 2) for case in CASES}
        print(f"{figure.name}, in those of one broker: {ratios}")
    if arguments.kills:
        print(f"{FAILOVER.name}: median {median(report.samples[FAILOVER]['3']):.0f} ms")
    print(report.write("folder_cluster"))


if __name__ == "__main__":
    main()
