"""How far groups are behind: in records, in seconds, and at what cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.metrics import lag
from klamm.broker.metrics.metrics import Metrics
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.testing.requests import a_batch, a_produce

PARTITIONS = 3
SAMPLE = re.compile(
    r"kafka_consumergroup_(\w+)\{consumergroup=\"g\"(?:,topic=\"t\")?(?:,partition=\"(\d)\")?\} (.+)"
)


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar({"offsets.topic.num.partitions": "1"})
    jar.create_topic("t", partitions=PARTITIONS)
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    client = jar.connect()
    client.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest("g", 0))
    jar.pass_ms(10)
    return client


@pytest.fixture
def metrics(jar: Jar) -> Metrics:
    return jar.broker.measure()


def produce(jar: Jar, client: JarClient, count: int, partition: int = 0) -> None:
    batch = a_batch(jar, count=count)
    answer = client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batch, partition=partition))
    assert answer.responses[0].partition_responses[0].error_code == 0


def commit(client: JarClient, group_id: str = "g", metadata: str = "", **offsets: int) -> None:
    """Commit for group g: `commit(client, p0=5)`."""
    rows = [OffsetCommitRequestPartition(int(key[1:]), value, -1, metadata) for key, value in offsets.items()]
    request = OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(bytes(16), "t", rows)])
    answer = client.ask(ApiKey.OFFSET_COMMIT, 7, request)
    assert {item.error_code for item in answer.topics[0].partitions} == {0}


def found(metrics: Metrics) -> dict[str, float]:
    """The samples of group g, as `lag 0` for partition 0 and `lag_sum` for all."""
    page = "".join(metrics.page())
    # Requests take a millisecond or two of virtual time: seconds are rounded.
    return {
        f"{name} {partition}".strip(): round(float(value), 1) for name, partition, value in _matches(page)
    }


def _matches(page: str) -> Iterator[tuple[str, str, str]]:
    for match in SAMPLE.finditer(page):
        yield match[1], match[2] or "", match[3]


def test_a_group_is_behind_by_records_and_by_the_age_of_the_first_unread_one(
    jar: Jar, client: JarClient, metrics: Metrics
) -> None:
    produce(jar, client, 4)
    jar.pass_ms(10_000)
    produce(jar, client, 3)
    produce(jar, client, 2, partition=1)
    jar.pass_ms(5_000)
    commit(client, p0=4, p1=2)
    assert found(metrics) == {
        "current_offset 0": 4,
        "current_offset 1": 2,
        "lag 0": 3,
        "lag 1": 0,
        "lag_sum": 3,
        "lag_seconds 0": 5.0,
        "lag_seconds 1": 0,
        "max_lag_seconds": 5.0,
        "members": 0,
    }
    # Inside a batch its timestamp counts
    commit(client, p0=2)
    assert found(metrics)["lag_seconds 0"] == 15.0
    commit(client, p0=7)
    assert (found(metrics)["lag 0"], found(metrics)["max_lag_seconds"]) == (0, 0)


def test_ends_and_starts_of_partitions_have_the_names_of_kafka_exporter(
    jar: Jar, client: JarClient, metrics: Metrics
) -> None:
    produce(jar, client, 4)
    page = "".join(metrics.page())
    assert 'kafka_topic_partition_current_offset{topic="t",partition="0"} 4\n' in page
    assert 'kafka_topic_partition_oldest_offset{topic="t",partition="0"} 0\n' in page
    assert f'kafka_topic_partitions{{topic="t"}} {PARTITIONS}\n' in page


def test_a_group_that_does_not_move_is_looked_up_once(
    jar: Jar, client: JarClient, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[int] = []
    real = lag._timestamp_of

    def counted(row: lag._Row) -> int | None:
        looked_up.append(row.first_unread)
        return real(row)

    monkeypatch.setattr(lag, "_timestamp_of", counted)
    produce(jar, client, 4)
    produce(jar, client, 4)
    commit(client, p0=0)
    for _ in range(3):
        jar.pass_ms(1_000)
        found(metrics)
    commit(client, p0=4)
    assert found(metrics)["lag_seconds 0"] == 3.0
    assert looked_up == [0, 4]


def test_a_page_makes_a_limited_number_of_lookups_and_all_get_their_turn(
    jar: Jar, client: JarClient, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "MAX_LOOKUPS", 1)
    for number in range(PARTITIONS):
        produce(jar, client, 1, partition=number)
    commit(client, p0=0, p1=0, p2=0)
    jar.pass_ms(1_000)
    shown = [sum(name.startswith("lag_seconds") for name in found(metrics)) for _ in range(PARTITIONS)]
    assert shown == [1, 2, 3]
    assert found(metrics)["max_lag_seconds"] == 1.0


def test_a_partition_that_waits_for_its_turn_shows_no_less_than_its_lag(
    jar: Jar, client: JarClient, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        produce(jar, client, 1, partition=number)
    commit(client, p0=0, p1=0)
    found(metrics)
    jar.pass_ms(8_000)
    for number in range(2):
        produce(jar, client, 2, partition=number)
    commit(client, p0=1, p1=1)
    monkeypatch.setattr(lag, "MAX_LOOKUPS", 1)
    jar.pass_ms(1_000)
    page = found(metrics)
    assert sorted((page["lag_seconds 0"], page["lag_seconds 1"])) == [1.0, 9.0]
    page = found(metrics)
    assert (page["lag_seconds 0"], page["lag_seconds 1"]) == (1.0, 1.0)


WITHOUT = "klamm_consumergroup_partitions_without_lag"


def without_lag(metrics: Metrics) -> dict[str, int]:
    """The number of partitions of topic t in which the lag of group g is not known, by reason."""
    shape = re.compile(WITHOUT + r'\{consumergroup="g",topic="t",reason="(\w+)"\} (\d+)')
    return {reason: int(count) for reason, count in shape.findall("".join(metrics.page()))}


def join(jar: Jar, client: JarClient) -> None:
    """A member of group g that is subscribed to topic t."""

    def request(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", bytes.fromhex("000000000001000174ffffffff"))],
        )

    member_id = ""
    for _ in range(2):  # the first one gives the id
        client.send(ApiKey.JOIN_GROUP, 9, request(member_id))
        jar.pass_ms(4_000)
        answer: Any = client.new_answers()[0]
        member_id = answer.member_id
    assert answer.error_code == 0


def test_partitions_of_a_subscribed_topic_without_a_commit_have_no_lag(
    jar: Jar, client: JarClient, metrics: Metrics
) -> None:
    produce(jar, client, 2)
    produce(jar, client, 2, partition=1)
    commit(client, p0=2)
    join(jar, client)
    page = found(metrics)
    assert without_lag(metrics) == {"nothing_committed": 1}  # partition 2 is empty: nothing is unread there
    assert page["lag 0"] == 0
    assert "lag_sum" not in page
    assert "max_lag_seconds" not in page


def test_partitions_without_a_commit_count_when_the_members_are_gone(
    jar: Jar, client: JarClient, metrics: Metrics
) -> None:
    produce(jar, client, 2)
    produce(jar, client, 2, partition=1)
    commit(client, p0=2)
    join(jar, client)
    jar.pass_ms(60_000)
    page = found(metrics)
    assert page["members"] == 0
    assert without_lag(metrics) == {"nothing_committed": 1}
    assert "lag_sum" not in page


def test_a_commit_outside_of_the_log_has_no_lag(jar: Jar, client: JarClient, metrics: Metrics) -> None:
    for number in range(PARTITIONS):
        produce(jar, client, 2, partition=number)
    commit(client, p0=0, p1=50, p2=1)
    partition = jar.services.partitions.get("t", 0)
    assert partition is not None
    partition.retention.delete_records(2)
    jar.pass_ms(1_000)
    page = found(metrics)
    assert without_lag(metrics) == {"before_start": 1, "beyond_end": 1}
    assert {name for name in page if name.startswith("lag")} == {"lag 2", "lag_seconds 2"}
    assert page["max_lag_seconds"] == 1.0  # it is at least that


def test_what_an_exactly_once_sink_stores_is_no_lag(jar: Jar, client: JarClient, metrics: Metrics) -> None:
    produce(jar, client, 5)
    commit(client, "query.sink", "v1;query", p0=1)
    page = "".join(metrics.page())
    assert 'kafka_consumergroup_members{consumergroup="query.sink"} 0' in page
    assert not re.search(r"(lag|offset)[a-z_]*\{[^}]*query\.sink", page)
    commit(client, "other.sink", p0=1)  # a group that only has such a name
    assert re.search(r'group_lag\{consumergroup="other\.sink"[^}]*\} 4', "".join(metrics.page()))


def test_a_deleted_topic_leaves_the_page(jar: Jar, client: JarClient, metrics: Metrics) -> None:
    produce(jar, client, 2)
    commit(client, p0=0)
    assert found(metrics)["lag 0"] == 2
    jar.delete_topic("t")
    jar.pass_ms(100)
    assert not [name for name in found(metrics) if name.startswith("lag")]


def test_a_topic_made_anew_is_looked_up_anew(jar: Jar, client: JarClient, metrics: Metrics) -> None:
    produce(jar, client, 2)
    commit(client, p0=0)
    found(metrics)
    jar.delete_topic("t")
    jar.pass_ms(60_000)
    jar.create_topic("t", partitions=1)
    produce(jar, client, 2)
    commit(client, p0=0)
    jar.pass_ms(1_000)
    assert found(metrics)["lag_seconds 0"] == 1.0


def verdicts(metrics: Metrics) -> list[str]:
    """What the page says is wrong with group g."""
    shape = r'^klamm_consumergroup_verdict\{consumergroup="g",verdict="([^"]+)"\} 1$'
    return re.findall(shape, "".join(metrics.page()), re.MULTILINE)


def test_a_group_that_nobody_reads_for_has_that_verdict_once_its_last_commit_is_old(
    jar: Jar, client: JarClient, metrics: Metrics
) -> None:
    produce(jar, client, 2)
    commit(client, p0=1)
    assert verdicts(metrics) == []  # a program that commits without joining works like this
    jar.pass_ms(60_001)
    assert verdicts(metrics) == ["nobody reads"]
    commit(client, p0=2)
    assert verdicts(metrics) == []


def test_an_offset_that_the_log_does_not_have_is_a_verdict(
    jar: Jar, client: JarClient, metrics: Metrics
) -> None:
    commit(client, p0=50)
    assert verdicts(metrics) == ["offset out of range"]


def test_a_group_that_rebalances_says_so_and_counts_what_is_parked_until_when(
    jar: Jar, client: JarClient, metrics: Metrics
) -> None:
    join(jar, client)  # its leader has not sent an assignment yet
    page = "".join(metrics.page())
    assert verdicts(metrics) == ["rebalance under way"]
    purgatory = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert f'{purgatory}{{delayedOperation="Rebalance"}} 1\n' in page
    assert f'{purgatory}{{delayedOperation="Heartbeat"}} 1\n' in page
    assert 'klamm_group_parked_requests{request="JoinGroup"} 0\n' in page
    left = re.search(r'klamm_group_rebalance_deadline_seconds\{consumergroup="g"\} (.+)', page)
    assert left is not None
    assert 0 < float(left[1]) <= 60


def test_a_join_that_waits_for_another_member_is_counted(
    jar: Jar, client: JarClient, metrics: Metrics
) -> None:
    join(jar, client)
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", bytes.fromhex("000000000001000174ffffffff"))],
    )
    jar.connect().send(ApiKey.JOIN_GROUP, 3, request)  # a version that is not asked for an id first
    jar.pass_ms(10)
    assert 'klamm_group_parked_requests{request="JoinGroup"} 1\n' in "".join(metrics.page())
