"""`klamm audit`: what is found out before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from klamm.cli import audit
from klamm.cli.exit_codes import FAILED, MISUSED
from klamm.spark.setup import sessions


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*_given: Any, **_options: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(sessions, "session", session)
    monkeypatch.setattr(audit, "DEFAULT_TIMEOUT", 0.3)


def test_a_cluster_that_is_away_is_reported_before_spark_starts(tmp_path: Path) -> None:
    refused = CliRunner().invoke(audit.app, ["-b", "127.0.0.1:1", "-o", str(tmp_path / "audit")])
    assert refused.exit_code == FAILED
    assert "no bootstrap server can be reached: 127.0.0.1:1" in refused.output
    assert not (tmp_path / "audit").exists()


def test_an_unknown_setting_is_refused_before_spark_starts() -> None:
    refused = CliRunner().invoke(audit.app, ["-b", "127.0.0.1:1", "--client", "nothing=1"])
    assert refused.exit_code == MISUSED
    assert "unknown setting nothing" in refused.output
