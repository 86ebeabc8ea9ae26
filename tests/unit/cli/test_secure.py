"""`klamm certs` and `klamm up --secure`: the files that they make, and a broker that uses them."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import klamm
from klamm.cli.app import app
from klamm.cli.secure import secure_settings, tell
from klamm.config import ConfigError, parse_properties

GIVEN = {"listeners": "PLAINTEXT://127.0.0.1:0"}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_certs_makes_a_ca_once_and_certificates_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    first = CliRunner().invoke(app, ["certs", str(folder), "--client", "alice"])
    assert first.exit_code == 0, first.output
    assert f"CA made: {folder / 'ca.pem'}" in first.output
    assert f"client alice: ssl.keystore.location={folder / 'alice.pem'}" in first.output
    ca, broker = (folder / "ca.pem").read_bytes(), (folder / "broker.pem").read_bytes()
    second = CliRunner().invoke(app, ["certs", str(folder), "--host", "kafka.example"])
    assert f"CA kept: {folder / 'ca.pem'}" in second.output
    assert (folder / "ca.pem").read_bytes() == ca
    assert (folder / "broker.pem").read_bytes() != broker
    for name in ("ca.key", "broker.pem", "alice.pem"):
        assert mode(folder / name) == 0o600, name


@pytest.mark.parametrize("name", ["../x", "ca", "broker", "a b", ""])
def test_a_client_needs_a_name_that_is_a_file_name(tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(app, ["certs", str(tmp_path), "--client", name])
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_certificates_of_certs_open_a_listener_that_requires_them(tmp_path: Path) -> None:
    CliRunner().invoke(app, ["certs", str(tmp_path), "--client", "alice"])
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.auth": "required",
    }
    with klamm.Broker(settings=settings) as broker:
        client = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SSL",
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
            "ssl.keystore.location": str(tmp_path / "alice.pem"),
        }
        with klamm.Admin(client) as admin:
            assert admin.list_topics() == []


def test_a_secure_broker_serves_its_user_alone_and_over_tls(tmp_path: Path) -> None:
    settings = secure_settings(GIVEN, tmp_path)
    profile = tomllib.loads((tmp_path / "profiles.toml").read_text())["secure"]
    profile.pop("bootstrap")
    with klamm.Broker(settings=settings) as broker:
        with klamm.Admin({"bootstrap.servers": broker.bootstrap, **profile}) as admin:
            admin.create_topics("t")
            assert admin.list_topics() == ["t"]
        wrong = {**profile, "sasl.password": "wrong"}
        with (
            klamm.Admin({"bootstrap.servers": broker.bootstrap, **wrong}) as admin,
            pytest.raises(klamm.SaslAuthenticationError),
        ):
            admin.list_topics()


def test_java_gets_a_file_with_the_same_password(tmp_path: Path) -> None:
    secure_settings(GIVEN, tmp_path)
    properties = parse_properties((tmp_path / "client.properties").read_text())
    profile = tomllib.loads((tmp_path / "profiles.toml").read_text())["secure"]
    assert f'password="{profile["sasl.password"]}"' in properties["sasl.jaas.config"]
    assert properties["ssl.truststore.location"] == profile["ssl.truststore.location"]


def test_a_second_start_keeps_keys_and_passwords(tmp_path: Path) -> None:
    first = secure_settings(GIVEN, tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert secure_settings(GIVEN, tmp_path) == first
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    for path in files:
        assert mode(path) == (0o644 if path.name == "ca.pem" else 0o600), path


def test_a_control_port_gets_a_token_of_its_own_and_the_start_says_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {**GIVEN, "klamm.control.listener": "127.0.0.1:0"}
    token = secure_settings(given, tmp_path)["klamm.control.token"]
    assert (tmp_path / "control-token").read_text() == f"{token}\n"
    assert mode(tmp_path / "control-token") == 0o600
    assert token not in (tmp_path / "passwords").read_text()
    assert secure_settings(given, tmp_path)["klamm.control.token"] == token
    own = secure_settings({**given, "klamm.control.token": "mine"}, tmp_path)
    assert own["klamm.control.token"] == "mine"
    tell(tmp_path, has_control_token=True)
    said = capsys.readouterr().err
    assert f"export KLAMM_CONTROL_TOKEN=$(cat {tmp_path / 'control-token'})" in said
    assert token not in said
    tell(tmp_path)
    assert "CONTROL_TOKEN" not in capsys.readouterr().err


def test_an_empty_token_of_the_control_port_is_refused(tmp_path: Path) -> None:
    (tmp_path / "control-token").touch()
    with pytest.raises(ConfigError, match="control-token is empty: remove it"):
        secure_settings({**GIVEN, "klamm.control.listener": "127.0.0.1:0"}, tmp_path)


def test_the_password_is_not_in_the_file_of_users(tmp_path: Path) -> None:
    secure_settings(GIVEN, tmp_path)
    users = (tmp_path / "users").read_text()
    for line in (tmp_path / "passwords").read_text().splitlines():
        name, _, password = line.partition(":")
        assert f"{name}:SCRAM-SHA-512$4096:" in users
        assert password not in users


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"listeners": "SSL://127.0.0.1:0"}, "listeners"),
        ({**GIVEN, "super.users": "User:me"}, "super.users"),
        ({**GIVEN, "ssl.keystore.location": "x"}, "ssl.keystore.location"),
    ],
)
def test_settings_that_secure_makes_cannot_be_given(tmp_path: Path, given: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError, match="--secure") as refused:
        secure_settings(given, tmp_path)
    assert refused.value.name == name
