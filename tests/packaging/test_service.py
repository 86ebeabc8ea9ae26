"""The systemd unit, its settings and the Dockerfile agree with the command line."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from klamm.broker.config.broker_config import BrokerConfig
from klamm.cli.quick import parse_up
from klamm.cli.start import broker_settings

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names are case-sensitive
    parser.read(PACKAGING / "klamm.service")
    return parser


def test_the_unit_starts_a_broker_with_its_settings() -> None:
    command = shlex.split(unit()["Service"]["ExecStart"])
    options = parse_up(command[1:], {})
    assert options is not None
    assert options.config == "/etc/klamm/server.properties"
    options.config = str(PACKAGING / "server.properties")
    config = BrokerConfig.from_settings(broker_settings(options, {}))
    # The only place that the unit may write to
    assert str(config.log_dirs[0]) == f"/var/lib/{unit()['Service']['StateDirectory']}"


def test_every_commented_setting_is_valid() -> None:
    text = (PACKAGING / "server.properties").read_text()
    uncommented = re.sub(r"(?m)^#(\S+=)", r"\1", text)
    given = dict(line.split("=", 1) for line in uncommented.splitlines() if line and not line.startswith("#"))
    assert BrokerConfig.from_settings(given).listeners


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return  # the other tests read the unit without systemd
    command = tmp_path / "klamm"
    command.write_text("#!/bin/sh\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    text = (PACKAGING / "klamm.service").read_text().replace("/opt/klamm/bin/klamm", str(command))
    (tmp_path / "klamm.service").write_text(text)
    done = subprocess.run(
        [analyze, "verify", tmp_path / "klamm.service"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "klamm.service" in line]) == (
        0,
        [],
    )


@pytest.mark.parametrize("instruction", ["CMD", "HEALTHCHECK"])
def test_the_commands_of_the_image_exist(instruction: str) -> None:
    text = (PACKAGING / "Dockerfile").read_text().replace("\\\n", " ")
    (line,) = re.findall(rf"(?m)^{instruction} .*$", text)
    command = json.loads(line[line.index("[") :])
    if instruction == "CMD":
        options = parse_up(command, {})
        assert options is not None
        assert f"VOLUME {options.data}\n" in text
    else:
        assert command == ["klamm", "health"]


def test_the_image_copies_what_the_build_reads() -> None:
    copied = re.findall(r"(?m)^COPY (?!--)(.*) \S+$", (PACKAGING / "Dockerfile").read_text())
    names = [name for line in copied for name in line.split()]
    assert [name for name in names if not (ROOT / name).exists()] == []
    assert {"pyproject.toml", "setup.py", "src"} <= set(names)
