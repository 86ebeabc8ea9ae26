"""`klamm audit`: what is found out before Spark starts."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from klamm.cli import audit
from klamm.cli.exit_codes import FAILED, MISUSED
from klamm.spark.audit import figures, tables
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


class Small:
    """An audit of a log that is read at once."""

    record_count, event_count = 1_200, 3

    def __init__(self, *_given: Any, **_options: Any) -> None:
        pass

    def write(self, folder: Path, *, progress: Any) -> None:
        (folder / "written").touch()
        progress(1_203)


def test_the_time_of_an_audit_is_without_the_start_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = iter([50.0, 50.4])  # read when Spark has started, and at the end
    answers = SimpleNamespace(describe_cluster=lambda **_given: None)
    monkeypatch.setattr(audit, "Admin", lambda _settings: nullcontext(answers))
    started = SimpleNamespace(stop=lambda: None)
    monkeypatch.setattr(sessions, "session", lambda *_given, **_options: started)
    monkeypatch.setattr(tables, "Audit", Small)
    monkeypatch.setattr(figures, "figures", lambda _audit: {})
    monkeypatch.setattr(audit, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    folder = tmp_path / "audit"
    done = CliRunner().invoke(audit.app, ["-o", str(folder)])
    assert done.output == f"1,200 records read in 0.4 s. Report: {folder / 'report.html'}\n"
    assert {path.name for path in folder.iterdir()} == {"written", "report.html"}
