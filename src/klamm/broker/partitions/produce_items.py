"""The partitions of a Produce request: their batches, and the checks before any of them is appended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from klamm.protocol.types import Buffer
from klamm.records.batch import TRANSACTIONAL_BIT, BatchHeader
from klamm.records.compression import Codec
from klamm.records.core import sound_header
from klamm.records.produced import (
    ProducedError,
    first_header,
    has_impossible_length,
    is_no_batch,
    single_batch,
)

if TYPE_CHECKING:
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.services import Services
    from klamm.storage.topic_config import TopicConfig

_ACKS: Final = (-1, 0, 1)
_LZ4: Final = Codec.LZ4  # an enum's member is looked up slowly
_ZSTD: Final = Codec.ZSTD
_UNKNOWN_PARTITION: Final = ErrorCode.unknown_topic_or_partition


class Item:
    """One partition of the request on its way; `response` has an error once it is refused."""

    __slots__ = (
        "batch", "checked_for", "guard", "header", "is_corrupt", "is_too_long", "is_unknown", "partition",
        "response", "topic",
    )  # fmt: skip

    def __init__(self, topic: str, response: PartitionProduceResponse, partition: Partition | None) -> None:
        self.topic = topic
        self.response = response
        self.partition = partition
        self.batch: Buffer = b""
        self.header: BatchHeader | None = None  # also of a rejected batch, if it is complete
        self.is_corrupt = False  # not a batch
        self.is_too_long = False  # says that its batch is longer than any can be
        self.is_unknown = False  # its topic or partition does not exist
        self.guard: int | None = None  # of a verification, to append the first batch of a transaction
        self.checked_for: TopicConfig | None = None  # with these settings nothing more is to be checked

    def refuse(self, error_code: int, message: str | None = None) -> None:
        self.response.error_code = int(error_code)
        self.response.error_message = message
        self.response.base_offset = -1


def is_of_transaction(header: BatchHeader) -> bool:
    """As Kafka sees it: without a producer, the transactional bit has no meaning."""
    return header.producer_id >= 0 and bool(header.attributes & TRANSACTIONAL_BIT)


def items_of(services: Services, request: ProduceRequest) -> tuple[ProduceResponse, list[Item]]:
    """The response to fill, and the items with the checks that concern one partition alone."""
    by_topic: dict[bytes | str, list[PartitionProduceResponse]] = {}  # also if a topic is named twice
    responses: list[TopicProduceResponse] = []
    items: dict[tuple[bytes | str, int], Item] = {}
    repeated: list[Item] = []
    image, partitions = services.image, services.partitions
    uses_topic_ids, allows_zstd = request.uses_topic_ids, request.allows_zstd
    timestamp_ms = services.clock.timestamp_ms()
    for topic in request.topic_data:
        name, unknown = topic.name, _UNKNOWN_PARTITION
        key: bytes | str = name
        if uses_topic_ids:
            key = topic.topic_id
            state = image.topic_by_id(key)
            name, unknown = ("", ErrorCode.unknown_topic_id) if state is None else (state.name, unknown)
        for data in topic.partition_data:
            index = data.index
            place = (key, index)
            first = items.get(place)
            if first is not None:
                repeated.append(first)
                continue
            answer = PartitionProduceResponse(index)
            answers = by_topic.get(key)
            if answers is None:
                answers = by_topic[key] = []
                responses.append(TopicProduceResponse(topic.topic_id, topic.name, answers))
            answers.append(answer)
            partition = partitions.get(name, index)
            item = items[place] = Item(name, answer, partition)
            if not _is_plain(services, item, data.records, allows_zstd, timestamp_ms):
                _read_batch(item, data, allows_zstd)
            if partition is None and image.partition(name, index) is None:
                item.refuse(unknown)
                item.is_unknown = True
    for item in repeated:
        if not item.is_unknown:
            # Several batches for one partition: their order is undefined.
            item.refuse(ErrorCode.invalid_request, "the partition is named twice")
    return ProduceResponse(responses), list(items.values())


def _is_plain(
    services: Services, item: Item, records: Buffer | None, allows_zstd: bool, timestamp_ms: int
) -> bool:
    """Whether a batch is valid without doubt, and its topic takes it as it comes; then it is read."""
    partition = item.partition
    if partition is None or partition.error_code is not NO_ERROR or services.validation.every_record:
        return False
    config = partition.log.config
    if not config.takes_batches_as_they_come:
        return False
    header = sound_header(records, config.max_batch_bytes, _ZSTD if allows_zstd else _LZ4)
    if header is None:
        return False
    latest_ms = timestamp_ms + config.message_timestamp_after_max_ms
    if not 0 <= header.base_timestamp_ms <= header.max_timestamp_ms <= latest_ms:
        return False
    assert records is not None
    item.batch, item.header, item.checked_for = records, header, config
    return True


def _read_batch(item: Item, data: PartitionProduceData, allows_zstd: bool) -> None:
    try:
        item.header = single_batch(data.records, zstd_allowed=allows_zstd)
        assert data.records is not None
        item.batch = data.records[: item.header.size_bytes]
    except ProducedError as error:
        item.refuse(error.error_code, str(error))
        item.is_corrupt = is_no_batch(data.records)
        item.is_too_long = has_impossible_length(data.records)
        item.header = first_header(data.records)


def check_request(request: ProduceRequest, items: Sequence[Item]) -> None:
    """Checks that concern the request as a whole."""
    flagged = [item for item in items if item.header is None or item.header.attributes & TRANSACTIONAL_BIT]
    if flagged:
        first = None
        for item in flagged:
            if item.header is not None or item.is_corrupt or item.is_too_long:
                first = item
                break
        if first is not None and (first.is_corrupt or first.is_too_long):
            # Kafka fails on it while it looks for a transaction: nothing of the request is appended.
            error_code = ErrorCode.corrupt_message if first.is_corrupt else ErrorCode.unknown_server_error
            _refuse_all(items, error_code, "no batch can be made out of a partition's bytes")
            return
        if first is not None and request.transactional_id is None:
            _refuse_all(items, ErrorCode.transactional_id_authorization_failed)
            return
    if not request.allows_zstd and [item for item in items if _has_unknown_codec(item)]:
        # Versions without zstd look for it first, and Kafka fails on what is no codec: nothing is appended.
        for item in items:
            if not _has_unknown_codec(item):
                item.refuse(ErrorCode.unknown_server_error)
        return
    if flagged:
        producers = {
            (item.header.producer_id, item.header.producer_epoch)
            for item in flagged
            if not item.response.error_code and item.header is not None and is_of_transaction(item.header)
        }
        if len(producers) > 1:
            _refuse_all(items, ErrorCode.invalid_producer_id_mapping)


def _has_unknown_codec(item: Item) -> bool:
    return not item.is_unknown and item.header is not None and item.header.codec > Codec.ZSTD


def check_acks(request: ProduceRequest, items: Iterable[Item]) -> None:
    """Refuse what is left if the acks are invalid; the coordinator's errors take precedence."""
    if request.acks not in _ACKS:
        for item in items:
            if not item.response.error_code:
                item.refuse(ErrorCode.invalid_required_acks)


def _refuse_all(items: Iterable[Item], error_code: ErrorCode, message: str | None = None) -> None:
    for item in items:
        item.refuse(error_code, message)
