"""The cases in which klamm and Spark's own connector must agree: same rows, offsets, refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from spark.parity_data import TIME_MS


@dataclass(frozen=True, slots=True)
class Case:
    """One query: options, and whether both must refuse it."""

    name: str
    options: dict[str, Any]
    is_error: bool = False


def ok(name: str, /, **options: Any) -> Case:
    return Case(name, _dotted(options))


def refused(name: str, /, **options: Any) -> Case:
    return Case(name, _dotted(options), is_error=True)


def _dotted(options: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("__", "."): value for name, value in options.items()}


BATCH: Final = (
    ok("a topic", subscribe="$main"),
    ok("two topics", subscribe="$main, $cut"),
    ok("a topic named twice", subscribe="$main,$main"),
    ok("names in any case", SUBSCRIBE="$main", StartingOffsets="Earliest", ENDINGOFFSETS="LATEST"),
    ok("a pattern finds any part of a name", subscribePattern="$main"),
    ok("a pattern that matches nothing", subscribePattern="no-such-topic-[0-9]+"),
    ok("two topics by pattern", subscribePattern="$full|$cut"),
    ok("partitions", assign=("main", [0, 1])),
    ok("a partition without records", assign=("main", [2])),
    ok("a partition that is not there", assign=("main", [0, 9])),
    ok("no partition at all", assign="{}"),
    ok("headers", subscribe="$odd", includeHeaders="true"),
    ok("nulls and empty bytes", subscribe="$odd"),
    ok("no headers in the log", subscribe="$main", includeHeaders="TRUE"),
    ok("from offsets", subscribe="$main", startingOffsets=("main", {"0": 3, "1": -2, "2": -2})),
    ok("to offsets", subscribe="$main", endingOffsets=("main", {"0": 3, "1": -1, "2": 0})),
    ok(
        "from offsets to offsets",
        subscribe="$main",
        startingOffsets=("main", {"0": 2, "1": 1, "2": 0}),
        endingOffsets=("main", {"0": 8, "1": 1, "2": 0}),
    ),
    ok("offsets of an assigned partition", assign=("main", [1]), startingOffsets=("main", {"1": 2})),
    ok("from a time", subscribe="$full", startingTimestamp=TIME_MS + 3500),
    ok("to a time", subscribe="$full", endingTimestamp=TIME_MS + 3500),
    ok("between times", subscribe="$full", startingTimestamp=TIME_MS + 2000, endingTimestamp=TIME_MS + 5000),
    ok("to a time after the last record", subscribe="$full", endingTimestamp=TIME_MS + 99_000),
    ok(
        "from times",
        subscribe="$full",
        startingOffsetsByTimestamp=("full", {"0": TIME_MS, "1": TIME_MS + 8500}),
    ),
    ok(
        "to times",
        subscribe="$full",
        endingOffsetsByTimestamp=("full", {"0": TIME_MS + 1, "1": TIME_MS + 99_000}),
    ),
    ok(
        "a time goes before times and offsets",
        subscribe="$full",
        startingTimestamp=TIME_MS + 7000,
        startingOffsetsByTimestamp=("full", {"0": TIME_MS, "1": TIME_MS}),
        startingOffsets=("full", {"0": 0, "1": 0}),
    ),
    ok(
        "times go before offsets",
        subscribe="$full",
        startingOffsetsByTimestamp=("full", {"0": TIME_MS + 9000, "1": TIME_MS + 9000}),
        startingOffsets=("full", {"0": 0, "1": 0}),
    ),
    ok(
        "a time after the last record, latest instead",
        subscribe="$main",
        startingTimestamp=TIME_MS + 7000,
        startingOffsetsByTimestampStrategy="latest",
    ),
    ok("a log that lost its start", subscribe="$cut"),
    ok(
        "gone offsets that may be missing",
        subscribe="$cut",
        startingOffsets=("cut", {"0": 1}),
        failOnDataLoss="false",
    ),
    ok(
        "an end that never was and may be missing",
        subscribe="$cut",
        endingOffsets=("cut", {"0": 15}),
        failOnDataLoss="false",
    ),
    ok(
        "a range that is gone and may be",
        subscribe="$cut",
        startingOffsets=("cut", {"0": 1}),
        endingOffsets=("cut", {"0": 3}),
        failOnDataLoss="false",
    ),
    ok("split into tasks", subscribe="$packed", minPartitions="7"),
    ok(
        "split by size",
        subscribe="$packed",
        startingOffsets=("packed", {"0": 3}),
        endingOffsets=("packed", {"0": 90}),
        maxRecordsPerPartition="20",
    ),
    ok("fewer tasks than partitions", subscribe="$main", minPartitions="1"),
    ok(
        "only committed records, where there are no others",
        subscribe="$main",
        kafka__isolation__level="read_committed",
    ),
    ok("a group's name", subscribe="$main", kafka__group__id="parity", groupIdPrefix="x"),
    ok(
        "small fetches",
        subscribe="$packed",
        kafka__max__partition__fetch__bytes="200",
        kafka__fetch__max__bytes="200",
    ),
    ok(
        "stream limits on a batch",
        subscribe="$main",
        maxOffsetsPerTrigger="2",
        minOffsetsPerTrigger="1",
        maxTriggerDelay="5m",
    ),
    refused("nothing to read is named"),
    refused("two ways to name it", subscribe="$main", subscribePattern="$main"),
    refused("an empty list of topics", subscribe=" , "),
    refused("an empty pattern", subscribePattern=" "),
    refused("partitions that are no JSON", assign="$main"),
    refused("a topic that is not there", subscribe="$main,no-such-topic"),
    refused("a partition of a topic that is not there", assign='{"no-such-topic": [0]}'),
    refused("a batch from the end", subscribe="$main", startingOffsets="latest"),
    refused("a batch to the start", subscribe="$main", endingOffsets="earliest"),
    refused("a partition from the end", subscribe="$cut", startingOffsets=("cut", {"0": -1})),
    refused("a partition to the start", subscribe="$cut", endingOffsets=("cut", {"0": -2})),
    refused("offsets that are no JSON", subscribe="$main", startingOffsets="first"),
    refused("too few offsets", subscribe="$main", startingOffsets=("main", {"0": 3})),
    refused("too many offsets", subscribe="$cut", startingOffsets=("cut", {"0": 4, "1": 0})),
    refused(
        "an end before the start",
        subscribe="$cut",
        startingOffsets=("cut", {"0": 8}),
        endingOffsets=("cut", {"0": 6}),
    ),
    refused("a time after the last record", subscribe="$main", startingTimestamp=TIME_MS + 7000),
    refused("a time that is none", subscribe="$main", startingTimestamp="yesterday"),
    refused(
        "times that leave a partition out",
        subscribe="$full",
        startingOffsetsByTimestamp=("full", {"0": TIME_MS}),
    ),
    refused(
        "an unknown strategy",
        subscribe="$main",
        startingTimestamp="1",
        startingOffsetsByTimestampStrategy="earliest",
    ),
    refused("gone offsets", subscribe="$cut", startingOffsets=("cut", {"0": 1})),
    refused("an end that never was", subscribe="$cut", endingOffsets=("cut", {"0": 15})),
    refused("no tasks", subscribe="$main", minPartitions="0"),
    refused("tasks without records", subscribe="$main", maxRecordsPerPartition="0"),
    refused("a number that is none", subscribe="$main", minPartitions="many"),
    refused("true or false or neither", subscribe="$main", failOnDataLoss="perhaps"),
    refused(
        "more at least than at most", subscribe="$main", minOffsetsPerTrigger="9", maxOffsetsPerTrigger="3"
    ),
    refused("a policy of the consumer", subscribe="$main", kafka__auto__offset__reset="earliest"),
    refused("commits by the consumer", subscribe="$main", kafka__enable__auto__commit="true"),
    refused("an interceptor", subscribe="$main", kafka__interceptor__classes="x.Y"),
    refused("a deserializer of keys", subscribe="$main", kafka__key__deserializer="x.Y"),
    refused("a deserializer of values", subscribe="$main", kafka__value__deserializer="x.Y"),
)

STREAM: Final = (
    ok("from the start", subscribe="$main", startingOffsets="earliest"),
    ok("from the end", subscribe="$main"),
    ok("by pattern", subscribePattern="$full|$main", startingOffsets="earliest"),
    ok("partitions", assign=("main", [0, 1]), startingOffsets="earliest"),
    ok("from offsets", subscribe="$main", startingOffsets=("main", {"0": 4, "1": -1, "2": -2})),
    ok("from a time", subscribe="$full", startingTimestamp=TIME_MS + 4500),
    ok("a share for each partition", subscribe="$main", startingOffsets="earliest", maxOffsetsPerTrigger="4"),
    ok("a share below one", subscribe="$full,$main", startingOffsets="earliest", maxOffsetsPerTrigger="3"),
    ok("nothing at a time", subscribe="$main", startingOffsets="earliest", maxOffsetsPerTrigger="0"),
    ok(
        "more at least than there is",
        subscribe="$main",
        startingOffsets="earliest",
        minOffsetsPerTrigger="1000",
    ),
    ok("headers", subscribe="$odd", startingOffsets="earliest", includeHeaders="true"),
    ok("split into tasks", subscribe="$packed", startingOffsets="earliest", minPartitions="4"),
    refused("an end", subscribe="$main", endingOffsets="latest"),
    refused(
        "times to end at", subscribe="$main", endingOffsetsByTimestamp=("main", {"0": 1, "1": 1, "2": 1})
    ),
    refused("gone offsets", subscribe="$cut", startingOffsets=("cut", {"0": 1})),
    refused("a topic that is not there", subscribe="no-such-topic"),
    refused("too few offsets", subscribe="$main", startingOffsets=("main", {"0": 3})),
)
