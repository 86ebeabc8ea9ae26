"""`klamm pipe` and `klamm audit` on a secured cluster, with a profile: no secret is in what they write."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import klamm
from klamm.testing import SecureBroker

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
AT_ONCE_S = 20.0  # with Python and Spark that start; every time-out of a client is longer
ROWS = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[SecureBroker]:
    with SecureBroker(clock="system") as broker:
        for name in ("p-in", "p-out"):
            broker.create_topic(name, 2)
        broker.allow("writer", "all", topic="p-in")
        broker.allow("writer", "all", group="audited-group")
        broker.allow("alice", "read", "write", topic="p-", prefixed=True)
        broker.allow("alice", "read", group="job", prefixed=True)
        broker.allow("alice", "write", "describe", transactional_id="job", prefixed=True)
        broker.allow("auditor", "read", topic="__consumer_offsets")
        broker.allow("auditor", "read", topic="__transaction_state")
        broker.allow("auditor", "read", topic="__klamm_events")
        broker.allow("auditor", "describe_configs", cluster="kafka-cluster")
        yield broker


def send(broker: SecureBroker, *values: bytes) -> None:
    with klamm.Producer(broker.client("writer")) as producer:
        for value in values:
            producer.send("p-in", value)


class Desk:
    """A user's folder: profiles, jobs, and what the commands leave there."""

    def __init__(self, folder: Path, broker: SecureBroker) -> None:
        self.folder = folder
        self.broker = broker
        self.events = folder / "events"
        self.events.mkdir()
        self.seen: list[str] = []

    def profile(self, user: str, secret: str | None = None) -> str:
        """A profile for a user; the login as Java has it, the password in a file of its own."""
        given = self.broker.client(user)
        ca = self.folder.parent / "ca.pem"
        ca.write_text(given["ssl.ca.pem"])
        jaas = f'{MODULE} required username=\\"{user}\\" password=\\"${{env:ITS_PASSWORD}}\\";'
        rows = {
            "bootstrap": given["bootstrap.servers"],
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": str(ca),
            "sasl.mechanism": given["sasl.mechanism"],
        }
        lines = "\n".join(f'"{name}" = "{value}"' for name, value in rows.items())
        password = secret or given["sasl.password"]
        (self.folder.parent / "profiles.toml").write_text(
            f'[inline]\n{lines}\n"sasl.jaas.config" = "{jaas.replace("${env:ITS_PASSWORD}", password)}"\n'
            f'[referring]\n{lines}\n"sasl.jaas.config" = "{jaas}"\n'
        )
        return password

    def job(self, **more: str) -> Path:
        file = self.folder / "job.toml"
        lines = [f'{name} = "{value}"' for name, value in more.items()]
        file.write_text(
            "\n".join(
                [
                    'trigger = "once"',
                    *lines,
                    "[source]",
                    'topics = ["p-in"]',
                    "[sink]",
                    'topic = "p-out"',
                    "[spark]",
                    '"spark.eventLog.enabled" = "true"',
                    f'"spark.eventLog.dir" = "file://{self.events}"',
                    '"spark.eventLog.compress" = "false"',
                ]
            )
        )
        return file

    def klamm(self, *arguments: str, password: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        conf = f"spark.eventLog.enabled=true --conf spark.eventLog.dir=file://{self.events}"
        done = subprocess.run(
            [sys.executable, "-m", "klamm.cli", "--log-level", "debug", *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "KLAMM_PROFILES": str(self.folder.parent / "profiles.toml"),
                "ITS_PASSWORD": password,
                "PYSPARK_SUBMIT_ARGS": f"--conf {conf} --conf spark.eventLog.compress=false pyspark-shell",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
        self.seen += [done.stdout, done.stderr]
        assert done.returncode == code, (done.stdout[-3000:], done.stderr[-3000:])
        return done

    def finds(self, secret: str) -> list[str]:
        """Where the secret is: in what was printed, or in files; as it is, or in base64."""
        raw = secret.encode()
        forms = [raw, *(base64.b64encode(b"\0" * shift + raw)[shift + 2 : -4] for shift in range(3))]
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        contents = [(str(file), file.read_bytes()) for file in files]
        contents += [("printed", text.encode()) for text in self.seen]
        return [place for place, content in contents if any(form in content for form in forms)]


@pytest.fixture
def desk(broker: SecureBroker, tmp_path: Path) -> Desk:
    folder = tmp_path / "desk"
    folder.mkdir()
    return Desk(folder, broker)


def test_a_job_runs_with_a_profile_and_leaves_no_secret(desk: Desk, broker: SecureBroker) -> None:
    password = desk.profile("alice")
    job, written = str(desk.job()), [b"row %d" % number for number in range(ROWS)]
    send(broker, *written)
    desk.klamm("--profile", "inline", "pipe", "check", job)
    done = desk.klamm("--profile", "inline", "pipe", "run", "--json", job)
    assert json.loads(done.stdout.splitlines()[0])["rows"] == ROWS
    assert {record.value for record in broker.records("p-out")} >= set(written)
    send(broker, b"more")
    desk.klamm("--profile", "referring", "pipe", "run", job, password=password)
    assert b"more" in {record.value for record in broker.records("p-out")}
    for command in ("check", "status"):
        desk.klamm("--profile", "inline", "pipe", command, job)
    desk.klamm("--profile", "inline", "pipe", "migrate", job)
    assert len(list(desk.events.iterdir())) == 2
    assert desk.finds(password) == []


def test_secrets_in_the_options_of_a_job_stay_in_its_file(desk: Desk, broker: SecureBroker) -> None:
    password = desk.profile("alice")
    job = desk.job(bootstrap=broker.bootstrap, checkpoint=str(desk.folder / "checkpoint"))
    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": str(desk.folder.parent / "ca.pem"),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": password,
    }
    lines = "\n".join(f'"{name}" = "{value}"' for name, value in login.items())
    text = job.read_text()
    job = desk.folder.parent / "job.toml"
    job.write_text(f"{text}\n[source.options]\n{lines}\n[sink.options]\n{lines}\n")
    send(broker, b"one")
    desk.klamm("pipe", "run", str(job))
    desk.klamm("pipe", "migrate", str(job))
    assert (desk.folder / "checkpoint.1" / "klamm-job.json").is_file()
    assert desk.finds(password) == []


@pytest.mark.parametrize(
    "command", [("pipe", "run", "job.toml"), ("pipe", "check", "job.toml"), ("audit",)], ids="-".join
)
def test_a_wrong_password_ends_a_command_at_once(desk: Desk, command: tuple[str, ...]) -> None:
    wrong = "wrong-but-secret"
    desk.profile("alice", wrong)
    desk.job()
    began = time.monotonic()
    done = desk.klamm("--profile", "inline", *command, code=1)
    assert time.monotonic() - began < AT_ONCE_S
    assert "SCRAM-SHA-512: user alice" in done.stderr
    assert "Traceback" not in done.stderr
    assert desk.finds(wrong) == []


def test_a_user_without_rights_is_told_which_are_missing(desk: Desk) -> None:
    desk.profile("mallory")
    done = desk.klamm("--profile", "inline", "pipe", "run", str(desk.job()), code=1)
    assert "p-in" in done.stderr
    assert "TOPIC_AUTHORIZATION_FAILED" in done.stderr
    done = desk.klamm("--profile", "inline", "audit", code=1)
    assert "__consumer_offsets" in done.stderr
    assert "TOPIC_AUTHORIZATION_FAILED" in done.stderr


def test_an_audit_of_a_secured_cluster_leaves_no_secret(desk: Desk, broker: SecureBroker) -> None:
    with klamm.Admin(broker.client("writer")) as admin:
        admin.alter_group_offsets("audited-group", {("p-in", 0): 0})
    password = desk.profile("auditor")
    desk.klamm("--profile", "inline", "audit", "-o", "audit")
    assert "audited-group" in (desk.folder / "audit" / "report.html").read_text()
    desk.klamm("--profile", "inline", "audit", "-o", "report", "--report-only")
    assert len(list(desk.events.iterdir())) == 2
    assert desk.finds(password) == []
