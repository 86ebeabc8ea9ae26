"""What holds for every test: in CI nothing may be skipped."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# How long an example takes depends on what else the machine does.
settings.register_profile("klamm", deadline=None)
settings.load_profile("klamm")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn a green run with skips red in CI: a skip there hides that something was not tried."""
    if not os.environ.get("CI"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"{len(skipped)} skipped: CI takes a skip for a failure", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
