"""The arguments of `klamm up`: read at once, left to the full command line, or refused."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import typer

from klamm.cli.quick import UpOptions, parse_up
from klamm.cli.start import broker_settings, start
from klamm.config import ConfigError


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["up"], UpOptions()),
        (["up", "--memory"], UpOptions(memory=True)),
        (["up", "--listen", "h:1", "--data", "d"], UpOptions(listen="h:1", data="d")),
        (["up", "--listen=h:1", "--data=a=b"], UpOptions(listen="h:1", data="a=b")),
        (["up", "--set", "a=1", "--set=b=2"], UpOptions(settings=["a=1", "b=2"])),
        (["up", "--set", "a=-1"], UpOptions(settings=["a=-1"])),
        (["up", "--config", "f"], UpOptions(config="f")),
        (["up", "--registry", "h:1"], UpOptions(registry="h:1")),
        (["up", "--store", "postgresql://h/d"], UpOptions(store="postgresql://h/d")),
        (
            ["up", "--control", "127.0.0.1:0", "--clock=virtual"],
            UpOptions(control="127.0.0.1:0", clock="virtual"),
        ),
    ],
)
def test_a_plain_command_is_read_at_once(arguments: list[str], expected: UpOptions) -> None:
    assert parse_up(arguments, {}) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["down"],
        ["--help"],
        ["up", "--help"],
        ["up", "-h"],
        ["up", "--listen"],
        ["up", "--listen", "--memory"],
        ["up", "--memory=yes"],
        ["up", "--registry", "--memory"],
        ["up", "--lsten", "x"],
        ["up", "surprise"],
    ],
)
def test_what_needs_explaining_is_left_to_the_full_command_line(arguments: list[str]) -> None:
    assert parse_up(arguments, {}) is None


def test_the_environment_may_name_the_file() -> None:
    assert parse_up(["up"], {"KLAMM_CONFIG": "f"}) == UpOptions(config="f")
    assert parse_up(["up", "--config", "g"], {"KLAMM_CONFIG": "f"}) == UpOptions(config="g")


def test_defaults_fill_what_nobody_said() -> None:
    assert broker_settings(UpOptions(), {}) == {
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "./klamm-data",
        "group.initial.rebalance.delay.ms": "0",
    }


def test_a_file_or_a_flag_says_how_long_a_new_group_waits(tmp_path: Path) -> None:
    name = "group.initial.rebalance.delay.ms"
    file = tmp_path / "klamm.properties"
    file.write_text("num.partitions=1\n")
    assert name not in broker_settings(UpOptions(config=str(file)), {})  # Kafka's default, 3 s
    assert broker_settings(UpOptions(settings=[f"{name}=70"]), {})[name] == "70"


def test_flags_win_over_the_environment_which_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "klamm.toml"
    file.write_text('listeners = "PLAINTEXT://f:1"\nlog.dir = "from-file"\nnum.partitions = 1\n')
    options = UpOptions(config=str(file), settings=["num.partitions=3"])
    assert broker_settings(options, {"KLAMM_NUM_PARTITIONS": "2", "HOME": "/"}) == {
        "listeners": "PLAINTEXT://f:1",
        "log.dir": "from-file",
        "num.partitions": "3",
    }
    kafkas = ["listeners=PLAINTEXT://:1,CONTROLLER://:2", "controller.listener.names=CONTROLLER"]
    settings = broker_settings(UpOptions(listen="h:7", settings=kafkas), {})
    assert settings["listeners"] == "PLAINTEXT://h:7"
    options = UpOptions(config=str(file), listen="[::1]:7", data="d")
    settings = broker_settings(options, {"KLAMM_LISTENERS": "PLAINTEXT://e:2"})
    assert (settings["listeners"], settings["log.dirs"]) == ("PLAINTEXT://[::1]:7", "d")


@pytest.mark.parametrize("options", [UpOptions(data="d"), UpOptions(memory=True)])
def test_a_store_excludes_a_folder_and_memory(options: UpOptions) -> None:
    options.store = "postgresql://h/d"
    with pytest.raises(ConfigError, match="cannot be combined"):
        broker_settings(options, {})
    settings = broker_settings(UpOptions(store="postgresql://h/d"), {"KLAMM_SET_STORE": "postgresql://e/d"})
    assert settings["klamm.store"] == "postgresql://h/d"


def test_a_folder_and_memory_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="cannot be combined"):
        broker_settings(UpOptions(memory=True, data="d"), {})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (UpOptions(settings=["log.retentoin.ms=5"]), "did you mean log.retention.ms?"),
        (UpOptions(settings=["log.retention.ms=often"]), "expected a whole number"),
        (UpOptions(settings=["log.retention.ms"]), "expected name=value"),
        (UpOptions(config="/no/such/file.properties"), "cannot read /no/such/file.properties"),
        (UpOptions(listen="nowhere"), "expected HOST:PORT"),
        (
            UpOptions(listen="h:1", settings=["listeners=SSL://h:2"]),
            "--listen would replace listeners=SSL://h:2",
        ),
        (
            UpOptions(listen="h:1", settings=["listeners=PLAINTEXT://h:2,SASL_SSL://h:3"]),
            "--listen would replace",
        ),
        (UpOptions(listen="127.0.0.1:99999"), "expected NAME://host:port"),
        (UpOptions(listen="0.0.0.0:9092"), "advertised.listeners"),
        (UpOptions(control="0.0.0.0:0"), "can be reached from other machines: use https://"),
        (UpOptions(control="nowhere"), "expected HOST:PORT"),
        (UpOptions(control="127.0.0.1:0", clock="sundial"), "one of system, virtual"),
        (UpOptions(clock="virtual"), "add --control 127.0.0.1:0"),
        (UpOptions(control="127.0.0.1:0", brokers=2), "remove --brokers"),
        (UpOptions(registry="nowhere"), "invalid value nowhere for --registry: expected HOST:PORT"),
        (UpOptions(registry="h:99999"), "invalid value h:99999 for --registry: expected HOST:PORT"),
        (
            UpOptions(registry="h:1", settings=["listeners=PLAINTEXT://h:2,SASL_PLAINTEXT://h:3"]),
            "start it beside the broker, with a profile: klamm --profile NAME registry --listen h:1",
        ),
        (UpOptions(control="127.0.0.1:0", store="postgresql://h/d"), "cannot be combined"),
    ],
)
def test_what_cannot_be_ends_in_one_line_and_exit_code_2(
    options: UpOptions, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(options) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("klamm: ")
    assert said in line
    assert printed.out == ""


def test_both_parsers_of_klamm_up_know_the_same_options() -> None:
    command = typer.main.get_command(importlib.import_module("klamm.cli.up").app)
    names = {name for each in command.params for name in each.opts if name != "--help"}
    values = {"--node-id": "7", "--brokers": "2"}
    for name in sorted(names):
        value = () if name in ("--memory", "--secure") else (values.get(name, "x"),)
        options = parse_up(["up", name, *value], {})
        assert options is not None, name
        assert options != parse_up(["up"], {}), name
