"""Real clients log in to klamm over SASL_SSL with every mechanism: one record there and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from interop.kafka_tools import cache_dir, run_kafka_tool
from interop.processes import ROOT
from interop.secured_kafka import SECRET, USER, unsecured_token
from interop.secured_klamm import SecuredKlamm

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MODULES: Final = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def klamm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKlamm]:
    with SecuredKlamm(tmp_path_factory.mktemp("secured-klamm")) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"t-{uuid4().hex}"


def address(klamm: SecuredKlamm) -> str:
    return f"127.0.0.1:{klamm.ports['SASLS']}"


def python(library: str, klamm: SecuredKlamm, mechanism: str, topic: str, secret: str, _folder: Path) -> str:
    given = {
        "address": address(klamm),
        "ca": str(klamm.authority.certificate),
        "mechanism": mechanism,
        "user": USER,
        "secret": secret,
        "token": token_for(secret),
        "topic": topic,
    }
    # A program of its own: these libraries warn of things that fail a test here.
    done = subprocess.run(
        [sys.executable, "-m", "interop.clients.secured", library, json.dumps(given)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    return (done.stdout + done.stderr).strip()


def token_for(secret: str) -> str:
    return unsecured_token(60 if secret == SECRET else -60)


def java(klamm: SecuredKlamm, mechanism: str, topic: str, secret: str, folder: Path) -> str:
    if mechanism == "OAUTHBEARER":
        jaas = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}"'
        if secret != SECRET:
            jaas += ' unsecuredLoginLifetimeSeconds="1"'
    else:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        jaas = f'{MODULES}.{module} required username="{USER}" password="{secret}"'
    file = folder / "client.properties"
    rows = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(klamm.authority.certificate),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": "".join(
            character if character.isascii() else f"\\u{ord(character):04x}" for character in f"{jaas};"
        ),
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in rows.items()), encoding="utf-8")
    common = ("--bootstrap-server", address(klamm), "--topic", topic, "--command-config", str(file))
    sent = run_kafka_tool("ConsoleProducer", *common, stdin="hello\n")
    if "Exception" in sent.stdout + sent.stderr:
        return sent.stdout + sent.stderr
    read = run_kafka_tool(
        "consumer.ConsoleConsumer", *common, "--from-beginning", "--max-messages", "1",
        "--timeout-ms", "30000", "--group", f"g-{topic}",
    )  # fmt: skip
    return read.stdout.strip()


def kafkajs(klamm: SecuredKlamm, mechanism: str, topic: str, secret: str, _folder: Path) -> str:
    sasl: dict[str, str] = {"mechanism": mechanism.lower()}
    if mechanism != "OAUTHBEARER":
        sasl |= {"username": USER, "password": secret}
    given = {
        "brokers": [address(klamm)],
        "ca": str(klamm.authority.certificate),
        "sasl": sasl,
        "token": token_for(secret) if mechanism == "OAUTHBEARER" else None,
        "topic": topic,
    }
    program = ROOT / "tests" / "interop" / "clients" / "js" / "secured.js"
    done = subprocess.run(
        ["node", str(program), json.dumps(given)],
        env={"NODE_PATH": str(cache_dir() / "clients" / "js" / "node_modules"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return (done.stdout + done.stderr).strip()


def franz_go(klamm: SecuredKlamm, mechanism: str, topic: str, secret: str, _folder: Path) -> str:
    given = {
        "address": address(klamm),
        "ca": str(klamm.authority.certificate),
        "mechanism": mechanism,
        "user": USER,
        "secret": secret,
        "token": token_for(secret),
        "topic": topic,
    }
    done = subprocess.run(
        [str(cache_dir() / "clients" / "go" / "client"), "secured", json.dumps(given)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return (done.stdout + done.stderr).strip()


Program = Callable[[SecuredKlamm, str, str, str, Path], str]
CLIENTS: Final[dict[str, Program]] = {
    "librdkafka": partial(python, "librdkafka"),
    "kafka-python": partial(python, "kafka-python"),
    "aiokafka": partial(python, "aiokafka"),
    "java": java,
    "kafkajs": kafkajs,
    "franz-go": franz_go,
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_record_goes_there_and_back(
    klamm: SecuredKlamm, topic: str, tmp_path: Path, client: str, mechanism: str
) -> None:
    shown = CLIENTS[client](klamm, mechanism, topic, SECRET, tmp_path)
    assert shown.splitlines()[0] == "hello", shown
    assert f"login of User:{USER} from 127.0.0.1" in klamm.log


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
@pytest.mark.parametrize(
    ("client", "message"),
    [
        ("librdkafka", "Authentication failed"),
        ("java", "Authentication failed"),
        ("kafkajs", "Authentication failed"),
        ("franz-go", "SASL_AUTHENTICATION_FAILED"),
    ],
)
def test_a_wrong_password_is_shown_with_the_brokers_message(
    klamm: SecuredKlamm, topic: str, tmp_path: Path, client: str, message: str, mechanism: str
) -> None:
    shown = CLIENTS[client](klamm, mechanism, topic, "wrong", tmp_path)
    assert message in shown
    assert SECRET not in shown


def test_no_secret_is_in_the_log(klamm: SecuredKlamm, topic: str, tmp_path: Path) -> None:
    run = partial(CLIENTS["librdkafka"], klamm, "PLAIN", topic)
    assert run(SECRET, tmp_path) == "hello"
    run("wrong password", tmp_path)
    assert "refused: PLAIN, listener SASLS" in klamm.log
    assert SECRET not in klamm.log
    assert "wrong password" not in klamm.log
