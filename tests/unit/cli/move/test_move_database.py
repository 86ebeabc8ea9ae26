"""`klamm move` into a PostgreSQL database, and out of it into a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import klamm
from postgresql import PostgresServer
from unit.cli.move.test_move import create, fill, move, moved, read


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def test_a_cluster_moves_into_a_database_and_out_of_it(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.new_schema()
    with klamm.Broker() as source:
        create(source)
        fill(source)
        with klamm.Admin(bootstrap_servers=source.bootstrap) as admin:
            admin.alter_group_offsets("billing", {("orders", 0): 7})
        done = moved(source.bootstrap, url, tmp_path / "in")
        assert done == {"topics": 1, "records": 50, "groups": 1, "checked": True}
        expected = read(source)
    with klamm.Broker(settings={"klamm.store": url}) as stored:
        assert read(stored) == expected
    folder = str(tmp_path / "data")
    done = moved(url, folder, tmp_path / "out")
    assert done == {"topics": 1, "records": 50, "groups": 1, "checked": True}
    with klamm.Broker(folder) as target:
        assert read(target) == expected
        with klamm.Admin(bootstrap_servers=target.bootstrap) as admin:
            assert admin.list_group_offsets("billing")[klamm.TopicPartition("orders", 0)].offset == 7


def test_a_database_that_a_broker_uses_is_refused(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.new_schema()
    settings: dict[str, str | int] = {"klamm.store": url, "broker.heartbeat.interval.ms": 20}
    with klamm.Broker(settings=settings), klamm.Broker() as target:
        done = move(url, target.bootstrap, tmp_path / "state")
    assert done.exit_code == 1
    assert "broker 1 is already running" in done.stderr
    assert "stop it" in done.stderr


def test_a_database_that_a_broker_with_another_id_uses_is_refused(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.new_schema()
    with klamm.Broker(settings={"klamm.store": url, "node.id": 2}) as user, klamm.Broker() as target:
        done = move(url, target.bootstrap, tmp_path / "state")
        assert done.exit_code == 1
        assert f"is in use by broker 2 at {user.bootstrap}: stop it" in done.stderr


def test_a_password_is_in_no_message(tmp_path: Path) -> None:
    url = "postgresql://anna:secret@127.0.0.1:1/db?password=hidden"
    with klamm.Broker() as target:
        done = move(url, target.bootstrap, tmp_path / "state")
    assert done.exit_code == 1
    assert "cannot open postgresql://127.0.0.1:1/db: connection" in done.stderr
    assert "secret" not in done.stderr
    assert "hidden" not in done.stderr


def test_partitions_of_a_broker_that_has_stopped_are_waited_for(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    # Given a database whose only broker had another id than the one that the command starts
    url = postgres.new_schema()
    with klamm.Broker(settings={"klamm.store": url, "node.id": 2}) as stored:
        create(stored)
        fill(stored)
        expected = read(stored)
    # When its data are moved at once
    done = moved(url, str(tmp_path / "data"), tmp_path / "state")
    # Then all of them arrive
    assert done["records"] == 50
    with klamm.Broker(str(tmp_path / "data")) as target:
        assert read(target) == expected
