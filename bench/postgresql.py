"""How much of what PostgreSQL commits does a broker on it pass on?

PostgreSQL, pgbench and one broker on this machine, in the same run, case by case in turn: pgbench's simple
update (-N) is the anchor, because its transactions per second depend on the machine as the broker's do.

    PYTHONPATH=src:tests python -m bench.postgresql [--repeats 3] [--seconds 2]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from random import Random

from bench.raw_load import paced_produce, pipelined_produce, wait_until_writable
from interop.processes import KlammProcess
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from klamm.storage.cluster import PartitionRegistration, TopicState
from klamm.storage.engines.postgresql.chunks import Chunk
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.connection import Address
from klamm.storage.engines.postgresql.rounds import append_chunks
from postgresql import PostgresServer
from support.wire import WireClient

TOPIC, PARTITIONS = "bench", 50
BATCH_BYTES = 16 * 1024
HEADER = bytes(61)


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
        self._ids = [row[0] for row in self._connection.execute("SELECT partition_id FROM log ORDER BY 1")]
        self._next = 0

    def close(self) -> None:
        self._connection.close()

    def rate(self, size_bytes: int, logs: int, seconds: float) -> tuple[float, float]:
        """Rounds per second, and the median of one in milliseconds."""
        took_ms = []
        records = Random(1).randbytes(size_bytes)
        end = time.perf_counter() + seconds
        for partition_id in self._ids:
            self._connection.execute("UPDATE log SET end_offset = %s WHERE partition_id = %s",
                                     [self._next, partition_id])  # fmt: skip
        began = time.perf_counter()
        while time.perf_counter() < end:
            chunks = [
                Chunk(partition_id, 0, self._next, self._next, 0, HEADER, records)
                for partition_id in self._ids[:logs]
            ]
            start = time.perf_counter()
            assert len(append_chunks(self._connection, chunks)) == logs
            took_ms.append((time.perf_counter() - start) * 1000)
            self._next += 1
        return len(took_ms) / (time.perf_counter() - began), statistics.median(took_ms)


def create_topic(bootstrap: str) -> None:
    with WireClient(bootstrap) as client:
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([topic]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    given = parser.parse_args()
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
        with KlammProcess(None, store=server.url_of("postgres"), stderr_path=Path(folder, "log")) as broker:
            create_topic(broker.bootstrap)
            host, _, port = broker.bootstrap.rpartition(":")
            address = (host, int(port))
            wait_until_writable(address, TOPIC, PARTITIONS)
            for _ in range(given.repeats):
                one, many = pgbench(server, 1, given.seconds), pgbench(server, 16, given.seconds)
                rounds, _ = raw.rate(2048, 6, given.seconds)
                _, lone_ms = raw.rate(1024, 1, given.seconds)
                lone = paced_produce(address, TOPIC, per_second=50, count=round(50 * given.seconds))
                add("median of a lone acks=-1 produce / of the lone statement", lone.median_ms / lone_ms)
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
        raw.close()
    for name, values in samples.items():
        print(f"{name:66} {statistics.median(values):9.2f}   ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
