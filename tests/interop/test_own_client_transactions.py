"""klamm's transactional producer, with klamm's broker and with Apache Kafka: together, or not at all."""

from __future__ import annotations

import asyncio
import base64
import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import klamm
from interop.own import PATIENCE_S, Own, read, values
from interop.processes import KlammProcess, LineProcess
from klamm import TopicPartition
from klamm.client.producer.transactions.manager import TransactionManager
from klamm.client.producer.transactions.states import ProducerPhase
from klamm.testing import wait_until

pytestmark = pytest.mark.timeout(180)

WORKER = Path(__file__).with_name("transaction_worker.py")


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both versions of the protocol: brokers of version 2 serve clients of version 1 as well."""
    if request.param == 1:
        monkeypatch.setattr(TransactionManager, "_learn_version", lambda manager: None)
    number: int = request.param
    return number


@pytest.fixture
def workers(own: Own, tmp_path: Path) -> Iterator[Workers]:
    with Workers(own, tmp_path) as made:
        yield made


class Workers(ExitStack):
    """Processes, ended when the test ends."""

    def __init__(self, own: Own, folder: Path) -> None:
        super().__init__()
        self._own = own
        self._folder = folder
        self._count = 0

    def start(self, what: str, *arguments: str) -> LineProcess:
        self._count += 1
        command = [sys.executable, str(WORKER), what, self._own.bootstrap, *arguments]
        process = LineProcess(command, stderr_path=self._folder / f"worker-{self._count}.log")
        self.callback(process.kill)
        return process


def transactional(own: Own, transactional_id: str, **settings: object) -> klamm.Producer:
    return own.producer(**{"transactional.id": transactional_id, **settings})


def committed(own: Own, partitions: list[TopicPartition], count: int) -> list[object]:
    """All that a reader of committed records sees, and a little longer than needed: nothing may follow."""
    consumer = own.consumer(group_id=None, isolation_level="read_committed")
    consumer.assign(partitions)
    records = read(consumer, count)
    records += consumer.poll(0.3)
    consumer.close()
    return values(records)


def offset_of(own: Own, group: str, partition: TopicPartition) -> int | None:
    found = own.admin.list_group_offsets(group, [partition], require_stable=True)
    return found[partition].offset if partition in found else None


def test_a_transaction_over_two_partitions_is_seen_as_a_whole(own: Own, topic: str, version: int) -> None:
    partitions = own.create_topic(topic, 2)
    producer = transactional(own, topic)
    producer.init_transactions()
    assert producer._transactions is not None
    assert producer._transactions.manager.version == version
    for turn in range(3):
        producer.begin_transaction()
        for number in range(10):
            producer.send(topic, b"%d.%d" % (turn, number), partition=number % 2)
        producer.flush(PATIENCE_S)  # what is not sent yet would be dropped by the abort
        if turn == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    expected = [b"%d.%d" % (turn, number) for turn in (0, 2) for number in range(10)]
    assert sorted(committed(own, partitions, 20), key=repr) == sorted(expected, key=repr)
    everything = own.consumer(group_id=None)
    everything.assign(partitions)
    assert len(read(everything, 30)) == 30


def test_nothing_is_seen_before_the_commit(own: Own, topic: str, version: int) -> None:
    (partition,) = own.create_topic(topic)
    producer = transactional(own, topic)
    producer.init_transactions()
    reader = own.consumer(group_id=None, isolation_level="read_committed")
    reader.assign([partition])
    with producer.transaction():
        producer.send(topic, b"a").result(PATIENCE_S)
        assert not reader.poll(0.5)
    assert values(read(reader, 1)) == [b"a"]


def test_a_large_transaction_goes_in_many_batches(own: Own, topic: str, version: int) -> None:
    partitions = own.create_topic(topic, 3)
    producer = transactional(own, topic, **{"batch.size": 2_000})
    producer.init_transactions()
    for _ in range(2):
        with producer.transaction():
            for number in range(3_000):
                producer.send(topic, b"%050d" % number, partition=number % 3)
    assert len(committed(own, partitions, 6_000)) == 6_000


def test_an_exception_aborts_and_the_next_transaction_works(own: Own, topic: str, version: int) -> None:
    (partition,) = own.create_topic(topic)
    producer = transactional(own, topic)
    producer.init_transactions()

    def fails() -> None:
        with producer.transaction():
            producer.send(topic, b"lost")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with producer.transaction():
        producer.send(topic, b"kept")
    assert committed(own, [partition], 1) == [b"kept"]


def test_a_record_that_the_broker_refuses_fails_the_commit_and_aborting_mends_it(
    own: Own, topic: str, version: int
) -> None:
    (partition,) = own.create_topic(topic, max_message_bytes="2000")
    producer = transactional(own, topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"small")
    producer.send(topic, bytes(range(256)) * 20)
    with pytest.raises(klamm.KlammError) as refused:
        producer.commit_transaction()
    assert refused.value.is_abortable
    with pytest.raises(klamm.IllegalStateError, match="abort_transaction"):
        producer.send(topic, b"more")
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"after")
    assert committed(own, [partition], 1) == [b"after"]


def test_an_empty_transaction_is_no_work(own: Own, topic: str, version: int) -> None:
    producer = transactional(own, topic)
    producer.init_transactions()
    with producer.transaction():
        pass
    assert own.admin.describe_transactions([topic]).unwrap()[topic].state == "Empty"


def test_offsets_move_with_the_transaction_or_not_at_all(own: Own, topic: str, version: int) -> None:
    (partition,) = own.create_topic(topic)
    producer = transactional(own, topic)
    producer.init_transactions()
    for offset, commits in ((5, True), (7, False), (9, True)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction({partition: offset}, f"{topic}-group")
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        wait_until(lambda: offset_of(own, f"{topic}-group", partition), equals={5: 5, 7: 5, 9: 9}[offset])


def test_a_consumer_that_lost_its_group_cannot_commit(own: Own, topic: str, version: int) -> None:
    (partition,) = own.create_topic(topic)
    own.fill([partition], 3)
    consumer = own.consumer(topic, group_id=f"{topic}-group")
    records = read(consumer, 3)
    producer = transactional(own, topic)
    producer.init_transactions()
    stale = consumer.group_metadata()
    consumer.close()
    producer.begin_transaction()
    with pytest.raises(klamm.CommitFailedError) as refused:
        producer.send_offsets_to_transaction({partition: len(records)}, stale)
    assert refused.value.is_abortable
    producer.abort_transaction()
    assert offset_of(own, f"{topic}-group", partition) is None


def test_a_second_producer_fences_the_first(own: Own, topic: str, version: int) -> None:
    (partition,) = own.create_topic(topic)
    first = transactional(own, topic)
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, b"zombie").result(PATIENCE_S)
    second = transactional(own, topic)
    second.init_transactions()
    with pytest.raises(klamm.ProducerFencedError) as fenced:
        first.commit_transaction()
    assert fenced.value.is_fatal
    with pytest.raises(klamm.ProducerFencedError):
        first.abort_transaction()
    with second.transaction():
        second.send(topic, b"alive")
    assert committed(own, [partition], 1) == [b"alive"]


def test_a_fenced_producer_closes_at_the_end_of_its_block(own: Own, topic: str, version: int) -> None:
    own.create_topic(topic)
    first = transactional(own, topic)
    first.init_transactions()
    second = transactional(own, topic)
    second.init_transactions()
    with pytest.raises(klamm.ProducerFencedError), first.transaction():
        first.send(topic, b"zombie")
    with pytest.raises(klamm.IllegalStateError, match="closed"):
        first.begin_transaction()


def test_closing_inside_a_transaction_aborts_it(own: Own, topic: str, version: int) -> None:
    (partition,) = own.create_topic(topic)
    producer = transactional(own, topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"lost").result(PATIENCE_S)
    producer.close()
    own.fill([partition], 1)
    assert committed(own, [partition], 1) == [b"0"]


def test_closing_at_once_leaves_the_transaction_to_the_next_producer(
    own: Own, topic: str, version: int
) -> None:
    own.create_topic(topic)
    producer = transactional(own, topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"lost").result(PATIENCE_S)
    producer.close(0)
    (described,) = own.admin.describe_transactions([topic]).unwrap().values()
    assert described.state == "Ongoing"
    transactional(own, topic).init_transactions()
    (described,) = own.admin.describe_transactions([topic]).unwrap().values()
    assert described.state in ("CompleteAbort", "PrepareAbort", "Empty")


def test_what_a_killed_producer_left_open_is_aborted_by_the_next(
    own: Own, topic: str, workers: Workers
) -> None:
    (partition,) = own.create_topic(topic)
    worker = workers.start("leave", topic, topic)
    assert worker.read_line(PATIENCE_S) == "open"
    worker.kill()
    producer = transactional(own, topic)
    producer.init_transactions()
    with producer.transaction():
        producer.send(topic, b"seen")
    assert committed(own, [partition], 1) == [b"seen"]


def test_a_transaction_is_carried_on_by_other_processes_and_ended_by_another_producer(
    own: Own, topic: str, workers: Workers
) -> None:
    partitions = own.create_topic(topic, 4)
    driver = transactional(own, topic)
    driver.init_transactions()
    driver.begin_transaction()
    driver.send(topic, b"from the driver", partition=3)
    begun = driver.hand_over_transaction()
    driver.close()  # does not abort what it has handed over
    executors = []
    for number in range(3):
        executor = workers.start("resume", topic)
        executor.write_line(base64.b64encode(pickle.dumps(begun)).decode())
        executor.write_line(str(number))
        executors.append(executor)
    handed_back = [pickle.loads(base64.b64decode(item.read_line(PATIENCE_S))) for item in executors]
    ending = transactional(own, topic)
    ending.resume_transaction(begun.merged(handed_back))
    ending.send_offsets_to_transaction({partitions[0]: 17}, f"{topic}-sink")
    ending.commit_transaction()
    assert len(committed(own, partitions, 301)) == 301
    wait_until(lambda: offset_of(own, f"{topic}-sink", partitions[0]), equals=17)
    with ending.transaction():  # it goes on as any other
        ending.send(topic, b"more", partition=0)
    assert len(committed(own, partitions, 302)) == 302


def test_a_transaction_that_was_handed_over_is_aborted_by_whoever_resumes_it(
    own: Own, topic: str, version: int
) -> None:
    (partition,) = own.create_topic(topic)
    first = transactional(own, topic)
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, b"lost")
    handed_over = first.hand_over_transaction()
    second = transactional(own, topic)
    second.resume_transaction(handed_over)
    second.abort_transaction()
    own.fill([partition], 1)
    assert committed(own, [partition], 1) == [b"0"]


def test_every_record_is_copied_once_however_often_workers_are_killed(
    own: Own, topic: str, workers: Workers
) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    partitions = own.create_topic(source, 2)
    outputs = own.create_topic(target, 2)
    own.fill(partitions, 1_000)
    for turn in range(4):
        worker = workers.start("copy", source, target, f"{topic}-group", topic)
        for _ in range(turn + 1):  # a few transactions, then in the middle of the next
            worker.read_line(PATIENCE_S)
        worker.kill()
    last = workers.start("copy", source, target, f"{topic}-group", topic)
    wait_until(
        lambda: {offset_of(own, f"{topic}-group", item) for item in partitions},
        "90s",
        equals={1_000},
        every="200ms",
        describe=last.what_it_said,
    )
    seen = Counter(committed(own, outputs, 2_000))
    assert seen == {b"%d" % number: 2 for number in range(1_000)}


def test_the_loop_goes_on_after_an_abortable_error_and_ends_with_a_lasting_one(own: Own, topic: str) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    partitions = own.create_topic(source, 2)
    outputs = own.create_topic(target, max_message_bytes="2000")
    own.fill(partitions, 100)
    consumer = own.consumer(source, group_id=f"{topic}-group", max_poll_records=30)
    producer = transactional(own, topic)
    producer.init_transactions()
    seen: list[object] = []
    disturbed: list[int] = []

    def transform(records: klamm.Records) -> None:
        for record in records:
            producer.send(target, record.value)
        if len(disturbed) < 3:  # a record that the broker refuses
            disturbed.append(len(records))
            producer.send(target, bytes(range(256)) * 20)

    def is_done() -> bool:
        seen[:] = [offset_of(own, f"{topic}-group", item) for item in partitions]
        return seen == [100, 100]

    klamm.run_transaction_loop(consumer, producer, transform, should_stop=is_done, poll_timeout=0.2)
    assert len(disturbed) == 3
    assert Counter(committed(own, outputs, 200)) == {b"%d" % number: 2 for number in range(100)}
    own.fill(partitions, 1)
    disturbed.clear()
    with pytest.raises(klamm.KlammError) as lasting:
        klamm.run_transaction_loop(consumer, producer, transform, poll_timeout=0.2, max_attempts=2)
    assert lasting.value.is_abortable
    assert len(disturbed) == 2


def test_the_same_with_asyncio(own: Own, topic: str) -> None:
    partitions = own.create_topic(topic, 2)

    async def scenario() -> None:
        producer = klamm.aio.Producer(bootstrap_servers=own.bootstrap, transactional_id=topic)
        await producer.init_transactions()
        async with producer.transaction():
            for number in range(10):
                await producer.send(topic, b"%d" % number, partition=number % 2)
            await producer.send_offsets_to_transaction({partitions[0]: 3}, f"{topic}-group")

        async def fails() -> None:
            async with producer.transaction():
                await producer.send(topic, b"lost", partition=0)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fails()
        rival = klamm.aio.Producer(bootstrap_servers=own.bootstrap, transactional_id=topic)
        await rival.init_transactions()

        async def writes() -> None:
            async with producer.transaction():
                await producer.send(topic, b"zombie", partition=0)

        with pytest.raises(klamm.ProducerFencedError):
            await writes()
        await rival.close()
        await producer.close()

    asyncio.run(scenario())
    assert len(committed(own, partitions, 10)) == 10
    wait_until(lambda: offset_of(own, f"{topic}-group", partitions[0]), equals=3)


def test_a_time_out_above_the_brokers_limit_is_refused_with_the_name_of_the_setting(
    own: Own, topic: str
) -> None:
    producer = transactional(own, topic, **{"transaction.timeout.ms": 2_000_000_000})
    with pytest.raises(klamm.InvalidTransactionTimeoutError, match=r"transaction\.timeout\.ms"):
        producer.init_transactions()


def test_a_broker_without_two_phase_commit_is_named(own: Own, topic: str) -> None:
    producer = transactional(own, topic, **{"transaction.two.phase.commit.enable": True})
    with pytest.raises(klamm.KlammError, match=r"two-phase commit needs InitProducerId version 6"):
        producer.init_transactions()
    assert producer._transactions is not None
    assert producer._transactions.manager.state is ProducerPhase.FATAL_ERROR


def test_a_prepared_transaction_survives_the_broker_and_the_producer(tmp_path: Path) -> None:
    settings = {"transaction.two.phase.commit.enable": "true"}
    two_phase: dict[str, object] = {"transaction.two.phase.commit.enable": True}
    with KlammProcess(tmp_path / "data", stderr_path=tmp_path / "first.log", settings=settings) as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        with Own(broker.bootstrap) as own:
            (partition,) = own.create_topic("decided")
            producer = transactional(own, "two-phase", **two_phase)
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("decided", b"a")
            stored = str(producer.prepare_transaction())
            broker.kill()
            producer.close(0)
    with (
        KlammProcess(
            tmp_path / "data", stderr_path=tmp_path / "second.log", settings=settings, port=port
        ) as broker,
        Own(broker.bootstrap) as own,
    ):
        for decision, value in ((stored, b"b"), ("0:32000", b"c")):
            producer = transactional(own, "two-phase", **two_phase)
            producer.init_transactions(keep_prepared=True)
            producer.complete_transaction(klamm.PreparedTransaction.parse(decision))
            producer.begin_transaction()
            producer.send("decided", value)
            producer.prepare_transaction()
            producer.close()  # leaves it prepared
        producer = transactional(own, "two-phase", **two_phase)
        producer.init_transactions()  # without keep_prepared: aborted
        producer.close()
        assert committed(own, [partition], 1) == [b"a"]  # b was decided otherwise, c was given up
