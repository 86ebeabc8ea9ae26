"""`klamm move` from Apache Kafka to klamm and back: compacted topics, transactions, committed offsets."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import klamm
from interop.kafka_tools import ApacheKafka
from klamm.cli.app import app
from klamm.testing import SecureBroker

AT_ONCE_S = 5.0  # far below every time-out of a client


def moved(source: str, target: str, state: Path, topic: str) -> Any:
    arguments = ["move", source, target, "--state", str(state), "--topic", topic, "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def read(bootstrap: str, topic: str) -> list[tuple[Any, ...]]:
    partition = klamm.TopicPartition(topic, 0)
    with klamm.Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False
    ) as consumer:
        (end,) = consumer.end_offsets([partition]).values()
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        found: list[tuple[Any, ...]] = []
        while consumer.position(partition) < end:
            found += [(each.timestamp_ms, each.key, each.value, each.headers) for each in consumer.poll(1)]
    return found


def committed(bootstrap: str, group: str) -> list[int]:
    with klamm.Admin(bootstrap_servers=bootstrap) as admin:
        return [each.offset for each in admin.list_group_offsets(group).values()]


def test_a_topic_of_kafka_goes_to_klamm_and_back(shared_kafka: ApacheKafka, tmp_path: Path) -> None:
    there, back = shared_kafka.bootstrap, tmp_path / "data"
    topic, group = "moved-there-and-back", "moved-group"
    with klamm.Admin(bootstrap_servers=there) as admin:
        new = klamm.NewTopic(topic, 1, configs={"cleanup.policy": "compact", "retention.ms": "-1"})
        admin.create_topics([new])
    with klamm.Producer(bootstrap_servers=there, transactional_id="moved") as producer:
        producer.init_transactions()
        for turn in range(4):
            producer.begin_transaction()
            for number in range(3):
                producer.send(topic, b"%d" % turn, key=b"%d" % number, headers=[("n", b"1")], timestamp_ms=7)
            producer.flush(30)
            if turn == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    with klamm.Admin(bootstrap_servers=there) as admin:
        admin.alter_group_offsets(group, {(topic, 0): 9})  # behind the first record of the third transaction
    assert moved(there, str(back), tmp_path / "one", topic) == {
        "topics": 1,
        "records": 9,
        "groups": 1,
        "checked": True,
    }
    expected = read(there, topic)
    with klamm.Broker(back) as broker:
        assert read(broker.bootstrap, topic) == expected
        assert committed(broker.bootstrap, group) == [4]
    with klamm.Admin(bootstrap_servers=there) as admin:
        admin.delete_topics(topic)
        admin.delete_groups(group)
    assert moved(str(back), there, tmp_path / "two", topic)["records"] == 9
    assert read(there, topic) == expected
    assert committed(there, group) == [4]


def test_a_topic_goes_from_one_secured_cluster_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles, secrets = tmp_path / "profiles.toml", []
    monkeypatch.setenv("KLAMM_PROFILES", str(profiles))
    monkeypatch.chdir(tmp_path)
    with SecureBroker(clock="system") as old, SecureBroker(clock="system", seed=1) as new:
        for name, broker in (("old", old), ("new", new)):
            login = broker.client("mover")
            secrets.append(login.pop("sasl.password"))
            ca = tmp_path / f"{name}.pem"
            ca.write_text(login.pop("ssl.ca.pem"))
            rows = {
                "bootstrap": login.pop("bootstrap.servers"),
                **login,
                "ssl.ca.location": str(ca),
                "sasl.password": f"${{env:PASSWORD_{name.upper()}}}",
            }
            monkeypatch.setenv(f"PASSWORD_{name.upper()}", secrets[-1])
            lines = "".join(f'"{key}" = "{value}"\n' for key, value in rows.items())
            with profiles.open("a") as opened:
                opened.write(f"[{name}]\n{lines}")
            broker.allow("mover", "all", topic="t")
            broker.allow("mover", "all", group="*")
            broker.allow("mover", "all", cluster="kafka-cluster")
        old.create_topic("t", 1)
        with klamm.Producer(old.client("mover")) as producer:
            producer.send("t", b"moved")
        for arguments in (("--dry-run",), (), ("--json",)):
            done = CliRunner().invoke(app, ["--log-level", "debug", "move", "@old", "@new", *arguments])
            assert done.exit_code == 0, (done.output, done.exception)
            assert [secret for secret in secrets if secret in done.output] == []
        assert [record.value for record in new.records("t")] == [b"moved"]
        new.revoke("mover")
        began_at = time.monotonic()
        refused = CliRunner().invoke(app, ["move", "@old", "@new"])
        assert time.monotonic() - began_at < AT_ONCE_S
        assert refused.exit_code == 1
        assert "SCRAM-SHA-512: user mover" in refused.output
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or [each for each in secrets if each.encode() in file.read_bytes()] == [], file


def test_a_profile_that_is_not_there_is_named() -> None:
    done = CliRunner().invoke(app, ["move", "@nowhere", "./copy"])
    assert done.exit_code == 2
    assert "profile nowhere" in done.output
