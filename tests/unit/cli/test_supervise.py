"""Settings and restarts of several broker processes."""

from __future__ import annotations

import pytest

from klamm.broker.config.settings import BROKER_SETTINGS
from klamm.cli.quick import UpOptions, parse_up
from klamm.cli.registry_process import RegistryProcess
from klamm.cli.start import start
from klamm.cli.supervise import (
    FIRST_DELAY_S,
    MAX_DELAY_S,
    STEADY_S,
    Backoff,
    command_of,
    environment_of,
    settings_of,
)
from klamm.config import ConfigError, from_environment, from_flags, merge


def test_each_broker_has_its_own_id_and_ports() -> None:
    settings = {
        "listeners": "A://127.0.0.1:9092,B://:19092",
        "advertised.listeners": "A://example.org:9092, B://[::1]:19092",
        "klamm.metrics.listener": "127.0.0.1:9999",
        "log.dirs": "data:1",
        "broker.id": "5",
    }
    first, second = settings_of(settings, 5, 2)
    assert first == {**{k: v for k, v in settings.items() if k != "broker.id"}, "node.id": "5"}
    assert second == {
        "listeners": "A://127.0.0.1:9093,B://:19093",
        "advertised.listeners": "A://example.org:9093, B://[::1]:19093",
        "klamm.metrics.listener": "127.0.0.1:10000",
        "log.dirs": "data:1",
        "node.id": "6",
    }


def test_several_brokers_are_in_the_racks_by_turns() -> None:
    racks = [each["broker.rack"] for each in settings_of({"broker.rack": "east, west"}, 1, 3)]
    assert racks == ["east", "west", "east"]
    assert all("broker.rack" not in each for each in settings_of({}, 1, 2))


def test_any_free_port_stays_any_free_port() -> None:
    assert [own["listeners"] for own in settings_of({"listeners": "A://h:0"}, 1, 3)] == ["A://h:0"] * 3


@pytest.mark.parametrize(("count", "port"), [(0, 9092), (65, 9092), (3, 65534)])
def test_too_many_brokers_or_too_high_a_port_is_refused(count: int, port: int) -> None:
    with pytest.raises(ConfigError, match=r"expected 1 to 64|port 65536 does not exist"):
        settings_of({"listeners": f"A://h:{port}"}, 1, count)


def test_a_password_is_not_in_the_arguments_of_the_processes() -> None:
    settings = {"node.id": "2", "klamm.store": "postgresql://anna:secret@db/klamm", "klamm.fence": "wait"}
    outside = {
        "HOME": "/h",
        "KLAMM_CONFIG": "a.toml",
        "KLAMM_SET_BROKER_ID": "1",
        "KLAMM_SET_STORE": "other",
    }
    command, environment = command_of(settings), environment_of(settings, outside)
    assert "secret" not in " ".join(command)
    assert environment.pop("HOME") == "/h"
    flags = [word for word in command if "=" in word]
    assert merge(from_environment(environment, BROKER_SETTINGS), from_flags(flags)) == settings


@pytest.mark.parametrize(
    ("listening", "bootstrap"),
    [
        ("127.0.0.1:9092", "127.0.0.1:9092"),
        ("0.0.0.0:9092, 127.0.0.1:9093", "127.0.0.1:9092"),
        ("[::]:9092", "[::1]:9092"),
        ("[::1]:9092", "[::1]:9092"),
    ],
)
def test_the_registry_goes_to_the_first_address_of_each_broker(listening: str, bootstrap: str) -> None:
    lines = [f"klamm 1.0 listening on {listening}, data in memory", "klamm 1.0 listening on h:1, data in d"]
    command = RegistryProcess("127.0.0.1:0").command(lines)
    assert command[-1] == f"{bootstrap},h:1"


def test_the_registry_does_not_log_in_as_the_user_of_another_cluster() -> None:
    environment = RegistryProcess("127.0.0.1:0").environment({"HOME": "/h", "KLAMM_PROFILE": "prod"})
    assert environment == {"HOME": "/h"}


def test_a_broker_that_dies_again_and_again_is_started_less_often() -> None:
    backoff = Backoff()
    delays = [backoff.next_s(0.1) for _ in range(10)]
    assert delays[:3] == [FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S]
    assert delays[-1] == MAX_DELAY_S
    assert backoff.next_s(STEADY_S) == FIRST_DELAY_S


def test_the_options_are_read_without_a_library() -> None:
    parsed = parse_up(["up", "--brokers", "4", "--node-id=7", "--data", "d"], {})
    assert parsed == UpOptions(data="d", node_id=7, brokers=4)
    assert parse_up(["up", "--brokers", "many"], {}) is None
    assert parse_up(["up", "--node-id", "-1"], {}) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (UpOptions(memory=True, brokers=2), "--memory and --brokers cannot be combined"),
        (UpOptions(brokers=2, listen="127.0.0.1:65535"), "port 65536 does not exist"),
        (UpOptions(brokers=2, settings=["node.id=x"]), "node.id"),
        (UpOptions(brokers=2, settings=["klamm.fence=maybe"]), "klamm.fence"),
        (UpOptions(brokers=2, settings=["broker.session.timeout.ms=5000"]), "three times"),
    ],
)
def test_a_mistake_is_reported_before_any_process_starts(
    options: UpOptions, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(options) == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
