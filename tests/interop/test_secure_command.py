"""`klamm up --secure --brokers 2`: brokers that log in to each other, a client of Java's, and renewal."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import klamm
from interop.kafka_tools import free_port, run_kafka_tool
from interop.processes import ROOT, LineProcess
from klamm import NewTopic, TopicPartition
from klamm.cli.profiles import load_profile
from klamm.net.security.authority import CertificateAuthority

PARTITIONS = 4


class SecureCluster:
    """Two processes on one folder."""

    def __init__(self, folder: Path, brokers: int, *arguments: str) -> None:
        self.port = free_port()
        self.files = folder / "data" / "secure"
        self.log = folder / "log"
        command = [sys.executable, "-m", "klamm.cli", "up", "--secure", "--data", str(folder / "data")]
        command += ["--listen", f"127.0.0.1:{self.port}", *arguments]
        command += ["--brokers", str(brokers)] if brokers > 1 else []
        self.process = LineProcess(
            command, stderr_path=self.log, environment={"PYTHONPATH": str(ROOT / "src")}
        )
        self.lines = [self.process.read_line(60) for _ in range(brokers)]

    @property
    def settings(self) -> dict[str, str]:
        profile = load_profile("secure", self.files / "profiles.toml")
        return {"bootstrap.servers": f"127.0.0.1:{self.port}", **profile.settings}

    def waits_for(self, text: str) -> bool:
        due_at = time.monotonic() + 30
        while text not in self.log.read_text() and time.monotonic() < due_at:
            time.sleep(0.05)
        return text in self.log.read_text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    cluster = SecureCluster(tmp_path_factory.mktemp("secure"), 2)
    yield cluster
    cluster.process.terminate()


def test_a_transaction_over_the_partitions_of_both_brokers_commits(cluster: SecureCluster) -> None:
    """Its markers go from one broker to the other."""
    with klamm.Admin(cluster.settings) as admin:
        admin.create_topics(NewTopic("t", PARTITIONS))
    with klamm.Producer(cluster.settings, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send("t", b"%d" % partition, partition=partition)
        producer.commit_transaction()
    partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
    with klamm.Consumer(cluster.settings, isolation_level="read_committed") as consumer:
        consumer.assign(partitions)
        for each in partitions:
            consumer.seek(each, 0)
        found: set[bytes | None] = set()
        due_at = time.monotonic() + 30
        while len(found) < PARTITIONS and time.monotonic() < due_at:
            found |= {record.value for record in consumer.poll(1)}
    assert found == {b"%d" % number for number in range(PARTITIONS)}
    assert "login of User:broker from 127.0.0.1" in cluster.log.read_text()


def test_kafkas_own_tools_take_the_file_that_it_makes(cluster: SecureCluster) -> None:
    done = run_kafka_tool(
        "TopicCommand", "--bootstrap-server", f"127.0.0.1:{cluster.port}", "--command-config",
        str(cluster.files / "client.properties"), "--create", "--topic", "of-java",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broker_with_secrets_writes_no_core_dumps(cluster: SecureCluster) -> None:
    pid = cluster.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    limits = [Path(f"/proc/{child}/limits").read_text() for child in children]
    assert len(limits) == 2
    for each in limits:
        (line,) = (row for row in each.splitlines() if row.startswith("Max core file size"))
        assert line.split()[4] == "0"


def test_no_secret_is_in_an_argument_of_a_process_or_in_the_log(cluster: SecureCluster) -> None:
    secrets = [line.partition(":")[2] for line in (cluster.files / "passwords").read_text().splitlines()]
    arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _is_there(path)]
    for secret in secrets:
        assert not any(secret.encode() in each for each in arguments)
        assert secret not in cluster.log.read_text()


def _is_there(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False  # it has ended meanwhile


def test_sighup_renews_the_certificate_of_a_running_broker(tmp_path: Path) -> None:
    cluster = SecureCluster(tmp_path, 1)
    try:
        with klamm.Producer(cluster.settings) as producer:
            producer.send("t", b"before").result(30)
            CertificateAuthority(cluster.files).issue("broker", ["127.0.0.1"])
            cluster.process.process.send_signal(signal.SIGHUP)
            assert cluster.waits_for("certificates are read again")
            producer.send("t", b"after").result(30)  # on the connection that was open
        with klamm.Admin(cluster.settings) as admin:
            assert admin.list_topics() == ["t"]
        (cluster.files / "broker.pem").write_text("broken")
        cluster.process.process.send_signal(signal.SIGHUP)
        assert cluster.waits_for("keeps its former certificate")
        with klamm.Admin(cluster.settings) as admin:
            assert admin.list_topics() == ["t"]
    finally:
        cluster.process.terminate()


def served(port: int, authority: Path) -> str:
    """The certificate that a port shows, once it is trusted."""
    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        shown = secured.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


def test_sighup_renews_the_certificates_of_a_broker_and_of_its_control_port(tmp_path: Path) -> None:
    cluster = SecureCluster(tmp_path, 1, "--control", "https://127.0.0.1:0")
    try:
        control = re.search(r"control on 127\.0\.0\.1:(\d+)", cluster.lines[0])
        assert control is not None
        ports, ca = (cluster.port, int(control[1])), cluster.files / "ca.pem"
        (before,) = {served(port, ca) for port in ports}
        CertificateAuthority(cluster.files).issue("broker", ["127.0.0.1"])
        cluster.process.process.send_signal(signal.SIGHUP)
        assert cluster.waits_for("certificate of the control port is read again")
        assert cluster.waits_for("certificates are read again")
        (after,) = {served(port, ca) for port in ports}
        assert after != before
        (cluster.files / "broker.pem").write_text("broken")
        cluster.process.process.send_signal(signal.SIGHUP)
        assert cluster.waits_for("the control port keeps its former certificate")
        assert {served(port, ca) for port in ports} == {after}
    finally:
        cluster.process.terminate()
