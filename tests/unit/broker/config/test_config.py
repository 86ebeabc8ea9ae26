"""Broker settings: from file, environment and flags to typed values and listeners."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.security_settings import LISTENER_SETTINGS
from klamm.broker.config.settings import BROKER_SETTINGS
from klamm.broker.net.listeners import Listener
from klamm.config import ConfigError, RawValue, as_text
from klamm.storage.topic_settings import BROKER_DEFAULT_SETTINGS


def test_nothing_set_gives_the_defaults() -> None:
    assert BrokerConfig.load() == BrokerConfig(layers=BrokerConfig.load().layers)
    assert BrokerConfig.from_settings({}) == BrokerConfig()


def test_every_setting_with_an_effect_has_a_typed_field_or_is_part_of_one() -> None:
    fields = {field.name.replace("_", ".") for field in dataclasses.fields(BrokerConfig)}
    composed = {"broker.id", "log.dir", "listener.security.protocol.map", "controller.listener.names"}
    composed |= {
        "security.inter.broker.protocol",
        *(name for name, setting in LISTENER_SETTINGS.items() if setting.has_effect),
    }
    composed -= fields
    effective = {name for name, setting in BROKER_SETTINGS.settings.items() if setting.has_effect}
    assert effective - fields == composed | (effective & set(BROKER_DEFAULT_SETTINGS.settings))
    assert fields - effective == {"layers", "hostname", "listener.values"}


def test_every_default_keeps_its_own_rule_and_every_setting_says_what_it_does() -> None:
    for setting in BROKER_SETTINGS.settings.values():
        assert setting.doc, setting.name
        if setting.default is not None:
            assert setting.parse(as_text(setting.default)) == setting.default


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.hours=1\nklamm.flush=os\n", encoding="utf-8")
    config = BrokerConfig.load(
        file, {"KLAMM_SET_NUM_PARTITIONS": "3", "KLAMM_SET_NODE_ID": "7"}, ["node.id=8"]
    )
    assert (config.num_partitions, config.node_id, config.klamm_flush) == (3, 8, "os")
    assert config.topic_config({}).retention_ms == 3_600_000


def test_kafkas_sample_configuration_is_taken_as_it_is() -> None:
    config = BrokerConfig.from_settings(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "num.network.threads": "3",
            "num.io.threads": "8",
            "socket.send.buffer.bytes": "102400",
            "socket.receive.buffer.bytes": "102400",
            "socket.request.max.bytes": "104857600",
            "log.dirs": "data",
            "num.partitions": "1",
            "num.recovery.threads.per.data.dir": "2",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.retention.hours": "168",
            "log.segment.bytes": "1073741824",
            "log.retention.check.interval.ms": "300000",
        }
    )
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.log_dirs == ("data",)


def test_several_listeners_each_have_their_advertised_address() -> None:
    config = BrokerConfig.from_settings(
        {
            "listeners": "plaintext://127.0.0.1:0, LAN://[::1]:9093",
            "advertised.listeners": "LAN://broker.example:19093,PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "LAN:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
    )
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 0), Listener("LAN", "::1", 9093))
    assert config.advertised_listeners == (
        Listener("LAN", "broker.example", 19093),
        Listener("PLAINTEXT", "127.0.0.1", 0),
    )
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://127.0.0.1:0", "LAN://[::1]:9093"]


def test_a_listener_without_a_host_advertises_this_machines_name() -> None:
    config = BrokerConfig.load(flags=["listeners=PLAINTEXT://:9092"], hostname="box")
    assert config.advertised_listeners == (Listener("PLAINTEXT", "box", 9092),)


@pytest.mark.parametrize(
    ("settings", "name", "advice"),
    [
        ({"listeners": "localhost:9092"}, "listeners", "NAME://host:port"),
        ({"listeners": "PLAINTEXT://localhost:65536"}, "listeners", "NAME://host:port"),
        ({"listeners": "A://h:1,A://h:2"}, "listeners", "twice"),
        ({"listeners": "A://h:1,B://h:1"}, "listeners", "twice"),
        ({"listeners": ""}, "listeners", "not empty"),
        ({"listeners": "C://h:1", "controller.listener.names": "C"}, "listeners", "no client listener"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners", "host name"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners", "host name"),
        ({"advertised.listeners": "PLAINTEXT://:9092"}, "advertised.listeners", "host name"),
        ({"advertised.listeners": "LAN://h:9092"}, "advertised.listeners", "not in listeners"),
        ({"listeners": "LAN://h:9092"}, "listener.security.protocol.map", "add LAN:PLAINTEXT"),
        ({"listener.security.protocol.map": "LAN:TLS"}, "listener.security.protocol.map", "expected one of"),
        ({"listener.name.lan.ssl.client.auth": "none"}, "listener.name.lan.ssl.client.auth", "plaintext"),
        (
            {"listener.name.plaintext.ssl.keystore.lokation": "x"},
            "listener.name.plaintext.ssl.keystore.lokation",
            "did you mean listener.name.plaintext.ssl.keystore.location",
        ),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "security.inter.broker.protocol",
            "both set",
        ),
        ({"security.inter.broker.protocol": "SSL"}, "security.inter.broker.protocol", "no listener has"),
        ({"listener.security.protocol.map": "LAN"}, "listener.security.protocol.map", "LAN:PLAINTEXT"),
        ({"node.id": "1", "broker.id": "2"}, "broker.id", "set only node.id"),
        ({"log.dirs": "a,b,a"}, "log.dirs", "each once"),
        ({"log.dirs": "a,./a"}, "log.dirs", "each once"),
        ({"log.dirs": ""}, "log.dirs", "not empty"),
        ({"log.cleaner.dedupe.buffer.size": "1048576"}, "log.cleaner.dedupe.buffer.size", "above 1048576"),
        (
            {"log.cleaner.dedupe.buffer.size": "4000000", "log.cleaner.threads": "4"},
            "log.cleaner.dedupe.buffer.size",
            "4 cleaner threads",
        ),
        ({"group.min.session.timeout.ms": "1800001"}, "group.min.session.timeout.ms", "lower it"),
        (
            {"group.consumer.session.timeout.ms": "10000"},
            "group.consumer.session.timeout.ms",
            "below group.consumer.min.session.timeout.ms=45000",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "15001"},
            "group.consumer.heartbeat.interval.ms",
            "above group.consumer.max.heartbeat.interval.ms=15000",
        ),
        (
            {"group.consumer.min.assignment.interval.ms": "15001"},
            "group.consumer.min.assignment.interval.ms",
            "above group.consumer.max.assignment.interval.ms=15000",
        ),
        (
            {"group.consumer.min.session.timeout.ms": "1", "group.consumer.session.timeout.ms": "5000"},
            "group.consumer.session.timeout.ms",
            "must be above group.consumer.heartbeat.interval.ms=5000",
        ),
        ({"log.retention.ms": "0"}, "log.retention.ms", "-1 for unlimited"),
        ({"log.cleaner.min.compaction.lag.ms": str(2**62), "log.cleaner.max.compaction.lag.ms": "1"},
         "min.compaction.lag.ms", "at most"),
        ({"transaction.version": "3"}, "transaction.version", "from 0 to 2"),
        ({"klamm.flush": "never"}, "klamm.flush", "commit, os"),
        ({"klamm.decompress.max.bytes": "1000"}, "klamm.decompress.max.bytes", "not below 1048576"),
        ({"ssl.keystore.loc": "x"}, "ssl.keystore.loc", "unknown setting"),
        ({"log.retention.hour": "1"}, "log.retention.hour", "log.retention.hours"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_advice(settings: dict[str, RawValue], name: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice) as refused:
        BrokerConfig.from_settings(settings)
    assert refused.value.name == name


def test_the_older_names_still_work() -> None:
    config = BrokerConfig.from_settings({"broker.id": "5", "log.dir": "old"})
    assert (config.node_id, config.log_dirs) == (5, ("old",))
    assert BrokerConfig.from_settings({"log.dir": "old", "log.dirs": "a,b"}).log_dirs == ("a", "b")
    assert BrokerConfig.from_settings({"broker.id": "5", "node.id": 5}).node_id == 5


def test_settings_made_while_running_win_over_those_of_the_start() -> None:
    config = BrokerConfig.from_settings({"log.retention.ms": "1", "max.connections": "1"})
    changed = config.changed(
        dynamic_default={"log.retention.ms": "2", "max.connections": "2"}, dynamic={"max.connections": "3"}
    )
    assert changed.topic_config({}).retention_ms == 2
    assert changed.topic_config({"retention.ms": "9"}).retention_ms == 9
    assert changed.max_connections == 3
    assert changed.changed(dynamic_default={}, dynamic={}) == config


def test_other_brokers_connect_to_the_first_listener_or_to_the_one_that_is_named() -> None:
    two = {
        "listeners": "OUTSIDE://:9092,INSIDE://:9093",
        "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT",
    }
    assert BrokerConfig.from_settings(two).inter_broker_listener_name == "OUTSIDE"
    named = BrokerConfig.from_settings({**two, "inter.broker.listener.name": "inside"})
    assert named.inter_broker_listener_name == "INSIDE"
    with pytest.raises(ConfigError, match="expected OUTSIDE or INSIDE"):
        BrokerConfig.from_settings({**two, "inter.broker.listener.name": "ELSEWHERE"})


@pytest.mark.parametrize(
    ("assignors", "said"),
    [
        ("uniform,no_such_module:Assignor", "cannot load 'no_such_module:Assignor'"),
        ("uniform,no-such-name", "no-such-name"),
        ("", "must name at least one assignor"),
    ],
)
def test_an_assignor_that_cannot_be_loaded_is_refused_at_the_start(assignors: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        BrokerConfig.from_settings({"group.consumer.assignors": assignors})
    kept = BrokerConfig.from_settings({"group.consumer.assignors": "range,rack"})
    assert kept.group_consumer_assignors == ("range", "rack")
