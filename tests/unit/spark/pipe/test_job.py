"""Job files: what they say, and what is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType
from typer.testing import CliRunner

from klamm.cli.pipe import app
from klamm.cli.pipe_lines import batch_line
from klamm.config import ConfigError
from klamm.spark.pipe.failures import MISUSED
from klamm.spark.pipe.job import job_of, load_job
from klamm.spark.pipe.query import schema_of, transformed
from klamm.spark.pipe.running import summary

FILE = """
bootstrap = "broker:9092"
trigger = "10 seconds"

[source]
topics = ["orders"]
format = "json"
schema = "product string, cents long"
dead_letters = "orders-dead"

[transform]
sql = "SELECT product, sum(cents) AS cents FROM input GROUP BY product"

[sink]
topic = "revenue"
key = "product"
mode = "complete"
options = { "kafka.linger.ms" = 5 }

[spark]
"spark.sql.shuffle.partitions" = 4
"""


def test_a_file_says_everything(tmp_path: Path) -> None:
    path = tmp_path / "revenue.toml"
    path.write_text(FILE)
    job = load_job(path)
    assert (job.name, job.bootstrap, job.topics, job.target) == (
        "revenue",
        "broker:9092",
        ("orders",),
        "revenue",
    )
    assert job.is_exactly_once
    assert job.checkpoint == "checkpoints/revenue"
    assert job.sink_options == {"kafka.linger.ms": "5"}
    assert job.spark == {"spark.sql.shuffle.partitions": "4"}


SMALLEST: dict[str, Any] = {"source": {"topics": "a"}, "sink": {"topic": "b"}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sourc": {}}, "unknown key sourc: did you mean source?"),
        ({"source": {"topic": "a"}}, "unknown key source.topic: did you mean topics?"),
        ({"source": {}}, "source.topics is missing"),
        ({"sink": {}}, "sink.topic is missing"),
        ({"sink": "b"}, "sink must be a table"),
        ({"delivery": "twice"}, "expected one of exactly-once, at-least-once"),
        ({"trigger": "ten seconds"}, "expected once, continuous, or an interval"),
        ({"trigger": "10"}, "expected once, continuous, or an interval"),
        ({"source": {"topics": "a", "format": "json"}}, "needs source.schema"),
        ({"source": {"topics": "a", "dead_letters": "d"}}, "needs source.format json, csv, avro"),
        ({"source": {"topics": "a", "schema": "a int"}}, "source.schema needs source.format json, csv, avro"),
        ({"source": {"topics": "a", "start": 5}}, "invalid value 5 for source.start: expected a text"),
        ({"source": {"topics": "a", "format": "avro"}}, "needs schema_registry ="),
        ({"schema_registry": "http://a"}, "schema_registry needs source.format or sink.format avro"),
        ({"sink": {"topic": "b", "schema": "x"}}, "sink.schema needs sink.format avro"),
        (
            {"schema_registry": "http://a", "sink": {"topic": "b", "format": "protobuf"}},
            "needs sink.schema: a subject, an id, or latest",
        ),
        ({"sink": {"topic": 5}}, "invalid value 5 for sink.topic: expected a text"),
        ({"transform": {"sql": "SELECT 1", "function": "a:b"}}, "remove one"),
        ({"transform": {"function": "nothing"}}, "module:function"),
        ({"transform": {"function": "no_such_module:f"}}, "cannot import no_such_module"),
        ({"transform": {"function": "json:nothing"}}, "module json has no function nothing"),
        ({"sink": {"topic": "b", "parallelism": 0}}, "a whole number, 1 or more"),
        ({"sink": {"topic": "b", "options": {"kafka": {"acks": 1}}}}, "needs quoted names"),
    ],
)
def test_a_wrong_file_says_what_to_write(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        job_of({**SMALLEST, **changes}, name="j")
    assert message in str(refused.value)


def test_check_explains_and_starts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "revenue.toml"
    path.write_text(FILE)
    result = CliRunner().invoke(app, ["check", "--offline", str(path)])
    assert result.exit_code == 0, result.output
    assert "reads        orders from earliest" in result.output
    assert "dead letters orders-dead, in the same transaction" in result.output
    assert "exactly once: transactional id revenue" in result.output
    path.write_text("delivery = ")
    refused = CliRunner().invoke(app, ["check", "--offline", str(path)])
    assert refused.exit_code == 2
    assert "is not TOML" in refused.output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('[source]\nstart = "lates"', "invalid value lates for startingOffsets"),
        ('[source]\noptions = { startingOffset = "earliest" }', "did you mean startingOffsets?"),
        ('[sink]\noptions = { "kafka.acks" = 5 }', "invalid value 5 for kafka.acks"),
    ],
)
def test_options_are_checked_with_the_file(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "revenue.toml"
    table, _, option = line.partition("\n")
    text = FILE.replace('options = { "kafka.linger.ms" = 5 }\n', "")
    path.write_text(text.replace(table, line))
    refused = CliRunner().invoke(app, ["check", "--offline", str(path)])
    assert refused.exit_code == MISUSED, option
    assert message in refused.output


def test_a_job_that_reads_what_it_writes_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "revenue.toml"
    path.write_text(FILE.replace('topic = "revenue"', 'topic = "orders"'))
    result = CliRunner().invoke(app, ["check", "--offline", str(path)])
    assert result.exit_code == 0, result.output
    assert "warning      the job reads topic orders and writes to it" in result.output


@pytest.mark.parametrize("trigger", ["once", "continuous", "10 seconds", "interval 1 minute 30 seconds"])
def test_a_trigger_is_a_word_or_an_interval(trigger: str) -> None:
    assert job_of({**SMALLEST, "trigger": trigger}, name="j").trigger == trigger


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_job_file_with_a_wrong_key_ends_with_exit_code_2_before_spark_starts(
    tmp_path: Path, command: str
) -> None:
    path = tmp_path / "revenue.toml"
    path.write_text(FILE.replace("dead_letters", "dead_leters"))
    refused = CliRunner().invoke(app, [command, str(path)])
    assert refused.exit_code == MISUSED
    assert "unknown key source.dead_leters: did you mean dead_letters?" in refused.output


def test_ctrl_c_ends_a_job_that_waits_for_its_cluster_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_args: Any, **_settings: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("klamm.spark.pipe.survey.missing_at_start", interrupted)
    path = tmp_path / "revenue.toml"
    path.write_text(FILE)
    stopped = CliRunner().invoke(app, ["run", str(path)])
    assert (stopped.exit_code, stopped.output) == (0, "stopped\n")


def raising(_rows: Any) -> Any:
    raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("import no_such_module_at_all", "cannot import broken_transform"),
        ("1 / 0", "importing broken_transform raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str
) -> None:
    (tmp_path / "broken_transform.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as refused:
        job_of({**SMALLEST, "transform": {"function": "broken_transform:f"}}, name="j")
    assert message in str(refused.value)


def test_a_module_that_needs_a_session_is_imported_when_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_udf.py").write_text(
        'from pyspark.sql import functions as f\n@f.udf("long")\ndef same(value):\n    return value\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    job = job_of({**SMALLEST, "transform": {"function": "with_udf:f"}}, name="j")
    assert job.function == "with_udf:f"


def test_a_function_that_raises_is_named_with_its_error() -> None:
    job = job_of({**SMALLEST, "transform": {"function": f"{__name__}:raising"}}, name="j")
    rows: Any = None
    with pytest.raises(ConfigError, match=r":raising raised ZeroDivisionError: by nothing"):
        transformed(rows, job, rows)


def test_a_schema_that_spark_cannot_read_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_text: str) -> StructType:
        raise PySparkException('\n[UNSUPPORTED_DATATYPE] Unsupported type "LANG". SQLSTATE: 0A000\n== SQL ==')

    monkeypatch.setattr(StructType, "fromDDL", refused)
    tables = {**SMALLEST, "source": {"topics": "a", "format": "json", "schema": "cents lang"}}
    job = job_of(tables, name="j")
    message = '"cents lang" for source.schema: [UNSUPPORTED_DATATYPE] Unsupported type "LANG".'
    with pytest.raises(ConfigError) as error:
        schema_of(job)
    assert str(error.value).endswith(message)


def test_the_one_line_form_needs_both_topics() -> None:
    refused = CliRunner().invoke(app, ["--from", "a"])
    assert refused.exit_code == 2
    assert "--from TOPIC and --to TOPIC" in refused.output


def test_a_batch_becomes_a_line() -> None:
    progress = {
        "batchId": 7,
        "numInputRows": 1200,
        "processedRowsPerSecond": 2400.4,
        "sources": [
            {
                "startOffset": '{"t":{"0":3,"1":5}}',
                "latestOffset": '{"t":{"0":3090,"1":5}}',
                "endOffset": '{"t":{"0":3060,"1":5}}',
            }
        ],
        "stateOperators": [{"numRowsTotal": 12, "memoryUsedBytes": 30_000}],
        "durationMs": {"triggerExecution": 500},
    }
    shown = " ".join(batch_line(summary(progress)).split())
    assert shown == "batch 7 1,200 rows 2,400 rows/s lag 30 500 ms 12 rows of state, 29 KiB"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ('{"t":{"0":100,"1":100}}', '{"t":{"0":105,"1":100}}'),
        (None, '{"$initial":{"t":{"0":100,"1":100}},"t":{"0":105,"1":100}}'),
    ],
)
def test_a_record_that_two_branches_of_the_query_read_is_one_row(start: str | None, end: str) -> None:
    progress = {
        "batchId": 0,
        "numInputRows": 10,
        "processedRowsPerSecond": 20.0,
        "sources": [{"startOffset": start, "latestOffset": end, "endOffset": end}],
        "stateOperators": [],
        "durationMs": {"triggerExecution": 500},
    }
    shown = summary(progress)
    assert (shown["rows"], shown["rows_per_second"], shown["lag"]) == (5, 10.0, 0)
