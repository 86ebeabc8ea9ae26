"""How much of what PostgreSQL commits does a broker on it pass on?

PostgreSQL, pgbench and one broker on this machine, in the same run, case by case in turn: pgbench's simple
update (-N) is the anchor, because its transactions per second depend on the machine as the broker's do.

    PYTHONPATH=src:tests python -m bench.postgresql [--repeats 3] [--seconds 2]

Offset commits: 64 members that have joined their groups. Each commits one partition, a batch of about 150
bytes, and the next when that is answered. 6 groups are in 6 logs, with 10 or 11 commits in flight each: over
a connection per member, as consumers have it, and over 8 connections with 8 members each, which costs fewer
system calls. 64 groups of one member are in 45 logs. The load is one Python process on the same processors.

And how soon after kill -9 of a coordinator is a commit answered? Three brokers with the default leases:

    PYTHONPATH=src:tests python -m bench.postgresql --kills 5
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from bench.brokers import cpu_s
from bench.folder_cluster import DEFAULTS, commit, committed_at, found_coordinator, prepare
from bench.group_load import Crowd, ask, connect, frame
from bench.group_rates import COMMIT, Rate, a_commit, pipelined
from bench.raw_load import (
    Latencies,
    fetched_after,
    paced,
    paced_produce,
    pipelined_produce,
    wait_until_writable,
)
from faults.postgresql_cluster import PostgresBrokers
from interop.processes import KlammProcess
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.record import Record, encode_batch
from klamm.storage.cluster import PartitionRegistration, TopicState
from klamm.storage.engines.postgresql.appending import append_chunks, prepare_append
from klamm.storage.engines.postgresql.chunks import ChunkRow
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.connection import Address
from klamm.testing.wire import WireClient
from postgresql import PostgresServer

TOPIC, PARTITIONS = "bench", 50
BATCH_BYTES = 16 * 1024
HEADER = bytes(61)
MEMBERS = 64
CASES = ((6, 64), (6, 8), (64, 8))  # groups, connections
WARM_UP_S = 0.5


def pgbench(server: PostgresServer, clients: int, seconds: float) -> float:
    """Transactions per second."""
    done = subprocess.run(
        [
            "pgbench",
            "-N",
            "-M",
            "prepared",
            "-n",
            "-T",
            str(max(1, round(seconds))),
            "-c",
            str(clients),
            "-j",
            str(min(clients, 2)),
            *_database(server),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("tps")]
    return float(line.split()[2])


def _database(server: PostgresServer) -> list[str]:
    return ["-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", "bench"]


class Statements:
    """The statement of a round, without a broker."""

    def __init__(self, url: str) -> None:
        cluster = PostgresCluster(url, random=Random(1))
        states = tuple(PartitionRegistration(each, (1,), 1, 0) for each in range(6))
        cluster.create_topic(TopicState("raw", bytes(15) + b"r", states), {})
        cluster.close()
        self._connection = Address(url).connect("bench")
        prepare_append(self._connection)
        self._ids = [row[0] for row in self._connection.execute("SELECT partition_id FROM log ORDER BY 1")]
        self._next = 0
        self._records = Random(1).randbytes(BATCH_BYTES)

    def close(self) -> None:
        self._connection.close()

    def rate(self, size_bytes: int, logs: int, seconds: float) -> float:
        """Rounds per second, one after the other."""
        self._align()
        count = 0
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            self._append(size_bytes, logs)
            count += 1
        return count / (time.perf_counter() - began)

    def lone(self, size_bytes: int, *, per_second: int, count: int) -> Latencies:
        self._align()
        return paced(lambda: self._append(size_bytes, 1), per_second=per_second, count=count)

    def _align(self) -> None:
        self._connection.execute("UPDATE log SET end_offset = %s", [self._next])

    def _append(self, size_bytes: int, logs: int) -> None:
        records = self._records[:size_bytes]
        chunks = [
            ChunkRow(partition_id, 0, self._next, self._next, 0, HEADER, records)
            for partition_id in self._ids[:logs]
        ]
        assert len(append_chunks(self._connection, chunks)) == logs
        self._next += 1


def broker_rounds(address: tuple[str, int], seconds: float) -> float:
    """Produce requests of 2 KiB for each of six partitions, acks=-1, one after the other: per second."""
    batch = encode_batch([Record(0, int(time.time() * 1000), None, bytes(2048), ())])
    parts = [PartitionProduceData(index, batch) for index in range(6)]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=parts)]
    )
    count = 0
    with connect(address) as connection:
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            (answer,) = ask(connection, ApiKey.PRODUCE, 9, request).responses
            assert all(part.error_code == 0 for part in answer.partition_responses)
            count += 1
    return count / (time.perf_counter() - began)


def server_cpu_s(server: PostgresServer) -> float:
    """Processor time of all its processes that run now."""
    used_s = 0.0
    for pid in server.pids():
        with suppress(FileNotFoundError):  # a session that has just ended
            used_s += cpu_s(pid)
    return used_s


def offset_commits(
    address: tuple[str, int], pid: int, *, groups: int, connections: int, seconds: float
) -> Rate:
    """64 members of so many groups, each with one commit in flight."""
    crowd = Crowd(address, MEMBERS)
    sizes = [len(range(number, MEMBERS, groups)) for number in range(groups)]
    settled = [crowd.settle(f"group-{number}", size) for number, size in enumerate(sizes)]
    crowd.close()
    frames = [
        frame(
            ApiKey.OFFSET_COMMIT,
            COMMIT,
            a_commit(group.group_id, range(1), member_id=member_id, generation=group.generation),
        )
        for group in settled
        for member_id in group.member_ids
    ]
    lanes = [frames[lane::connections] for lane in range(connections)]
    rate = pipelined(address, pid, lanes, warm_up_s=WARM_UP_S, measure_s=seconds)
    for group in settled:
        group.leave(address)
    return rate


def create_topic(bootstrap: str) -> None:
    with WireClient(bootstrap) as client:
        client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)]))


def address_of(broker: KlammProcess) -> tuple[str, int]:
    host, _, port = broker.bootstrap.rpartition(":")
    return host, int(port)


def failover(kills: int) -> list[float]:
    """Seconds from kill -9 of a coordinator to the first commit that is answered without error."""
    took_s: list[float] = []
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        cluster = PostgresBrokers(server, Path(folder), 3, DEFAULTS)
        try:
            prepare(address_of(cluster.running[1]))
            for number in range(kills):
                group_id = f"group-{number}"
                any_broker = next(iter(cluster.running.values()))
                broker_id, address = found_coordinator(address_of(any_broker), group_id)
                with connect(address) as connection:
                    while not commit(connection, group_id):
                        time.sleep(0.02)
                survivors = [
                    address_of(each) for other, each in cluster.running.items() if other != broker_id
                ]
                # Two renewals in time: the others may judge.
                time.sleep(3)
                killed_at = time.perf_counter()
                cluster.kill(broker_id)
                took_s.append(committed_at(survivors, group_id) - killed_at)
                print(f"  kill -9 to the first answered commit: {took_s[-1]:.2f} s", flush=True)
                cluster.start(broker_id)
        finally:
            cluster.close()
    return took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--kills", type=int, default=0, help="measure failovers only")
    given = parser.parse_args()
    if given.kills:
        took_s = failover(given.kills)
        print(f"median {statistics.median(took_s):.2f} s ({min(took_s):.2f} to {max(took_s):.2f})")
        return
    samples: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        samples.setdefault(name, []).append(value)

    with (
        PostgresServer(["shared_buffers=512MB", "max_wal_size=4GB"]) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        server.execute("CREATE DATABASE bench")
        server.execute("CREATE DATABASE raw")
        subprocess.run(
            ["pgbench", "-i", "-q", "-s", "10", *_database(server)],
            check=True,
            capture_output=True,
        )
        raw = Statements(server.url_of("raw"))
        with KlammProcess(
            None,
            store=server.url_of("postgres"),
            settings={"group.initial.rebalance.delay.ms": "0"},
            stderr_path=Path(folder, "log"),
        ) as broker:
            create_topic(broker.bootstrap)
            address = address_of(broker)
            wait_until_writable(address, TOPIC, PARTITIONS)
            prepare(address)
            for _ in range(given.repeats):
                one, many = pgbench(server, 1, given.seconds), pgbench(server, 16, given.seconds)
                rounds = raw.rate(2048, 6, given.seconds)
                add("durable rounds/s, 6 logs x 2 KiB, by the broker / tps of 1 client",
                    broker_rounds(address, given.seconds) / one)  # fmt: skip
                count = round(50 * given.seconds)
                statement = raw.lone(256, per_second=50, count=count)
                lone = paced_produce(address, TOPIC, per_second=50, count=count)
                add("p50 of a lone statement, ms", statement.median_ms)
                add("p50 of a lone acks=-1 produce, ms", lone.median_ms)
                add("p50 of a lone acks=-1 produce / of the lone statement",
                    lone.median_ms / statement.median_ms)  # fmt: skip
                add("a fetch at the tail, ms after produce's response",
                    fetched_after(address, TOPIC, count=count).median_ms)  # fmt: skip
                add("pgbench -N, 1 client, tps", one)
                add("pgbench -N, 16 clients, tps", many)
                add("statement, 6 logs x 2 KiB, rounds/s / tps of 1 client", rounds / one)
                batches = pipelined_produce(
                    address,
                    TOPIC,
                    connections=PARTITIONS,
                    in_flight=2,
                    warm_up_s=0.5,
                    measure_s=given.seconds,
                    value_bytes=BATCH_BYTES,
                )
                add("16 KiB batches/s, 50 partitions, acks=-1 / tps of 16 clients", batches / many)
                add("produce, MB/s", batches * BATCH_BYTES / 1e6)
                for groups, connections in CASES:
                    server_before_s = server_cpu_s(server)
                    rate = offset_commits(
                        address, broker.pid, groups=groups, connections=connections, seconds=given.seconds
                    )
                    # The warm-up has its share of the server's time.
                    server_us = (server_cpu_s(server) - server_before_s) * 1e6
                    commits = rate.per_second * (given.seconds + WARM_UP_S)
                    who = f"64 members, {groups} groups, {connections} connections"
                    add(f"offset commits/s, {who}", rate.per_second)
                    add(f"offset commits/s, {who} / tps of 16 clients", rate.per_second / many)
                    add(f"a commit, {who}: processor time of the broker, us", rate.cpu_us)
                    add(f"a commit, {who}: processor time of PostgreSQL, us", server_us / commits)
        raw.close()
    for name, values in samples.items():
        print(f"{name:84} {statistics.median(values):9.2f}   ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
