"""The two ends of a move: the address of a cluster, or a store that this process serves meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from klamm.broker.embedded import Broker
from klamm.broker.net.server import StartError
from klamm.cli.move.state import MoveError
from klamm.cli.profiles import Profile, ProfileError, load_profile, profile_settings, profiles_file
from klamm.client.admin.admin import Admin
from klamm.config import ConfigError

_GONE_WITHIN_S: Final = 1.5  # a broker that was just killed is still listed


@dataclass(frozen=True, slots=True)
class End:
    """A cluster that can be connected to."""

    name: str  # as the user wrote it, without a password
    settings: dict[str, Any] = field(repr=False)  # of clients, with passwords
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
            yield from _connected(name, broker.bootstrap, {}, timeout, is_served=True)
    elif location.startswith("@"):
        profile = _profile(location[1:])
        yield from _connected(location, profile.bootstrap or "", profile.settings, timeout)
    elif is_folder(location):
        if must_exist and not Path(location).is_dir():
            raise MoveError(f"there is no folder {location}")
        with _served(location, Broker(location)) as broker:
            yield from _connected(location, broker.bootstrap, {}, timeout, is_served=True)
    else:
        yield from _connected(location, location, profile_settings(), timeout)


def _profile(name: str) -> Profile:
    """A cluster by its name. Raises ConfigError."""
    try:
        profile = load_profile(name, profiles_file(os.environ))
    except ProfileError as error:
        raise ConfigError(name, str(error)) from error
    if profile.bootstrap is None:
        raise ConfigError(name, f"profile {name} has no address: give it bootstrap")
    return profile


@contextmanager
def _served(name: str, broker: Broker) -> Iterator[Broker]:
    try:
        broker.__enter__()
    except ConfigError:
        raise
    except StartError as error:
        # What it says about klamm.store and its place is known here.
        cause = str(error).removeprefix("cannot use klamm.store: ").removeprefix(f"{name}: ")
        raise MoveError(f"cannot open {name}: {cause}") from error
    try:
        yield broker
    finally:
        broker.__exit__(None, None, None)


def _connected(
    name: str, bootstrap: str, settings: Mapping[str, Any], timeout: float, *, is_served: bool = False
) -> Iterator[End]:
    settings = {**settings, "bootstrap.servers": bootstrap}
    admin_settings = {**settings, "default.api.timeout.ms": round(timeout * 1000)}
    with Admin(admin_settings) as admin:
        if is_served:
            _refuse_company(name, admin, bootstrap)
        yield End(name, settings, admin, admin.describe_cluster().cluster_id)


def _refuse_company(name: str, admin: Admin, own_address: str) -> None:
    """Other brokers of a store would give partitions to the one of this process, and clients its address."""
    deadline_s = time.monotonic() + _GONE_WITHIN_S
    # Any broker may answer, also one that has not seen that of this process yet.
    while others := [place for place in _places(admin) if not place.endswith(f" at {own_address}")]:
        if time.monotonic() > deadline_s:
            raise MoveError(
                f"{name} is in use by broker {', '.join(others)}: stop it, or name its address instead"
            )
        time.sleep(0.05)


def _places(admin: Admin) -> list[str]:
    return [f"{each.broker_id} at {each.host}:{each.port}" for each in admin.describe_cluster().brokers]
