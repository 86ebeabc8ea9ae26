"""Several brokers on PostgreSQL keep what they acknowledged, whatever happens to them and to the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from klamm.broker.cluster.serve_window import ServeWindow
from klamm.storage.engines.postgresql import appending, connection
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from postgresql import PostgresServer
from simulation.postgresql_brokers import PostgresBrokers
from simulation.seeds import seeds


def run(seed: int, brokers: PostgresBrokers, steps: int = 300) -> None:
    try:
        brokers.run(steps)
        brokers.heal()
        brokers.check()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        brokers.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(4))
def test_what_was_acknowledged_is_there_whatever_happens_to_the_database(
    seed: int, postgres: PostgresServer
) -> None:
    brokers = PostgresBrokers(seed, postgres)
    run(seed, brokers)
    assert len(brokers.happened) > 1


@pytest.mark.timeout(600)
def test_a_seed_gives_the_same_run_whether_idle_connections_are_probed_or_not(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = []
    for probe_after_s in (0.0, 3600.0):
        monkeypatch.setattr(connection, "_PROBE_AFTER_S", probe_after_s)
        brokers = PostgresBrokers(3, postgres, loss_rate=0.05)
        run(3, brokers, steps=60)
        ends.append((brokers.postgres.database.losses, [each.progress() for each in brokers.clients]))
    assert ends[0] == ends[1]


def first_complaint(postgres: PostgresServer, kinds: Sequence[str], *, loss_rate: float, steps: int) -> str:
    """What is found out in a few worlds in which only these things happen."""
    for seed in range(5):
        brokers = PostgresBrokers(seed, postgres, loss_rate=loss_rate, kinds=kinds, cut_off_ms=(6_000,))
        try:
            run(seed, brokers, steps)
        except AssertionError as error:
            return str(error)
    return ""


@pytest.mark.timeout(600)
def test_a_statement_that_does_not_check_the_leader_epoch_is_found_out(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = appending._PREPARE.replace("AND g.leader_epoch = x.e ", "")
    assert without != appending._PREPARE
    monkeypatch.setattr(appending, "_PREPARE", without)
    said = first_complaint(postgres, ("cut off", "move", "stand still"), loss_rate=0.05, steps=100)
    assert "appended at another leader epoch" in said


@pytest.mark.timeout(600)
def test_a_round_of_unknown_outcome_that_is_not_fenced_is_found_out(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(self: PostgresCluster, expected: Mapping[int, int]) -> dict[int, int]:
        """Only read the ends."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT partition_id, end_offset FROM log WHERE partition_id = ANY(%s)", [list(expected)]
            )
            return dict(rows.fetchall())

    monkeypatch.setattr(PostgresCluster, "raise_epochs", look)
    assert "seed" in first_complaint(postgres, ("move",), loss_rate=0.05, steps=100)


@pytest.mark.timeout(600)
def test_a_broker_that_answers_without_a_lease_is_found_out(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServeWindow, "may_send", lambda self, api_key, response: True)
    assert "seed" in first_complaint(postgres, ("cut off",), loss_rate=0.0, steps=300)
