"""kafka-python; only its producer."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

import kafka
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from faults.exactly_once.library import PATIENCE_S, TRANSACTION_TIMEOUT_MS, Member


@contextmanager
def patience() -> Iterator[None]:
    """Its calls have no time-out, and some wait for ever after the broker has aborted the transaction."""

    def give_up(signal_number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer within {PATIENCE_S} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class KafkaPythonProducer:
    # When the broker has aborted a transaction by its timeout, kafka-python 3.0 may get a new epoch with
    # InitProducerId and return from commit_transaction() without EndTxn: the records are lost.
    acknowledges_commits = False

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self.raw = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
        )
        with patience():
            self.raw.init_transactions()

    def begin(self) -> None:
        self.raw.begin_transaction()  # the only call that does not wait

    def send(self, topic: str, partition: int, value: str) -> None:
        self.raw.send(topic, value.encode(), partition=partition)

    def send_offsets(self, offsets: Mapping[int, int], consumer: Member) -> None:
        wanted = {
            kafka.TopicPartition(consumer.source, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        self.raw.send_offsets_to_transaction(wanted, consumer.raw.group_metadata())

    def commit(self) -> None:
        with patience():
            self.raw.commit_transaction()

    def abort(self) -> None:
        with patience():
            self.raw.abort_transaction()

    def close(self) -> None:
        with suppress(KafkaTimeoutError):  # for records that are left; what becomes of them is unknown
            self.raw.close(0)


make_producer = KafkaPythonProducer
