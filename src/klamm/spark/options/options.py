"""A query's options, read and checked before anything runs. They are pickled into every task."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.client.config import ADMIN, CONSUMER, PRODUCER, ClientConfig
from klamm.client.producer.settings import parse as parse_producer
from klamm.config import INT_MAX, ConfigError, Definition
from klamm.protocol.types import TopicPartition
from klamm.references import PROVIDERS
from klamm.spark.decode.tables import TOPICS, check_table
from klamm.spark.options.limits import Limit, Named, check_order, ending_limit, starting_limit
from klamm.spark.options.names import CLIENT_PREFIX, GROUP_ID, REGISTRY, STRATEGIES, Given
from klamm.spark.options.values import duration_ms, one_word, required_number, true_or_false, whole_number
from klamm.spark.read.positions import parse_partitions
from klamm.spark.schemas.options import ReadSchemas, SchemaOptions, schema_options

log = logging.getLogger(__name__)
_told: set[str] = set()  # settings without effect, each logged once per process

TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
DELIVERY_TIMEOUT_MS: Final = "120000"  # the default of delivery.timeout.ms
TWO_PHASE: Final = "transaction.two.phase.commit.enable"
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 900_000  # the most that brokers allow by default


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """What is read; exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The topics, where they are named."""
        return self.topics or tuple(dict.fromkeys(each.topic for each in self.partitions or ()))

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern={self.pattern}"
        if self.partitions is not None:
            return "assign=" + ", ".join(map(str, self.partitions))
        return "subscribe=" + ",".join(self.topics)


@dataclass(frozen=True, slots=True)
class TableDecoding:
    """Typed rows of a coordinator's topic instead of keys and values."""

    format_name: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Everything that a reader goes by."""

    subscription: TopicSelection
    client: Mapping[str, str] = field(repr=False)  # with passwords; Kafka's settings, without their prefix
    is_streaming: bool
    start: Limit
    end: Limit
    no_match_is_error: bool
    fails_on_data_loss: bool
    includes_headers: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    poll_timeout_ms: int
    lookup_attempts: int
    lookup_retry_ms: int
    group_id: str | None
    group_missing: str
    commits_progress: bool
    commit_error_is_fatal: bool
    max_wait_ms: int
    pushes_filters: bool
    decode: TableDecoding | None = None
    schemas: SchemaOptions | None = None
    read_schemas: ReadSchemas | None = None  # what the registry has for them, once it was asked

    @property
    def is_read_committed(self) -> bool:
        return self.client.get("isolation.level") == "read_committed"

    @property
    def ends_where_stable(self) -> bool:
        """Whether a range ends at the last stable offset, below which every transaction is decided."""
        return self.is_read_committed or (self.decode is not None and self.is_streaming)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Everything that a writer goes by."""

    topic: str | None
    client: Mapping[str, str] = field(repr=False)
    transactional_id: str | None = None  # set for delivery=exactly-once
    commit_group: str | None = None
    checkpoint: str | None = None
    batch_token: str | None = None
    is_per_task: bool = False  # a transaction for each task, not one for the batch
    schemas: SchemaOptions | None = None
    create_partitions: int | None = None  # of a topic that does not exist; -1: the broker's default

    @property
    def is_exactly_once(self) -> bool:
        return self.transactional_id is not None

    @property
    def transaction_timeout_s(self) -> float:
        """How long to wait for a coordinator: no transaction lasts longer."""
        return int(self.client.get(TRANSACTION_TIMEOUT, DEFAULT_TRANSACTION_TIMEOUT_MS)) / 1000


def decode_option(given: Given) -> TableDecoding | None:
    """Options `decode` and `table`, which decide the schema."""
    if "decode" not in given:
        if "table" in given:
            raise ConfigError("table", f"option table needs option decode: one of {', '.join(TOPICS)}")
        return None
    format_name = one_word(given, "decode", tuple(TOPICS), "")
    for name in ("includeHeaders", "filterPushdown"):
        if true_or_false(given, name, False):
            raise ConfigError(name, f"option {name} cannot be combined with decode: remove it")
    for name in ("minPartitions", "maxRecordsPerPartition"):
        if name in given:
            # A transaction and its marker must be seen by the same task.
            raise ConfigError(
                name, f"option {name} cannot be combined with decode: remove it, each partition is one task"
            )
    return TableDecoding(format_name, check_table(format_name, given.get("table")))


