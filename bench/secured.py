"""What do TLS and ACLs cost, beside Apache Kafka with the same listener?

    PYTHONPATH=src:tests python -m bench.secured [--seconds 5] [--parts tls,acls,connections]
        [--subjects klamm,kafka]

`tls`: produce and fetch over one connection, in plain text and over TLS 1.3. `acls`: heartbeats of one
member, without an authorizer, with one ACL, and with 100,000. `connections`: TLS connections per second that
get an answer to ApiVersions, one after the other. Each broker has a certificate of the same kind (ECDSA
P-256). The load comes from plain sockets and Python's `ssl`, the same for both; it shares the machine with
the broker.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import klamm
from bench.brokers import Klamm, Running
from bench.raw_load import CLIENT_ID, fetch_request, produce_batch_request
from certificates import Authority
from interop.kafka_tools import ApacheKafka, free_port
from klamm.access.acls import Acl
from klamm.records.record import Record, encode_batch

TOPIC: Final = "secured"
BATCH_RECORDS: Final = 100
RECORD_BYTES: Final = 1000
FETCH_BYTES: Final = 1024 * 1024
MANY_ACLS: Final = 100_000
ACLS_PER_REQUEST: Final = 5_000
HEARTBEATS_AT_ONCE: Final = 16
ALLOW_ALL: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Secured:
    """One broker with a plain listener and one with TLS."""

    def __init__(self, name: str, folder: Path, authority: Authority, settings: dict[str, str]) -> None:
        keystore = authority.issue("broker").together()
        tls = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore), **settings}
        quick = {"group.initial.rebalance.delay.ms": "0"}
        self.tls_port = free_port()
        self.broker: Running
        if name == "kafka":
            kafka = ApacheKafka(folder, settings={**quick, **tls})
            kafka.listen_too({"SSL": ("SSL", self.tls_port)})
            self.broker = kafka
        else:
            made = Klamm(folder, {**quick, **tls, "klamm.flush": "os"}, wait_s=120)
            listeners = f"PLAINTEXT://127.0.0.1:{made.port},SSL://127.0.0.1:{self.tls_port}"
            made.settings = {**made.settings, "listeners": listeners}
            self.broker = made
        self.context = ssl.create_default_context(cafile=str(authority.certificate))

    def __enter__(self) -> Secured:
        self.broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    @contextmanager
    def connected(self, *, tls: bool) -> Iterator[socket.socket]:
        port = self.tls_port if tls else self.broker.port
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not tls:
                yield plain
                return
            with self.context.wrap_socket(plain, server_hostname="localhost") as secured:
                yield secured


def answer(wire: socket.socket) -> bytes:
    """One response, without its length."""
    size = struct.unpack(">i", exactly(wire, 4))[0]
    return exactly(wire, size)


def exactly(wire: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        more = wire.recv_into(view[got:])
        if not more:
            raise ConnectionError("the broker closed the connection")
        got += more
    return bytes(data)


def per_second(seconds: float, work: Callable[[], float]) -> float:
    """How much work is done in a second, after a tenth of the time to warm up."""
    warm_until = time.perf_counter() + seconds / 10
    while time.perf_counter() < warm_until:
        work()
    began, done = time.perf_counter(), 0.0
    while time.perf_counter() - began < seconds:
        done += work()
    return done / (time.perf_counter() - began)


def measure_tls(secured: Secured, seconds: float) -> Iterator[tuple[str, float, str]]:
    now_ms = int(time.time() * 1000)
    records = [Record(at, now_ms, None, os.urandom(RECORD_BYTES)) for at in range(BATCH_RECORDS)]
    batch = encode_batch(records)
    produce = produce_batch_request(TOPIC, 0, batch)
    fetch = fetch_request(TOPIC, 0, 0, max_bytes=FETCH_BYTES)
    for tls in (False, True):
        how = "TLS" if tls else "plain"
        with secured.connected(tls=tls) as wire:

            def write(wire: socket.socket = wire) -> float:
                wire.sendall(produce)
                answer(wire)
                return len(batch) / 1e6

            yield f"produce, {how}", per_second(seconds, write), "MB/s"

            def read(wire: socket.socket = wire) -> float:
                wire.sendall(fetch)
                return len(answer(wire)) / 1e6

            yield f"fetch, {how}", per_second(seconds, read), "MB/s"


def measure_connections(secured: Secured, seconds: float) -> Iterator[tuple[str, float, str]]:
    header = struct.pack(">hhi", 18, 0, 7) + struct.pack(">h", len(CLIENT_ID)) + CLIENT_ID
    versions = struct.pack(">i", len(header)) + header
    for tls in (False, True):

        def connect(tls: bool = tls) -> float:
            with secured.connected(tls=tls) as wire:
                wire.sendall(versions)
                answer(wire)
            return 1

        yield f"connections, {'TLS' if tls else 'plain'}", per_second(seconds, connect), "/s"


def heartbeats(secured: Secured, seconds: float) -> float:
    """Heartbeats of a member per second, sixteen in flight."""
    with klamm.Consumer(bootstrap_servers=secured.bootstrap, group_id="bench", client_id="bench") as consumer:
        consumer.subscribe([TOPIC])
        while consumer.group_metadata().generation < 0:
            consumer.poll(0.1)
        member = consumer.group_metadata()

        def text(value: str) -> bytes:
            return struct.pack(">h", len(value.encode())) + value.encode()

        body = text("bench") + struct.pack(">i", member.generation) + text(member.member_id)
        header = struct.pack(">hhi", 12, 1, 7) + struct.pack(">h", len(CLIENT_ID)) + CLIENT_ID
        frame = struct.pack(">i", len(header) + len(body)) + header + body
        with secured.connected(tls=False) as wire:

            def beat() -> float:
                wire.sendall(frame * HEARTBEATS_AT_ONCE)
                for _ in range(HEARTBEATS_AT_ONCE):
                    error = struct.unpack(">h", answer(wire)[-2:])[0]
                    if error:
                        raise ValueError(f"a heartbeat is answered with error {error}")
                return HEARTBEATS_AT_ONCE

            return per_second(seconds, beat)


def set_acls(secured: Secured, count: int) -> None:
    """So many ACLs: one that allows what is measured, the others of other users and topics."""
    with klamm.Admin(bootstrap_servers=secured.bootstrap, default_api_timeout_ms=300_000) as admin:
        acls = [Acl.of(f"User:u{at}", "read", "topic", f"topic-{at}") for at in range(count - 1)]
        acls.append(Acl.of("User:ANONYMOUS", "all", "group", "bench"))
        for at in range(0, len(acls), ACLS_PER_REQUEST):
            admin.create_acls(acls[at : at + ACLS_PER_REQUEST])


def prepared(secured: Secured) -> None:
    with klamm.Admin(bootstrap_servers=secured.bootstrap) as admin:
        admin.create_topics([klamm.NewTopic(TOPIC, 1)])
        admin.wait_for_topics([TOPIC])


def measure(name: str, folder: Path, parts: list[str], seconds: float) -> Iterator[tuple[str, float, str]]:
    authority = Authority(folder / "ca")
    if {"tls", "connections"} & set(parts):
        with Secured(name, folder / "open", authority, {}) as secured:
            prepared(secured)
            if "tls" in parts:
                yield from measure_tls(secured, seconds)
            if "connections" in parts:
                yield from measure_connections(secured, seconds)
            if "acls" in parts:
                yield "heartbeats, no authorizer", heartbeats(secured, seconds), "/s"
    if "acls" in parts:
        # Not a super user: what is measured is decided by ACLs. It may change ACLs, and see its topic.
        settings = {"authorizer.class.name": ALLOW_ALL, "super.users": "User:admin"}
        settings["allow.everyone.if.no.acl.found"] = "true"
        with Secured(name, folder / "acls", authority, settings) as secured:
            prepared(secured)
            for count in (1, MANY_ACLS):
                set_acls(secured, count)
                yield f"heartbeats, {count:,} ACLs", heartbeats(secured, seconds), "/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--parts", default="tls,acls,connections")
    parser.add_argument("--subjects", default="klamm,kafka")
    options = parser.parse_args()
    sys.stdout.write(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    for name in options.subjects.split(","):
        with tempfile.TemporaryDirectory(prefix="klamm-bench-") as folder:
            for what, figure, unit in measure(name, Path(folder), options.parts.split(","), options.seconds):
                sys.stdout.write(f"{name:<6} {what:<28} {figure:>12,.0f} {unit}\n")
                sys.stdout.flush()
    sys.stdout.write(f"load of the machine after: {os.getloadavg()[0]:.1f}\n")


if __name__ == "__main__":
    main()
