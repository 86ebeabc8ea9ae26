"""`${env:NAME}` and its like in settings: what they become, and the errors that name no value."""

from __future__ import annotations

from pathlib import Path

import pytest

import klamm
from klamm.broker.config.broker_config import BrokerConfig
from klamm.client.config import ADMIN, ClientConfig
from klamm.config import ConfigError
from klamm.references import resolved
from klamm.spark.options.options import source_options

SECRET = "so-secret"
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}


def folder(tmp_path: Path) -> Path:
    (tmp_path / "secrets.properties").write_text(f"# of the cluster\nalice = {SECRET}\ncolon:key=colon\n")
    (tmp_path / "password").write_text(SECRET)
    return tmp_path


def test_each_kind_of_reference_becomes_its_value(tmp_path: Path) -> None:
    place = folder(tmp_path)
    given = {
        "one": "${env:PASSWORD}",
        "two": f"user=alice password=${{file:{place}/secrets.properties:alice}} at ${{env:PLACE}}",
        "three": f"${{directory:{place}:password}}",
        "four": f"${{file:{place}/secrets.properties:colon}}",
        "plain": "nothing $ here ${}",
        "elsewhere": "${vault:path:key} ${NAME}",
    }
    assert resolved(given, {"PASSWORD": SECRET, "PLACE": "home"}) == {
        **given,
        "one": SECRET,
        "two": f"user=alice password={SECRET} at home",
        "three": SECRET,
        "four": "key=colon",
    }


def test_a_value_that_looks_like_a_reference_is_not_resolved_again() -> None:
    assert resolved({"a": "${env:A}"}, {"A": "${env:B}", "B": "x"}) == {"a": "${env:B}"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${env:MISSING}", "sasl.password refers to environment variable MISSING, which is not set: set it"),
        ("${env:a:b}", "expected ${env:NAME}"),
        ("${file:/nowhere/there:key}", "refers to /nowhere/there, which cannot be read: No such file"),
        (
            "${file:FOLDER/secrets.properties:bob}",
            "refers to key bob in FOLDER/secrets.properties, which has no",
        ),
        ("${file:FOLDER/secrets.properties}", "expected ${file:/path:key}"),
        ("${directory:FOLDER:../etc/passwd}", "expected ${directory:/path:name-of-a-file}"),
        ("${directory:FOLDER:other}", "refers to FOLDER/other, which cannot be read"),
    ],
)
def test_what_is_missing_is_named_and_no_value_is(tmp_path: Path, text: str, message: str) -> None:
    place = str(folder(tmp_path))
    text = f"{SECRET}{text}".replace("FOLDER", place)
    with pytest.raises(ConfigError) as raised:
        resolved({"sasl.password": text}, {"PASSWORD": SECRET})
    assert message.replace("FOLDER", place) in str(raised.value)
    assert SECRET not in str(raised.value)
    assert raised.value.name == "sasl.password"
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_providers_have_the_names_and_the_limits_that_java_gives_them(tmp_path: Path) -> None:
    place = folder(tmp_path)
    kinds = "org.apache.kafka.common.config.provider."
    given = {
        "config.providers": "safe, env",
        "config.providers.safe.class": f"{kinds}FileConfigProvider",
        "config.providers.safe.param.allowed.paths": str(place),
        "config.providers.env.class": f"{kinds}EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "KAFKA_.*",
    }

    def of(text: str) -> str:
        return resolved({**given, "a": text}, {"HOME": SECRET, "KAFKA_A": "a"})["a"]

    assert of(f"${{safe:{place}/secrets.properties:alice}}") == SECRET
    assert of("${env:KAFKA_A}") == "a"
    with pytest.raises(ConfigError, match="HOME: its provider does not allow it"):
        of("${env:HOME}")
    with pytest.raises(ConfigError, match=r"/etc/passwd, which is not in allowed\.paths"):
        of(f"${{safe:{place}/../../../../../../../../etc/passwd:root}}")
    with pytest.raises(ConfigError, match="expected one of EnvVarConfigProvider"):
        resolved({"config.providers": "v", "config.providers.v.class": "a.Vault", "a": "${v:k}"}, {})


def test_clients_resolve_them_under_every_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    for settings in (
        {"sasl.password": "${env:KAFKA_PASSWORD}", "config.providers": "env"},
        {"sasl_password": "${env:KAFKA_PASSWORD}"},
        {"sasl.password": f"${{file:{folder(tmp_path)}/secrets.properties:alice}}"},
    ):
        parsed = ClientConfig.parse(ADMIN, {**LOGIN, **settings, "bootstrap.servers": "localhost:9092"}, {})
        assert parsed.values.secret("sasl.password") == SECRET
    with pytest.raises(ConfigError, match="environment variable NOT_SET"):
        klamm.Producer({"bootstrap.servers": "localhost:1", "sasl.password": "${env:NOT_SET}"})


def test_the_options_of_spark_keep_the_reference_and_not_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    given = {
        **{f"kafka.{name}": value for name, value in LOGIN.items()},
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribe": "t",
        "kafka.sasl.password": "${env:KAFKA_PASSWORD}",
        "kafka.config.providers": "env",
    }
    options = source_options(given, is_streaming=False)
    assert options.client["sasl.password"] == "${env:KAFKA_PASSWORD}"
    assert options.client["config.providers"] == "env"


def test_a_broker_resolves_what_it_is_started_with_and_nothing_that_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("USERS", SECRET)
    jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    listeners = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN"}
    config = BrokerConfig.from_settings({**listeners, "config.providers": "env", jaas: "${env:USERS}"})
    assert config.layers.static[jaas] == SECRET
    changed = config.changed(dynamic_default={}, dynamic={"ssl.keystore.location": "${env:USERS}"})
    assert changed.layers.merged["ssl.keystore.location"] == "${env:USERS}"
    with pytest.raises(ConfigError, match=r"log\.dirs refers to environment variable NOT_SET"):
        BrokerConfig.from_settings({"log.dirs": "${env:NOT_SET}"})
