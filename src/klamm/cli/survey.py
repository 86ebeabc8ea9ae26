"""Groups with their diagnoses, for the commands that show them."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from klamm.cli.cluster import an_admin
from klamm.cli.reading import a_reader
from klamm.client.diagnosis.collecting import snapshots
from klamm.clock import SystemClock
from klamm.errors import KlammError
from klamm.groups.diagnosis.finding import Diagnosis
from klamm.groups.diagnosis.rules import diagnose
from klamm.groups.snapshot import GroupSnapshot

MINUTE_MS = 60_000
WINDOW_MS = 10 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Some groups, and why others could not be looked at."""

    groups: Sequence[tuple[GroupSnapshot, Diagnosis]]
    errors: Mapping[str, KlammError]


def survey(
    bootstrap: str, timeout: float, groups: Sequence[str] = (), window_ms: int = WINDOW_MS
) -> Surveyed:
    """These groups, or all; the command ends where the cluster does not answer."""
    with _without_collector(), an_admin(bootstrap, timeout) as admin, a_reader(bootstrap) as reader:
        chosen = groups or [item.group_id for item in admin.list_groups()]
        described = admin.describe_groups(chosen, raise_errors=False)
        found = snapshots(
            admin,
            reader,
            list(described.successes.values()),
            now_ms=SystemClock().timestamp_ms(),
            window_ms=window_ms,
            timeout=timeout,
        )
        return Surveyed([(each, diagnose(each)) for each in found], described.errors)


@contextmanager
def _without_collector() -> Iterator[None]:
    """While a hundred thousand rows are made, and afterwards for these: the collector, which looks at them
    again and again, is half of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    gc.unfreeze()  # those of the last time
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
