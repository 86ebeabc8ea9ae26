"""What `klamm groups inspect` and `klamm txns inspect` share: ask the coordinator, or say who shows less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from klamm.cli.cluster import an_admin, print_json
from klamm.cli.failures import fail
from klamm.cli.output import echo
from klamm.client.admin.admin import Admin
from klamm.client.admin.results import Results
from klamm.client.diagnosis.coordinators import partition_of
from klamm.errors import UnsupportedVersionError

Content = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InsideOf:
    """A kind of thing that klamm's coordinators show the inside of."""

    name: str  # plural
    topic: str  # whose leaders are the coordinators
    ask: Callable[[Admin, str], Results[str, Content]]
    instead: str  # a command that works with any cluster
    show: Callable[[Content], None]


def inspect(kind: InsideOf, key: str, bootstrap: str, timeout: float, *, as_json: bool) -> None:
    """Show one of them; brokers other than klamm's are refused with a command that they understand."""
    with an_admin(bootstrap, timeout) as admin:
        try:
            found = kind.ask(admin, key).unwrap()[key]
        except UnsupportedVersionError:
            fail(
                f"{bootstrap} does not show the inside of {kind.name}: only klamm's broker does; "
                f"`{kind.instead} {key}` works with any"
            )
        found["log"] = partition_of(admin, kind.topic, key)
    if as_json:
        print_json(found)
    else:
        kind.show(found)


def echo_coordinator(found: Content) -> None:
    echo(f"  coordinator {found['coordinator']}, log {found['log'] or 'not known'}")
