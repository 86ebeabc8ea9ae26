"""The topic `_schemas`: written in transactions, read from its start and followed.

Several registries may share a topic. Each writes as the same transactional id: whoever begins to write
fences the others, and reads all that they have written before it decides. Without that two of them would give
one id to two schemas.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import klamm
from klamm.registry.model import RegistryError
from klamm.registry.records import RegistryRecord, decode, encode

_POLL_S: Final = 1.0
_TIMEOUT_S: Final = 30.0
_TAKEOVERS: Final = 5  # of one write, while other registries write as well
_RETRY_S: Final = 1.0
# Twice the largest request: a schema is JSON in JSON, whose quotation marks are escaped.
_MAX_RECORD_BYTES: Final = 16 * 1024 * 1024

_log = logging.getLogger(__name__)


class SchemasLog:
    """Follows the topic on a thread; `replay` is called there, in order, once for each record."""

    def __init__(
        self, settings: Mapping[str, Any], topic: str, replay: Callable[[RegistryRecord], None]
    ) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._partition = klamm.TopicPartition(topic, 0)
        self._replay = replay
        self._producer: klamm.Producer | None = None  # of the current writer; None while it may be another
        self._next_offset = 0  # all before it is replayed
        self._moved = threading.Condition()
        self._is_stopping = False
        self._failure: Exception | None = None
        self._consumer: klamm.Consumer[Any, Any] | None = None
        self._thread = threading.Thread(target=self._follow, name="klamm registry", daemon=True)

    def open(self) -> None:
        """Create the topic if it is not there, and read what it has. Raises KlammError, RegistryError."""
        with klamm.Admin(self._settings) as admin:
            self._require_topic(admin)
        self._consumer = klamm.Consumer(
            {
                **self._settings,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([self._partition])
        self._thread.start()
        self._catch_up()

    def _require_topic(self, admin: klamm.Admin) -> None:
        with suppress(klamm.TopicAlreadyExistsError):
            admin.create_topics(
                klamm.NewTopic(
                    self._topic,
                    partitions=1,
                    configs={"cleanup.policy": "compact", "max.message.bytes": str(_MAX_RECORD_BYTES)},
                )
            )
        admin.wait_for_topics(self._topic)
        found = admin.describe_topics(self._topic)[self._topic]
        if len(found.partitions) != 1:
            raise RegistryError(
                50001,
                f"topic {self._topic} has {len(found.partitions)} partitions: a registry's topic has one",
            )
        policy = admin.describe_configs("topic", self._topic)["topic", self._topic]["cleanup.policy"].value
        if policy != "compact":
            raise RegistryError(
                50001,
                f"topic {self._topic} has cleanup.policy={policy}, which forgets schemas: set it to compact",
            )

    def write(self, decide: Callable[[], tuple[RegistryRecord, ...]]) -> None:
        """Append the records of a decision on all that is written before. Returns when they are replayed.

        One call at a time. Raises RegistryError if the cluster does not take them.
        """
        refusal: klamm.KlammError | None = None
        for _ in range(_TAKEOVERS):
            try:
                if self._producer is None:
                    self._take_over()
                records = decide()
                if records:
                    self._append(records)
            except klamm.RecordTooLargeError as error:
                self._give_up_writing()
                raise RegistryError(413, self._too_large(records)) from error
            except (klamm.KlammTimeoutError, klamm.NoBrokersError) as error:
                self._give_up_writing()
                raise RegistryError(50002, f"topic {self._topic} was not written in time: {error}") from error
            except klamm.KlammError as error:
                # Another registry has begun to write, which the coordinator tells in several ways. Whether
                # the records are in the log is not known; the next decision is made on what is there.
                _log.info("writing to topic %s failed, the decision is made again: %s", self._topic, error)
                self._give_up_writing()
                refusal = error
            else:
                return
        raise RegistryError(
            50003, f"topic {self._topic} could not be written, try again: {refusal}"
        ) from refusal

    def _too_large(self, records: tuple[RegistryRecord, ...]) -> str:
        size = max(len(key) + len(value or b"") for key, value in map(encode, records))
        advice = f"klamm topics alter {self._topic} --config max.message.bytes={_MAX_RECORD_BYTES} allows it"
        if size >= _MAX_RECORD_BYTES:
            advice = f"the largest that this registry writes has {_MAX_RECORD_BYTES}"
        return f"the schema is too large: topic {self._topic} takes no record of {size} bytes; {advice}"

    def _take_over(self) -> None:
        producer = klamm.Producer(
            {
                **self._settings,
                "transactional.id": f"klamm-registry-{self._topic}",
                "linger.ms": 0,
                "max.request.size": _MAX_RECORD_BYTES,
            }
        )
        try:
            producer.init_transactions(timeout=_TIMEOUT_S)
            self._catch_up()
        except BaseException:
            producer.close(0)
            raise
        self._producer = producer

    def _append(self, records: tuple[RegistryRecord, ...]) -> None:
        assert self._producer is not None
        with self._producer.transaction():
            sent = [
                self._producer.send(self._topic, value, key, partition=0)
                for key, value in map(encode, records)
            ]
        self._wait_for(sent[-1].result().offset + 1)

    def _give_up_writing(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(klamm.KlammError):  # what it had left is aborted by the next writer
                producer.close(0)

    def _catch_up(self) -> None:
        with klamm.Admin(self._settings) as admin:
            end = admin.list_offsets([self._partition], read_committed=True)
        self._wait_for(end[self._partition].offset)

    def _wait_for(self, offset: int) -> None:
        with self._moved:
            done = self._moved.wait_for(
                lambda: self._next_offset >= offset or self._failure is not None, _TIMEOUT_S
            )
            if self._failure is not None:
                raise RegistryError(50001, f"topic {self._topic} cannot be read: {self._failure}")
            if not done:
                raise RegistryError(
                    50002,
                    f"topic {self._topic} was not read up to offset {offset} within {_TIMEOUT_S:g} s: "
                    f"the registry is at {self._next_offset}",
                )

    def _follow(self) -> None:
        assert self._consumer is not None
        while not self._is_stopping:
            try:
                for record in self._consumer.poll(_POLL_S):
                    self._take(record)
                position = self._consumer.position(self._partition)
            except klamm.WakeupError:
                continue
            except klamm.KlammError as error:
                _log.warning("reading topic %s failed, it is tried again: %s", self._topic, error)
                with self._moved:
                    self._moved.wait_for(lambda: self._is_stopping, _RETRY_S)
                continue
            except Exception as error:
                _log.exception("reading topic %s ended", self._topic)
                with self._moved:
                    self._failure = error
                    self._moved.notify_all()
                return
            with self._moved:
                self._next_offset = position  # behind control records, too
                self._moved.notify_all()

    def _take(self, record: Any) -> None:
        try:
            decoded = decode(record.key, record.value)
        except ValueError as error:
            _log.warning(
                "%s, offset %d is not a schema registry's record: %s", self._topic, record.offset, error
            )
            return
        if decoded is not None:
            self._replay(decoded)

    def close(self) -> None:
        """Stop following."""
        self._is_stopping = True
        self._give_up_writing()
        if self._consumer is not None:
            self._consumer.wakeup()
            if self._thread.is_alive():
                self._thread.join(_TIMEOUT_S)
            self._consumer.close()
