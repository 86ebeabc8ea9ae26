"""Produce: which batch is refused why, what is stored, and when the answer comes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from internals.jar import Jar, JarClient
from klamm.broker.partitions.registry import Partition
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.protocol.messages.produce import PartitionProduceResponse
from klamm.protocol.types import Buffer
from klamm.records.batch import crc_is_valid, parse_header, reseal
from klamm.records.compression import Codec
from klamm.records.record import Record, decode_records, encode_batch
from klamm.storage.cluster import BrokerRegistration, LeaderChange
from klamm.testing.requests import a_batch, a_produce

HOUR_MS = 3_600_000


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar()
    jar.create_topic("t")
    yield jar
    jar.close()


@pytest.fixture
def client(jar: Jar) -> JarClient:
    return jar.connect()


def produce(client: JarClient, request: Any, version: int = 9) -> list[PartitionProduceResponse]:
    """The answers of all partitions, in order."""
    response = client.ask(ApiKey.PRODUCE, version, request)
    return [partition for topic in response.responses for partition in topic.partition_responses]


def produce_one(client: JarClient, request: Any, version: int = 9) -> PartitionProduceResponse:
    (answer,) = produce(client, request, version)
    return answer


def partition_of(jar: Jar, topic: str = "t") -> Partition:
    partition = jar.services.partitions.get(topic, 0)
    assert partition is not None
    return partition


def stored(jar: Jar, topic: str = "t", offset: int = 0) -> bytes:
    log = partition_of(jar, topic).log
    return log.read(offset, until_offset=log.log_end_offset, max_bytes=10**9, at_least_one=True)


def changed(batch: bytes, at: int, layout: str, value: int, *, seal: bool = True) -> bytes:
    """A batch with one field of its header overwritten."""
    out = bytearray(batch)
    struct.pack_into(">" + layout, out, at, value)
    if seal:
        reseal(out)
    return bytes(out)


@pytest.mark.parametrize("version", range(3, 13))
def test_a_batch_is_stored_as_it_came_but_for_its_place(jar: Jar, client: JarClient, version: int) -> None:
    batch = a_batch(jar, count=3, codec=Codec.LZ4)
    answer = produce_one(client, a_produce(jar, batch), version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 0, -1)
    answer = produce_one(client, a_produce(jar, batch), version)
    assert (answer.error_code, answer.base_offset) == (0, 3)
    header = parse_header(stored(jar, offset=3))
    assert (header.base_offset, header.leader_epoch) == (3, 0)
    assert stored(jar, offset=3)[16:] == batch[16:]


def test_topics_go_by_id_from_version_13_on(jar: Jar, client: JarClient) -> None:
    topic_id = jar.create_topic("u")
    response = client.ask(ApiKey.PRODUCE, 13, a_produce(jar, topic="", topic_id=topic_id))
    (topic,) = response.responses
    assert topic.topic_id == topic_id
    assert topic.partition_responses[0].error_code == 0
    assert partition_of(jar, "u").log.log_end_offset == 1
    answer = produce_one(client, a_produce(jar, topic="", topic_id=bytes(15) + b"\7"), 13)
    assert answer.error_code == ErrorCode.unknown_topic_id


def test_acks_other_than_minus_1_0_and_1_are_refused_where_nothing_worse_is(
    jar: Jar, client: JarClient
) -> None:
    batch = a_batch(jar)
    answers = produce(client, a_produce(jar, acks=2, batches={("t", 0): batch, ("u", 0): batch}))
    assert [answer.error_code for answer in answers] == [21, 3]
    assert partition_of(jar).log.log_end_offset == 0


def test_one_bad_partition_does_not_harm_the_others(jar: Jar, client: JarClient) -> None:
    batch = a_batch(jar)
    answers = produce(client, a_produce(jar, batches={("u", 0): batch, ("t", 0): batch, ("t", 1): batch}))
    assert [answer.error_code for answer in answers] == [3, 0, 3]
    assert [answer.base_offset for answer in answers] == [-1, 0, -1]


def test_a_partition_named_twice_gets_nothing(jar: Jar, client: JarClient) -> None:
    request = a_produce(jar)
    request.topic_data = [*request.topic_data, *request.topic_data]
    assert [answer.error_code for answer in produce(client, request)] == [42]
    assert partition_of(jar).log.log_end_offset == 0


def old_message(jar: Jar) -> bytes:
    return struct.pack(">qiIbbii", 0, 14 + 5, 0, 1, 0, -1, 5) + b"value"


def with_region(batch: bytes, count: int) -> bytes:
    """A batch whose header counts so many records, whatever it holds."""
    return changed(changed(batch, 23, "i", count - 1), 57, "i", count)


BAD_SHAPES: dict[str, tuple[Callable[[Jar], bytes | None], int]] = {
    "null": (lambda jar: None, 87),
    "empty": (lambda jar: b"", 87),
    "60 bytes": (lambda jar: a_batch(jar)[:60], 87),
    "cut": (lambda jar: a_batch(jar)[:-1], 87),
    "two batches": (lambda jar: a_batch(jar) * 2, 87),
    "a tail that is no batch": (lambda jar: a_batch(jar) + bytes(12), 2),
    "length 5": (lambda jar: changed(a_batch(jar), 8, "i", 5), 2),
    "magic 9": (lambda jar: changed(a_batch(jar), 16, "b", 9), 2),
    "magic 1": (old_message, 87),
    "a flipped bit": (lambda jar: a_batch(jar)[:-1] + b"\xff", 2),
    "base offset 5": (lambda jar: changed(a_batch(jar), 0, "q", 5), 87),
    "count 3 with delta 1": (lambda jar: changed(a_batch(jar, count=2), 57, "i", 3), 87),
    "count 0": (lambda jar: changed(a_batch(jar), 57, "i", 0), 87),
    "delta -1": (lambda jar: changed(a_batch(jar), 23, "i", -1), 87),
    "control": (lambda jar: changed(a_batch(jar), 21, "h", 0x20), 87),
    "id without sequence": (lambda jar: changed(a_batch(jar), 43, "q", 5), 87),
    "codec 6": (lambda jar: changed(a_batch(jar), 21, "h", 6), 76),
    "append time, and none": (lambda jar: changed(a_batch(jar, timestamps_ms=[-1]), 21, "h", 8), 32),
    "more records than are counted": (lambda jar: with_region(a_batch(jar, count=2), 1), 87),
    "fewer records than are counted": (lambda jar: with_region(a_batch(jar, count=2), 3), 87),
    "no record": (lambda jar: changed(a_batch(jar), 61, "b", 1), 87),
}
LOOKED_AT = {
    "codec 6",
    "base offset 5",
    "count 3 with delta 1",
    "count 0",
    "delta -1",
    "control",
    "id without sequence",
    "append time, and none",
    "more records than are counted",
    "fewer records than are counted",
    "no record",
}


@pytest.mark.parametrize("shape", BAD_SHAPES)
def test_what_is_no_good_batch_is_refused(jar: Jar, client: JarClient, shape: str) -> None:
    # scenarios 14, 15 of transactions
    make, error_code = BAD_SHAPES[shape]
    records = make(jar)
    answer = produce_one(client, a_produce(jar, batches={("t", 0): records}))
    assert answer.error_code == error_code
    assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
    # The log start is told by a log that looked at the batch and found it whole.
    was_looked_at = shape in LOOKED_AT
    assert answer.log_start_offset == (0 if was_looked_at else -1)
    assert partition_of(jar).log.log_end_offset == 0


def test_the_leader_epoch_is_outside_the_checksum(jar: Jar, client: JarClient) -> None:
    assert produce_one(client, a_produce(jar, changed(a_batch(jar), 12, "i", 77, seal=False))).error_code == 0


def test_zstd_needs_a_version_that_knows_it(jar: Jar, client: JarClient) -> None:
    batch = a_batch(jar, codec=Codec.ZSTD)
    assert produce_one(client, a_produce(jar, batch), 6).error_code == 76
    assert produce_one(client, a_produce(jar, batch), 7).error_code == 0


def test_a_batch_may_be_as_large_as_its_topic_says_and_no_larger(jar: Jar, client: JarClient) -> None:
    batch = a_batch(jar, value=bytes(3000))
    jar.create_topic("exact", max_message_bytes=len(batch))
    jar.create_topic("small", max_message_bytes=len(batch) - 1)
    jar.create_topic("segment", segment_bytes=len(batch) - 1)
    assert produce_one(client, a_produce(jar, batch, topic="exact")).error_code == 0
    assert produce_one(client, a_produce(jar, batch, topic="small")).error_code == 10
    assert produce_one(client, a_produce(jar, batch, topic="segment")).error_code == 18


def with_keys(jar: Jar, *keys: bytes | None) -> bytes:
    from klamm.records.record import Record, encode_batch

    now_ms = jar.clock.timestamp_ms()
    return encode_batch([Record(index, now_ms, key, b"v") for index, key in enumerate(keys)])


def test_records_of_a_compacted_topic_need_keys_and_those_without_are_named(
    jar: Jar, client: JarClient
) -> None:
    jar.create_topic("c", cleanup_policy="compact")
    answer = produce_one(client, a_produce(jar, with_keys(jar, b"a", None, None), topic="c"))
    assert answer.error_code == 87
    assert [each.batch_index for each in answer.record_errors] == [1, 2]
    assert all(each.batch_index_error_message for each in answer.record_errors)
    assert answer.error_message
    assert answer.log_start_offset == 0
    assert produce_one(client, a_produce(jar, with_keys(jar, b"a"), topic="c")).error_code == 0


@pytest.mark.parametrize(("ahead_ms", "error_code"), [(2 * HOUR_MS, 32), (HOUR_MS - 60_000, 0), (HOUR_MS, 0)])
def test_a_timestamp_may_be_an_hour_ahead(
    jar: Jar, client: JarClient, ahead_ms: int, error_code: int
) -> None:
    now_ms = jar.clock.timestamp_ms()
    answer = produce_one(client, a_produce(jar, a_batch(jar, timestamps_ms=[now_ms, now_ms + ahead_ms])))
    assert answer.error_code == error_code
    assert [each.batch_index for each in answer.record_errors] == ([1] if error_code else [])


def test_no_timestamp_is_never_out_of_range(jar: Jar, client: JarClient) -> None:
    jar.create_topic("b", message_timestamp_before_max_ms=1000)
    assert produce_one(client, a_produce(jar, a_batch(jar, timestamps_ms=[-1]))).error_code == 0
    assert produce_one(client, a_produce(jar, a_batch(jar, timestamps_ms=[-1]), topic="b")).error_code == 0


def test_an_old_timestamp_is_refused_where_the_topic_bounds_it(jar: Jar, client: JarClient) -> None:
    jar.create_topic("b", message_timestamp_before_max_ms=1000)
    now_ms = jar.clock.timestamp_ms()
    batch = a_batch(jar, timestamps_ms=[now_ms - 2000, now_ms])
    answer = produce_one(client, a_produce(jar, batch, topic="b"))
    assert answer.error_code == 32
    assert [each.batch_index for each in answer.record_errors] == [0]
    assert produce_one(client, a_produce(jar, batch)).error_code == 0


def test_a_wrong_timestamp_beats_a_missing_key_of_another_record(jar: Jar, client: JarClient) -> None:
    jar.create_topic("c", cleanup_policy="compact")
    now_ms = jar.clock.timestamp_ms()
    records = [Record(0, now_ms, None, b"v"), Record(1, now_ms + 2 * HOUR_MS, b"k", b"v")]
    answer = produce_one(client, a_produce(jar, encode_batch(records), topic="c"))
    assert answer.error_code == 32
    assert [each.batch_index for each in answer.record_errors] == [0, 1]


def test_a_topic_on_append_time_gives_all_records_of_a_batch_one_time(jar: Jar, client: JarClient) -> None:
    jar.create_topic("l", message_timestamp_type="LogAppendTime")
    batch = a_batch(jar, timestamps_ms=[5, 9])
    answer = produce_one(client, a_produce(jar, batch, topic="l"))
    now_ms = answer.log_append_time_ms
    assert jar.clock.timestamp_ms() - 2 <= now_ms <= jar.clock.timestamp_ms()
    written = stored(jar, "l")
    header = parse_header(written)
    assert crc_is_valid(written, 0, header)
    assert header.base_timestamp_ms == 5
    assert [record.timestamp_ms for record in decode_records(written)] == [now_ms, now_ms]


@pytest.mark.parametrize(("validation", "error_code"), [("records", 87), ("header", 0)])
def test_a_false_count_of_compressed_records_is_found_out_only_by_who_looks(
    validation: str, error_code: int
) -> None:
    jar = Jar({"klamm.record.validation": validation})
    jar.create_topic("t")
    batch = with_region(a_batch(jar, count=2, codec=Codec.LZ4), 3)
    assert produce_one(jar.connect(), a_produce(jar, batch)).error_code == error_code
    jar.close()


@pytest.mark.parametrize(("timestamps_ms", "claimed_ms"), [([-1, -1], 0), ([-1, 7], 9), ([9, 7], 0)])
def test_a_header_whose_times_cannot_be_true_is_not_believed(
    jar: Jar, client: JarClient, timestamps_ms: list[int], claimed_ms: int
) -> None:
    batch = changed(a_batch(jar, timestamps_ms=timestamps_ms), 35, "q", claimed_ms)
    assert produce_one(client, a_produce(jar, batch)).error_code == 0
    written = stored(jar)
    header = parse_header(written)
    assert crc_is_valid(written, 0, header)
    assert header.max_timestamp_ms == max(timestamps_ms)


@pytest.mark.parametrize(("validation", "codec"), [("records", Codec.LZ4), ("header", Codec.NONE)])
@pytest.mark.parametrize("ahead_ms", [-77, 77])
def test_a_false_max_timestamp_is_corrected_by_who_looks(
    validation: str, codec: Codec, ahead_ms: int
) -> None:
    jar = Jar({"klamm.record.validation": validation})
    jar.create_topic("t")
    now_ms = jar.clock.timestamp_ms()
    batch = a_batch(jar, timestamps_ms=[now_ms, now_ms - 5], codec=codec)
    batch = changed(batch, 35, "q", now_ms + ahead_ms)
    assert produce_one(jar.connect(), a_produce(jar, batch)).error_code == 0
    header = parse_header(stored(jar))
    assert header.max_timestamp_ms == now_ms
    assert crc_is_valid(stored(jar), 0, header)
    jar.close()


def test_a_late_record_is_found_behind_an_early_header(jar: Jar, client: JarClient) -> None:
    now_ms = jar.clock.timestamp_ms()
    batch = changed(a_batch(jar, timestamps_ms=[now_ms, now_ms + 2 * HOUR_MS]), 35, "q", now_ms)
    answer = produce_one(client, a_produce(jar, batch))
    assert answer.error_code == 32
    assert [each.batch_index for each in answer.record_errors] == [1]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_that_says_when_it_was_appended_gets_its_own_times_back(
    jar: Jar, client: JarClient, codec: Codec
) -> None:
    jar.create_topic("l", message_timestamp_type="LogAppendTime")
    plain = a_batch(jar, timestamps_ms=[5, 9], codec=codec)
    batch = changed(plain, 21, "h", codec | 8)
    assert produce_one(client, a_produce(jar, batch)).error_code == 0
    assert stored(jar)[16:] == plain[16:]
    assert produce_one(client, a_produce(jar, batch, topic="l")).error_code == 32


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_times_before_1970_leave_a_batch_without_a_latest_one(
    jar: Jar, client: JarClient, codec: Codec
) -> None:
    assert (
        produce_one(client, a_produce(jar, a_batch(jar, timestamps_ms=[-9, -5], codec=codec))).error_code == 0
    )
    header = parse_header(stored(jar))
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (-9, -1)


def test_part_of_another_batch_is_not_stored(jar: Jar, client: JarClient) -> None:
    batch = a_batch(jar)
    assert produce_one(client, a_produce(jar, batch + batch[:-1])).error_code == 0
    assert len(stored(jar)) == len(batch)


def test_records_out_of_their_places_are_stored_as_they_are_only_if_they_are_not_compressed(
    jar: Jar, client: JarClient
) -> None:
    jar.create_topic("g", compression_type="gzip")
    batch = bytearray(a_batch(jar))
    batch[64] = 2  # the place of the first record
    reseal(batch)
    assert produce_one(client, a_produce(jar, bytes(batch))).error_code == 0
    assert stored(jar)[16:] == batch[16:]
    assert produce_one(client, a_produce(jar, bytes(batch), topic="g")).error_code == 87


def test_a_decompression_bomb_is_refused(jar: Jar, client: JarClient) -> None:
    jar.create_topic("c", cleanup_policy="compact")
    bomb = a_batch(jar, value=bytes(70_000_000), codec=Codec.ZSTD)
    assert len(bomb) < 100_000
    assert produce_one(client, a_produce(jar, bomb, topic="c")).error_code == 87


def test_a_topic_may_want_another_compression(jar: Jar, client: JarClient) -> None:
    jar.create_topic("g", compression_type="gzip")
    jar.create_topic("n", compression_type="uncompressed")
    batch = a_batch(jar, count=3, codec=Codec.LZ4, producer_id=5, base_sequence=4)
    for topic, codec in (("g", Codec.GZIP), ("n", Codec.NONE), ("t", Codec.LZ4)):
        assert produce_one(client, a_produce(jar, batch, topic=topic)).error_code == 0
        written = stored(jar, topic)
        header = parse_header(written)
        assert (header.codec, header.last_offset_delta, header.record_count) == (codec, 2, 3)
        assert (header.producer_id, header.base_sequence) == (5, 4)
        assert crc_is_valid(written, 0, header)
        assert [record.offset for record in decode_records(written)] == [0, 1, 2]


def test_an_internal_topic_takes_records_from_the_admin_client_alone(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.METADATA, 5, MetadataRequest(None))
    jar.loop.run(jar.services.topics.ensure(["__consumer_offsets"]))
    request = a_produce(jar, topic="__consumer_offsets")
    assert produce_one(client, request).error_code == 17
    assert produce_one(jar.connect(client_id="__admin_client"), request).error_code == 0


def test_one_replica_is_enough_whatever_min_insync_replicas_says(jar: Jar, client: JarClient) -> None:
    jar.create_topic("m", min_insync_replicas=2)
    assert produce_one(client, a_produce(jar, topic="m")).error_code == 0


def test_an_error_that_nobody_wants_to_hear_closes_the_connection(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, topic="u", acks=0))
    jar.loop.settle()
    assert client.is_closed


def test_without_acks_there_is_no_answer(jar: Jar, client: JarClient) -> None:
    client.send(ApiKey.PRODUCE, 9, a_produce(jar, acks=0))
    jar.loop.settle()
    assert client.frames() == []
    assert partition_of(jar).log.log_end_offset == 1


def test_a_duplicate_with_a_bad_checksum_is_a_bad_checksum(jar: Jar, client: JarClient) -> None:
    batch = a_batch(jar, producer_id=7)
    assert produce_one(client, a_produce(jar, batch)).error_code == 0
    assert produce_one(client, a_produce(jar, batch[:-1] + b"\x7f")).error_code == 2
    assert produce_one(client, a_produce(jar, batch)).base_offset == 0


@pytest.mark.parametrize("version", [9, 10])
def test_who_asks_the_wrong_broker_is_told_the_right_one(jar: Jar, client: JarClient, version: int) -> None:
    # Another broker took the partition over
    epoch = partition_of(jar).leader_epoch
    other = jar.join()
    other.register(BrokerRegistration(2, None, {"PLAINTEXT": ("other", 9093)}))
    other.finish_moves([LeaderChange("t", 0, 1, epoch, 2)])
    jar.loop.run(jar.services.follower.catch_up())
    # When a client still asks here
    response = client.ask(ApiKey.PRODUCE, version, a_produce(jar))
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == 6
    if version == 10:
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, epoch + 1)
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "other", 9093)
    else:
        assert answer.current_leader is None


def test_a_deleted_topic_wakes_those_who_wait_for_its_flush(jar: Jar, client: JarClient) -> None:
    client.ask(ApiKey.METADATA, 5, MetadataRequest(None))
    jar.disk.delay_ms = 10_000
    client.send(ApiKey.PRODUCE, 9, a_produce(jar))
    jar.loop.settle()
    jar.services.partitions.delete("t", 0)
    jar.loop.settle()
    (answer,) = client.new_answers()
    assert answer.responses[0].partition_responses[0].error_code == 3


def test_sequences_are_checked(jar: Jar, client: JarClient) -> None:
    def send(sequence: int, epoch: int = 0) -> int:
        batch = a_batch(jar, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
        return produce_one(client, a_produce(jar, batch)).error_code

    assert [send(0), send(1), send(3), send(1), send(0, epoch=2), send(2)] == [0, 0, 45, 0, 0, 47]


def test_a_batch_that_its_log_refuses_is_answered_alike_alone_and_in_company(
    jar: Jar, client: JarClient
) -> None:
    def line_of(batches: dict[tuple[str, int], Buffer | None]) -> PartitionProduceResponse:
        answer = client.ask(ApiKey.PRODUCE, 9, a_produce(jar, batches=batches))
        found = answer.responses[0].partition_responses[0]
        assert isinstance(found, PartitionProduceResponse)
        return found

    line_of({("t", 0): a_batch(jar, producer_id=1)})
    late = a_batch(jar, producer_id=1, base_sequence=7)
    alone = line_of({("t", 0): late})
    assert (alone.error_code, alone.base_offset, alone.log_start_offset) == (45, -1, 0)
    assert line_of({("t", 0): late, ("nobody", 0): late}) == alone


def test_a_transactional_batch_needs_a_transactional_id_and_a_coordinator(
    jar: Jar, client: JarClient
) -> None:
    batch = a_batch(jar, producer_id=7, transactional=True)
    plain = a_batch(jar)
    both = {("t", 0): batch, ("u", 0): plain}
    assert [answer.error_code for answer in produce(client, a_produce(jar, batches=both))] == [53, 53]
    answers = produce(client, a_produce(jar, batches=both, transactional_id="x"))
    assert [answer.error_code for answer in answers] == [19, 3]
    assert partition_of(jar).log.log_end_offset == 0


def test_two_identities_in_one_transactional_request_fail_it_whole(jar: Jar, client: JarClient) -> None:
    jar.create_topic("u")
    both = {
        ("t", 0): a_batch(jar, producer_id=7, transactional=True),
        ("u", 0): a_batch(jar, producer_id=8, transactional=True),
    }
    answers = produce(client, a_produce(jar, batches=both, transactional_id="x"))
    assert [answer.error_code for answer in answers] == [49, 49]
