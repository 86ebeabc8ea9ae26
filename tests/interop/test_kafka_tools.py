"""Kafka's own command-line tools against the broker."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from interop.harness import START_MS, ClientProcess, Record
from interop.kafka_tools import run_kafka_tool
from klamm.testing import wait_until

ClientFactory = Callable[[str], ClientProcess]


def output(done: subprocess.CompletedProcess[str]) -> str:
    """What a tool printed, if it went well."""
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def some_records(count: int) -> list[Record]:
    return [Record(timestamp_ms=START_MS + n, key=b"k%d" % n, value=b"v%d" % n) for n in range(count)]


def test_kafka_topics_creates_lists_describes_grows_and_deletes(bootstrap: str, topic: str) -> None:
    def topics(*arguments: str) -> str:
        return output(run_kafka_tool("TopicCommand", "--bootstrap-server", bootstrap, *arguments))

    create = ("--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=3600000")
    assert topics(*create) == f"Created topic {topic}.\n"
    assert topic in topics("--list").splitlines()

    topics("--alter", "--topic", topic, "--partitions", "3")
    described = topics("--describe", "--topic", topic)
    assert re.search(
        rf"Topic: {topic}\s+TopicId: \S{{22}}\s+PartitionCount: 3\s+ReplicationFactor: 1", described
    )
    assert "retention.ms=3600000" in described
    assert len(re.findall(r"Partition: \d\s+Leader: \d+", described)) == 3

    assert topics("--describe", "--topic", topic, "--under-replicated-partitions").strip() == ""
    topics("--delete", "--topic", topic)
    wait_until(lambda: topic in topics("--list").splitlines(), equals=False)


def test_kafka_topics_says_why_it_cannot_create_a_topic_twice(
    bootstrap: str, client: ClientFactory, topic: str
) -> None:
    client("confluent").create_topic(topic)
    again = run_kafka_tool("TopicCommand", "--bootstrap-server", bootstrap, "--create", "--topic", topic)
    assert again.returncode != 0
    assert "already exists" in again.stdout + again.stderr


def test_kafka_configs_sets_shows_and_removes(bootstrap: str, client: ClientFactory, topic: str) -> None:
    def configs(*arguments: str) -> str:
        entity = ("--entity-type", "topics", "--entity-name", topic)
        command = ("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap)
        return output(run_kafka_tool(*command, *arguments, *entity))

    client("confluent").create_topic(topic)
    configs("--alter", "--add-config", "segment.bytes=2097152,cleanup.policy=[compact,delete]")
    described = configs("--describe")
    assert "segment.bytes=2097152" in described
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=2097152" in described
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in described
    assert "cleanup.policy=compact,delete" in described

    configs("--alter", "--delete-config", "segment.bytes")
    assert "segment.bytes=2097152" not in configs("--describe")
    assert "retention.ms=604800000" in configs("--describe", "--all")


def test_kafka_configs_shows_the_brokers_own_settings(bootstrap: str) -> None:
    command = ("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--describe", "--all")
    described = output(run_kafka_tool(*command, "--entity-type", "brokers", "--entity-name", "1"))
    assert "log.retention.check.interval.ms=300000" in described
    assert "message.max.bytes=1048588" in described


def test_kafka_client_metrics_lists_what_was_set(bootstrap: str) -> None:
    def metrics(*arguments: str) -> str:
        return output(run_kafka_tool("ClientMetricsCommand", "--bootstrap-server", bootstrap, *arguments))

    metrics("--alter", "--name", "listed", "--interval", "5000")
    assert "listed" in metrics("--list").split()
    metrics("--delete", "--name", "listed")
    assert "listed" not in metrics("--list").split()


def test_kafka_reassign_partitions_limits_a_move_and_lifts_the_limit(
    bootstrap: str, client: ClientFactory, topic: str, tmp_path: Path
) -> None:
    client("confluent").create_topic(topic, partitions=2)
    broker = ("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--entity-type", "brokers")
    described = output(run_kafka_tool(*broker, "--describe"))
    broker_ids = sorted(set(re.findall(r"for broker (\d+) are", described)))
    broker_id = broker_ids[0]
    moves = [{"topic": topic, "partition": index, "replicas": [int(broker_id)]} for index in range(2)]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}), encoding="utf-8")

    def reassign(*arguments: str) -> str:
        command = ("reassign.ReassignPartitionsCommand", "--bootstrap-server", bootstrap)
        return output(run_kafka_tool(*command, "--reassignment-json-file", str(plan), *arguments))

    said = reassign("--execute", "--throttle", "1000000")
    assert "The inter-broker throttle limit was set to 1000000 B/s" in said
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in said
    described = output(run_kafka_tool(*broker, "--describe", "--entity-name", broker_id))
    assert "leader.replication.throttled.rate=1000000" in described
    assert "follower.replication.throttled.rate=1000000" in described

    which = f"broker {broker_id}" if len(broker_ids) == 1 else f"brokers {','.join(broker_ids)}"
    assert f"Clearing broker-level throttles on {which}" in reassign("--verify")
    assert "throttled.rate" not in output(run_kafka_tool(*broker, "--describe", "--entity-name", broker_id))


def test_the_console_producer_and_consumer_agree(bootstrap: str, client: ClientFactory, topic: str) -> None:
    client("confluent").create_topic(topic)
    output(
        run_kafka_tool(
            "ConsoleProducer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", "zstd"),
            *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
            stdin="one:eins\ntwo:zwei\nthree:drei\n",
        )
    )
    consumed = output(
        run_kafka_tool(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "1"),
            *("--max-messages", "2", "--timeout-ms", "20000"),
            *("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true"),
        )
    )
    assert consumed.splitlines() == ["Offset:1\ttwo\tzwei", "Offset:2\tthree\tdrei"]


def test_kafka_get_offsets_knows_every_special_time(
    bootstrap: str, client: ClientFactory, topic: str
) -> None:
    def offsets(at: str) -> list[str]:
        command = ("GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", topic, "--time", at)
        done = run_kafka_tool(*command)
        assert "Skip getting offsets" not in done.stdout + done.stderr
        return output(done).splitlines()

    client("confluent").create_topic(topic, 2)
    client("confluent").produce(topic, some_records(5), partition=1)
    client("confluent").ask("delete_records", topic=topic, partition=1, before=2)
    assert offsets("latest") == [f"{topic}:0:0", f"{topic}:1:5"]
    assert offsets("earliest") == [f"{topic}:0:0", f"{topic}:1:2"]
    assert f"{topic}:1:4" in offsets("max-timestamp")
    assert f"{topic}:1:3" in offsets(str(START_MS + 3))
    assert offsets("earliest-local") == [f"{topic}:0:0", f"{topic}:1:2"]
    assert offsets("-6") == []  # nothing waits to be moved to tiered storage


def test_kafka_delete_records_moves_the_start(
    bootstrap: str, client: ClientFactory, topic: str, tmp_path: Path
) -> None:
    client("confluent").create_topic(topic)
    client("confluent").produce(topic, some_records(5))
    wanted = tmp_path / "offsets.json"
    partition = {"topic": topic, "partition": 0, "offset": 3}
    wanted.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    command = ("DeleteRecordsCommand", "--bootstrap-server", bootstrap, "--offset-json-file", str(wanted))
    assert f"partition: {topic}-0\tlow_watermark: 3" in output(run_kafka_tool(*command))
    assert client("confluent").offset_at(topic, "earliest") == 3


def test_kafka_log_dirs_tells_sizes(bootstrap: str, client: ClientFactory, topic: str) -> None:
    client("confluent").create_topic(topic, 2)
    client("confluent").produce(topic, some_records(5))
    command = ("LogDirsCommand", "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic)
    sizes: dict[str, int] = {}
    for broker in json.loads(output(run_kafka_tool(*command)).splitlines()[-1])["brokers"]:
        (folder,) = broker["logDirs"]
        assert folder["error"] is None
        # Each partition is in one folder: the topic has one replica.
        listed = {partition["partition"]: partition["size"] for partition in folder["partitions"]}
        assert not listed.keys() & sizes.keys()
        sizes |= listed
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] > 61
    assert sizes[f"{topic}-1"] == 0


def test_kafka_broker_api_versions_can_use_what_we_offer(bootstrap: str) -> None:
    offered = output(run_kafka_tool("BrokerApiVersionsCommand", "--bootstrap-server", bootstrap))
    for api in (
        "Produce(0)",
        "Fetch(1)",
        "ListOffsets(2)",
        "Metadata(3)",
        "ApiVersions(18)",
        "InitProducerId(22)",
    ):
        assert re.search(rf"{re.escape(api)}: \d+ to \d+ \[usable: \d+\]", offered), api


def test_kafka_producer_perf_delivers_every_record(bootstrap: str, client: ClientFactory, topic: str) -> None:
    client("confluent").create_topic(topic, 3)
    done = run_kafka_tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "20000", "--record-size", "200", "--throughput", "-1"),
        *("--bootstrap-server", bootstrap, "--command-property", "acks=all"),
    )
    assert "20000 records sent" in output(done)
    assert sum(client("confluent").offset_at(topic, "latest", partition=p) for p in range(3)) == 20_000