def source_options(options: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    """Parse the options of a source; raises ConfigError."""
    given = Given(options)
    given.check_source_names()
    decode = decode_option(given)
    if is_streaming:
        _refuse_batch_only(given)
    start = starting_limit(given, is_streaming=is_streaming)
    end = Named.LATEST if is_streaming else ending_limit(given)
    check_order(start, end)
    minimum = whole_number(given, "minOffsetsPerTrigger")
    maximum = whole_number(given, "maxOffsetsPerTrigger")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise ConfigError(
            "minOffsetsPerTrigger",
            f"minOffsetsPerTrigger={minimum} exceeds maxOffsetsPerTrigger={maximum}: lower it",
        )
    group_id = given.get(GROUP_ID)
    commits = one_word(given, "commitOffsets", ("none", "progress", "transaction"), "none")
    _check_group(given, group_id, start, commits, is_streaming=is_streaming)
    return SourceOptions(
        subscription=_subscription(given, decode),
        client=_client(given, CONSUMER),
        is_streaming=is_streaming,
        start=start,
        end=end,
        no_match_is_error=one_word(given, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        == "error",
        fails_on_data_loss=true_or_false(given, "failOnDataLoss", True),
        includes_headers=true_or_false(given, "includeHeaders", False),
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay_ms=duration_ms(given, "maxTriggerDelay", 15 * 60_000),
        min_partitions=whole_number(given, "minPartitions", least=1, most=INT_MAX),
        max_records_per_partition=whole_number(given, "maxRecordsPerPartition", least=1),
        poll_timeout_ms=required_number(given, "kafkaConsumer.pollTimeoutMs", 120_000),
        lookup_attempts=required_number(given, "fetchOffset.numRetries", 3, least=1, most=INT_MAX),
        lookup_retry_ms=required_number(given, "fetchOffset.retryIntervalMs", 1000),
        group_id=group_id,
        group_missing=one_word(given, "groupMissing", ("earliest", "latest", "error"), "earliest"),
        commits_progress=commits == "progress",
        commit_error_is_fatal=one_word(given, "commitOffsets.onError", ("warn", "fail"), "warn") == "fail",
        max_wait_ms=required_number(given, "latestOffset.maxWaitMs", 100),
        pushes_filters=true_or_false(given, "filterPushdown", False),
        decode=decode,
        schemas=_schemas(given, decode),
    )


def _schemas(given: Given, decode: TableDecoding | None) -> SchemaOptions | None:
    found = schema_options(given, is_source=True)
    if found is not None and decode is not None:
        raise ConfigError(REGISTRY, f"option {REGISTRY} cannot be combined with decode: remove one")
    return found


def _subscription(given: Given, decode: TableDecoding | None) -> TopicSelection:
    named = [name for name in STRATEGIES if name in given]
    if not named and decode is not None:
        return TopicSelection(topics=(TOPICS[decode.format_name],))
    if len(named) != 1:
        found = " and ".join(named) or "none of them"
        raise ConfigError(
            STRATEGIES[1], f"expected exactly one of {', '.join(STRATEGIES)}; this query has {found}"
        )
    text = given.get(named[0]) or ""
    if named[0] == "assign":
        return TopicSelection(partitions=parse_partitions("assign", text))
    if named[0] == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise ConfigError("subscribe", "subscribe is empty: expected topics separated by commas")
        return TopicSelection(topics=topics)
    if not text:
        raise ConfigError(
            "subscribePattern", "subscribePattern is empty: expected a regular expression, as in orders-.*"
        )
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(
            "subscribePattern", f"subscribePattern={text} is not a regular expression: {error}"
        ) from None
    return TopicSelection(pattern=text)


def _refuse_batch_only(given: Given) -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if name in given:
            raise ConfigError(name, f"option {name} does not apply to a stream, which has no end: remove it")
    if true_or_false(given, "filterPushdown", False):
        raise ConfigError("filterPushdown", "filterPushdown=true applies to batches only: remove it")


def _check_group(
    given: Given, group_id: str | None, start: Limit, commits: str, *, is_streaming: bool
) -> None:
    if commits != "none" and not is_streaming:
        raise ConfigError(
            "commitOffsets", f"commitOffsets={commits} is for streams: a batch has no progress to commit"
        )
    needs = "commitOffsets=progress" if commits == "progress" else ""
    if start is Named.GROUP:
        needs = "startingOffsets=group"
    if needs and not group_id:
        raise ConfigError(GROUP_ID, f"{needs} requires a group: set {GROUP_ID}")
    if start is not Named.GROUP and "groupMissing" in given:
        raise ConfigError("groupMissing", "groupMissing requires startingOffsets=group: set both or none")


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a sink; raises ConfigError."""
    given = Given(options)
    given.check_sink_names()
    delivery = one_word(given, "delivery", ("at-least-once", "exactly-once"), "at-least-once")
    topic = given.get("topic")
    if topic == "":
        raise ConfigError("topic", "option topic is empty: set a topic's name, or remove it")
    if delivery == "at-least-once":
        for name in (*_EXACTLY_ONCE_ONLY, f"{CLIENT_PREFIX}{TRANSACTION_TIMEOUT}"):
            if name in given:
                raise ConfigError(name, f"option {name} requires delivery=exactly-once: set both or none")
        return SinkOptions(
            topic=topic,
            client=_client(given, PRODUCER),
            schemas=schema_options(given, is_source=False),
            create_partitions=_create_partitions(given),
        )
    return _exactly_once(given, topic)


_EXACTLY_ONCE_ONLY: Final = ("transactionalId", "txn.mode", "commitGroup", "batchToken")


def _exactly_once(given: Given, topic: str | None) -> SinkOptions:
    transactional_id = given.get("transactionalId")
    if not transactional_id:
        raise ConfigError(
            "transactionalId",
            "delivery=exactly-once needs option transactionalId: a name that is the same in every run of the "
            "query and used by no other query",
        )
    added = {
        TRANSACTION_TIMEOUT: str(DEFAULT_TRANSACTION_TIMEOUT_MS),
        "transactional.id": transactional_id,
        # As long as for records: a broker that is away for a minute delays the batch and does not fail it.
        "max.block.ms": DELIVERY_TIMEOUT_MS,
        "default.api.timeout.ms": DELIVERY_TIMEOUT_MS,
    }
    if true_or_false(given, f"{CLIENT_PREFIX}{TWO_PHASE}", False):
        del added[TRANSACTION_TIMEOUT]  # such a transaction does not expire
    client = _client(given, PRODUCER, added)
    checkpoint = given.get("checkpointLocation")
    if "commitGroup" in given and not given.get("commitGroup"):
        raise ConfigError("commitGroup", "option commitGroup is empty: set a group id, or remove it")
    return SinkOptions(
        topic=topic,
        client=client,
        transactional_id=transactional_id,
        commit_group=given.get("commitGroup"),
        checkpoint=checkpoint,
        batch_token=given.get("batchToken"),
        is_per_task=one_word(given, "txn.mode", ("shared", "per-task"), "shared") == "per-task",
        schemas=schema_options(given, is_source=False),
        create_partitions=_create_partitions(given),
    )


def _create_partitions(given: Given) -> int | None:
    text = (given.get("createTopics") or "false").lower()
    if text in ("true", "false"):
        return -1 if text == "true" else None
    if not text.isdecimal() or not 1 <= int(text) <= INT_MAX:
        raise ConfigError(
            "createTopics",
            f"invalid value {text} for createTopics: expected true, false, or a number of partitions",
        )
    return int(text)


def _client(
    given: Given, definition: Definition, defaults: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Kafka's settings that klamm's client supports; others are logged once and ignored."""
    known = {**(defaults or {})}
    for name, value in given.client_settings().items():
        if name in definition or name in ADMIN or name.startswith(PROVIDERS):
            known[name] = value
        elif name not in _told:
            _told.add(name)
            log.warning("kafka.%s has no effect: klamm's client has no setting %s", name, name)
    try:
        if definition is PRODUCER:
            parse_producer(for_client(known, definition), {})
        else:
            ClientConfig.parse(definition, for_client(known, definition), {})
    except ConfigError as error:
        prefixed = f"{CLIENT_PREFIX}{error.name}"
        raise ConfigError(prefixed, str(error).replace(error.name, prefixed, 1)) from None
    return known


def for_client(settings: Mapping[str, str], definition: Definition) -> dict[str, str]:
    """The settings of one kind of client."""
    return {
        name: value for name, value in settings.items() if name in definition or name.startswith(PROVIDERS)
    }
