"""Apache Kafka itself: its jars, its command-line tools, and a real one-node broker to compare with."""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from interop.processes import ROOT

KAFKA_VERSION: Final = "4.3.1"
# Tools live for a second or two: a quick start matters more than code that is fast in the long run.
TOOL_FLAGS: Final = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
# What Kafka's own start script gives its broker.
BROKER_FLAGS: Final = ("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"


def cache_dir() -> Path:
    """Where fetched and built things live, outside the tree."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "klamm"
    return Path(os.environ.get("KLAMM_CACHE", default))


def kafka_libs() -> Path:
    """The folder with Kafka's jars, fetched once."""
    subprocess.run([ROOT / "tools" / "fetch_kafka.sh", str(cache_dir())], check=True)
    return cache_dir() / f"kafka-{KAFKA_VERSION}" / "libs"


def java_command(
    *arguments: str, flags: Sequence[str] = TOOL_FLAGS, classes: Path | None = None
) -> list[str]:
    """The command that runs a Java class with Kafka on its class path."""
    libs = kafka_libs()
    class_path = f"{libs}/*" if classes is None else f"{classes}:{libs}/*"
    logging = f"-Dlog4j2.configurationFile={libs.parent / 'log4j2.properties'}"
    return ["java", *flags, logging, "-cp", class_path, *arguments]


def run_kafka_tool(
    tool: str, *arguments: str, stdin: str | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's own tools, e.g. `TopicCommand`; a dotted name is taken as it is."""
    name = tool if tool.startswith(("kafka.", "org.")) else f"org.apache.kafka.tools.{tool}"
    return subprocess.run(
        java_command(name, *arguments),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def free_port() -> int:
    """A port that nobody listened on a moment ago, and that the system gives to nobody while it is unused.

    A broker that comes back must find its port free. Ports of the ephemeral range are given to any
    connection, even to that of a client that tries to reach the broker meanwhile.
    """
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first_ephemeral = int(limits.read_text().split()[0]) if limits.exists() else 32_768
    while True:
        port = random.SystemRandom().randrange(10_000, first_ephemeral)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def answers(address: tuple[str, int]) -> bool:
    """Whether a broker at this address answers an ApiVersions request."""
    request = struct.pack(">hhih", 18, 0, 1, 5) + b"probe"
    try:
        with socket.create_connection(address, timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(8)) > 0
    except OSError:
        return False


def wait_until_answering(
    address: tuple[str, int], process: subprocess.Popen[bytes], *, timeout_s: float
) -> None:
    """Poll until the broker answers its first request; an error if it ends or the time is up."""
    deadline = time.monotonic() + timeout_s
    while not answers(address):
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the broker at {address} did not answer within {timeout_s} s")
        time.sleep(0.005)


class ApacheKafka:
    """A real one-node Kafka (KRaft) on a free port, its data in the folder given.

    With `has_detour`, whoever connects to `detour_target` is told that the broker is at `detour_port`: put a
    proxy there, and all the client's connections run through it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        flags: Sequence[str] = BROKER_FLAGS,
        has_detour: bool = False,
    ) -> None:
        self.folder = folder
        self.logs_dir = folder / "logs"
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.flags = flags
        self.start_to_first_answer_s = 0.0
        self._launched_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self.controller_port = controller_port = free_port()
        self._settings: dict[str, str] = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.logs_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "100",
            **(settings or {}),
        }
        if has_detour:
            self.detour_port, self.detour_target = free_port(), free_port()
            self._settings["listeners"] += f",DETOUR://127.0.0.1:{self.detour_target}"
            self._settings["advertised.listeners"] += f",DETOUR://127.0.0.1:{self.detour_port}"
            self._settings["listener.security.protocol.map"] += ",DETOUR:PLAINTEXT"
            self._settings["inter.broker.listener.name"] = "PLAINTEXT"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def node_id(self) -> int:
        return int(self._settings["node.id"])

    def listen_too(self, listeners: Mapping[str, tuple[str, int]]) -> None:
        """Have further listeners: name, protocol and port; before it starts."""
        for name, (protocol, port) in listeners.items():
            self._settings["listeners"] += f",{name}://127.0.0.1:{port}"
            self._settings["advertised.listeners"] += f",{name}://127.0.0.1:{port}"
            self._settings["listener.security.protocol.map"] += f",{name}:{protocol}"

    def vote_with(self, nodes: Sequence[ApacheKafka]) -> None:
        """Be one of several; before any of them starts."""
        voters = [f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in nodes]
        self._settings["controller.quorum.voters"] = ",".join(voters)

    def start(self) -> None:
        """Format the data folder if it is new, then start and wait for the first answer."""
        self.launch()
        self.wait_until_answering()

    def launch(self) -> None:
        """As `start`, without waiting: one of several answers when most of them run."""
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        text = "".join(f"{name}={value}\n" for name, value in self._settings.items())
        properties.write_bytes(text.encode("ascii", "backslashreplace").replace(b"\\x", b"\\u00"))
        if not (self.logs_dir / "meta.properties").exists():
            subprocess.run(
                java_command("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)),
                check=True,
                capture_output=True,
            )
        command = java_command("kafka.Kafka", str(properties), flags=self.flags)
        self._launched_at = time.monotonic()
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def wait_until_answering(self, timeout_s: float = 60) -> None:
        assert self._process is not None
        wait_until_answering(("127.0.0.1", self.port), self._process, timeout_s=timeout_s)
        self.start_to_first_answer_s = time.monotonic() - self._launched_at

    def kill(self) -> None:
        """SIGKILL; `start` brings it back with the same data on the same port."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ApacheKafkaCluster:
    """Three Kafka nodes, each broker and controller."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str], flags: Sequence[str]) -> None:
        self.nodes = [
            ApacheKafka(folder / f"node-{number}", settings={**settings, "node.id": str(number)}, flags=flags)
            for number in (1, 2, 3)
        ]
        for node in self.nodes:
            node.vote_with(self.nodes)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    def __enter__(self) -> Self:
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(ApacheKafka.launch, self.nodes))
        try:
            for node in self.nodes:
                node.wait_until_answering(180)
        except BaseException:
            self._kill()
            raise
        return self

    def _kill(self) -> None:
        """Nobody needs the data; nodes that stop one after the other would wait for their quorum."""
        for node in self.nodes:
            node.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
