"""The two ends of a move: the address of a cluster, or a store that this process serves meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from klamm.broker.embedded import Broker
from klamm.cli.move.state import MoveError
from klamm.cli.profiles import profile_settings
from klamm.client.admin.admin import Admin
from klamm.config import ConfigError


@dataclass(frozen=True, slots=True)
class End:
    """A cluster that can be connected to."""

    name: str  # as the user wrote it, without a password
    settings: dict[str, Any]  # of clients
    admin: Admin
    cluster_id: str


def is_folder(location: str) -> bool:
    """Whether a location is a data folder, and not HOST:PORT."""
    return os.sep in location or location in (".", "..") or Path(location).is_dir()


def is_database(location: str) -> bool:
    return location.startswith(("postgresql://", "postgres://"))


def without_credentials(url: str) -> str:
    """The URL of a database as it may be shown."""
    scheme, _, rest = url.partition("://")
    place = rest.partition("?")[0]  # settings can have a password, too
    return f"{scheme}://{place.rpartition('@')[2]}"


@contextmanager
def open_end(location: str, *, must_exist: bool, timeout: float) -> Iterator[End]:
    """Connect to a cluster, or start a broker on a data folder or a database for as long as it is needed."""
    if is_database(location):
        name = without_credentials(location)
        with _served(name, Broker(settings={"klamm.store": location})) as broker:
            yield from _connected(name, broker.bootstrap, {}, timeout)
    elif is_folder(location):
        if must_exist and not Path(location).is_dir():
            raise MoveError(f"there is no folder {location}")
        with _served(location, Broker(location)) as broker:
            yield from _connected(location, broker.bootstrap, {}, timeout)
    else:
        yield from _connected(location, location, profile_settings(), timeout)


@contextmanager
def _served(name: str, broker: Broker) -> Iterator[Broker]:
    try:
        broker.__enter__()
    except ConfigError:
        raise
    except Exception as error:
        raise MoveError(f"cannot open {name}: {error}; a broker that uses it must be stopped") from error
    try:
        yield broker
    finally:
        broker.__exit__(None, None, None)


def _connected(name: str, bootstrap: str, settings: Mapping[str, Any], timeout: float) -> Iterator[End]:
    settings = {**settings, "bootstrap.servers": bootstrap}
    admin_settings = {**settings, "default.api.timeout.ms": round(timeout * 1000)}
    with Admin(admin_settings) as admin:
        yield End(name, settings, admin, admin.describe_cluster().cluster_id)
