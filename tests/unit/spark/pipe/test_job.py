"""Job files: what they say, and what is refused before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from klamm.cli.pipe import app
from klamm.cli.pipe_lines import batch_line
from klamm.config import ConfigError
from klamm.spark.pipe.failures import MISUSED
from klamm.spark.pipe.job import job_of, load_job
from klamm.spark.pipe.query import transformed
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
        ({"source": {"topics": "a", "format": "json"}}, "needs source.schema"),
        ({"source": {"topics": "a", "dead_letters": "d"}}, "needs source.format json or csv"),
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


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_job_file_with_a_wrong_key_ends_with_exit_code_2_before_spark_starts(
    tmp_path: Path, command: str
) -> None:
    path = tmp_path / "revenue.toml"
    path.write_text(FILE.replace("dead_letters", "dead_leters"))
    refused = CliRunner().invoke(app, [command, str(path)])
    assert refused.exit_code == MISUSED
    assert "unknown key source.dead_leters: did you mean dead_letters?" in refused.output


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


def test_the_one_line_form_needs_both_topics() -> None:
    refused = CliRunner().invoke(app, ["--from", "a"])
    assert refused.exit_code == 2
    assert "--from TOPIC and --to TOPIC" in refused.output


def test_a_batch_becomes_a_line() -> None:
    progress = {
        "batchId": 7,
        "numInputRows": 1200,
        "processedRowsPerSecond": 2400.4,
        "sources": [{"latestOffset": '{"t":{"0":90,"1":5}}', "endOffset": '{"t":{"0":60,"1":5}}'}],
        "stateOperators": [{"numRowsTotal": 12, "memoryUsedBytes": 30_000}],
        "durationMs": {"triggerExecution": 500},
    }
    shown = " ".join(batch_line(summary(progress)).split())
    assert shown == "batch 7 1,200 rows 2,400 rows/s lag 30 500 ms 12 rows of state, 29 KiB"
