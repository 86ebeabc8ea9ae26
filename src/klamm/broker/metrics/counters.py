"""Counters of topics, incremented by the handlers and reported by `metrics`."""

from __future__ import annotations

from dataclasses import dataclass, fields

from klamm.protocol.errors import ErrorCode

# Errors that Kafka does not count as failed requests.
_EXPECTED = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
    }
)


@dataclass(slots=True)
class TopicCounters:
    """One topic's traffic since the broker started. Requests count once for each partition they name."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_rejected: int = 0
    total_produce_requests: int = 0
    total_fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0
    no_key_compacted_topic_records: int = 0
    invalid_message_crc_records: int = 0
    invalid_magic_number_records: int = 0
    invalid_offset_or_sequence_records: int = 0

    def refused(
        self,
        error_code: int,
        size_bytes: int,
        *,
        keyless_records: int = 0,
        has_bad_magic: bool = False,
    ) -> None:
        """Count a rejected batch."""
        self.total_produce_requests += 1
        if error_code not in _EXPECTED:
            self.failed_produce_requests += 1
        if keyless_records:
            self.no_key_compacted_topic_records += keyless_records
        elif has_bad_magic:
            self.invalid_magic_number_records += 1
        elif error_code == ErrorCode.message_too_large:
            self.bytes_rejected += size_bytes
        elif error_code == ErrorCode.corrupt_message:
            self.invalid_message_crc_records += 1
        elif error_code == ErrorCode.invalid_record:
            self.invalid_offset_or_sequence_records += 1

    def add(self, other: TopicCounters) -> None:
        for each in fields(TopicCounters):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class TopicTallies:
    """The counters of all topics; those of deleted ones still count in the total."""

    def __init__(self) -> None:
        self.by_topic: dict[str, TopicCounters] = {}
        self._gone = TopicCounters()

    def of(self, topic: str) -> TopicCounters:
        return self.by_topic.setdefault(topic, TopicCounters())

    def forget(self, topic: str) -> None:
        gone = self.by_topic.pop(topic, None)
        if gone is not None:
            self._gone.add(gone)

    def total(self) -> TopicCounters:
        total = TopicCounters()
        for each in (self._gone, *self.by_topic.values()):
            total.add(each)
        return total
