"""What holds for every test: in CI nothing may be skipped."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes depends on what else the machine does.
settings.register_profile("klamm", deadline=None)
settings.load_profile("klamm")


SOURCE = Path(__file__).parents[1] / "src"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Do not test compiled modules that are older than their source: what is tested is the source then."""
    declared = [path.with_suffix(".py") for path in SOURCE.rglob("*.pxd")]
    built = [path for module in declared for path in module.parent.glob(f"{module.stem}.*.so")]
    oldest_s = min((path.stat().st_mtime for path in built), default=0)
    changed = [
        module
        for module in declared
        if built and max(module.stat().st_mtime, module.with_suffix(".pxd").stat().st_mtime) > oldest_s
    ]
    if changed:
        for path in built:  # all: they use each other's classes
            path.unlink(missing_ok=True)
        names = ", ".join(str(module.relative_to(SOURCE)) for module in changed)
        sys.stderr.write(f"{names}: changed; testing plain Python until `make build` compiles it\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only plain Python allows: `make pure` runs it."""
    if os.environ.get("KLAMM_PURE") == "1" or not any(
        (SOURCE / "klamm/coordinator/runtime").glob("shard.*.so")
    ):
        return
    left_out = [item for item in items if item.get_closest_marker("plain") is not None]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item.get_closest_marker("plain") is None]


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
