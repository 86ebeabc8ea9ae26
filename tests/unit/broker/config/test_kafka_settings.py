"""Broker settings beside those that DescribeConfigs of an Apache Kafka 4.3.1 broker lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.broker.config.settings import BROKER_SETTINGS
from klamm.config import as_text

# Parts of Kafka that klamm does not have; the page on differences names them.
ABSENT = (
    "delegation.", "early.start.", "principal.", "sasl.client.", "sasl.kerberos.",
    "sasl.login.", "sasl.mechanism.controller.", "sasl.oauthbearer.assertion.",
    "sasl.oauthbearer.jwks.endpoint.retry.", "sasl.oauthbearer.jwt.",
    "security.providers", "ssl.allow.", "ssl.engine.", "ssl.keymanager.", "ssl.protocol", "ssl.provider",
    "ssl.secure.", "ssl.trustmanager.",
    "follower.fetch.last.tiered.", "remote.",
    "group.coordinator.rebalance.", "group.share.", "group.streams.", "share.",
    "alter.config.policy.", "client.quota.callback.", "config.providers", "cordoned.", "create.topic.policy.",
    "kafka.metrics.", "metric.reporters",
    "replica.selector.", "telemetry.",
)  # fmt: skip
ANOTHER_DEFAULT = {
    "log.dir", "broker.heartbeat.interval.ms", "leader.imbalance.check.interval.seconds",
    "group.consumer.assignment.interval.ms",
    "sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol", "security.inter.broker.protocol",
    "ssl.keystore.type", "ssl.truststore.type",
}  # fmt: skip
NOT_WHILE_RUNNING = {
    "listeners", "listener.security.protocol.map", "sasl.enabled.mechanisms", "sasl.jaas.config",
    "sasl.mechanism.inter.broker.protocol",
}  # fmt: skip


def kafkas() -> dict[str, tuple[int, str, bool]]:
    """Type, default and whether it is read-only; "(set)" where it was not left at its default."""
    found = {}
    text = (Path(__file__).parent / "kafka_broker_settings.tsv").read_text(encoding="utf-8")
    for row in text.splitlines():
        if not row.startswith("#"):
            name, kind, default, read_only = row.split("\t")
            found[name] = int(kind), default, read_only == "1"
    return found


KAFKAS = kafkas()


def test_every_setting_of_kafka_is_here_or_belongs_to_a_part_that_is_absent() -> None:
    missing = set(KAFKAS) - set(BROKER_SETTINGS.settings)
    assert {name for name in missing if not name.startswith(ABSENT)} == set()
    assert {name for name in BROKER_SETTINGS.settings if name.startswith(ABSENT)} == set()


@pytest.mark.parametrize("name", sorted(set(KAFKAS) & set(BROKER_SETTINGS.settings)))
def test_a_setting_of_kafka_has_its_type_its_default_and_its_flag(name: str) -> None:
    kind, default, is_read_only = KAFKAS[name]
    ours = BROKER_SETTINGS.settings[name]
    assert ours.kind == kind
    assert ours.dynamic is not is_read_only or name in NOT_WHILE_RUNNING
    if default != "(set)" and name not in ANOTHER_DEFAULT:
        assert ("(null)" if ours.default is None else as_text(ours.default)) == default
