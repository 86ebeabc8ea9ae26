"""Failures of a query as Spark reports them: the line that names the cause, and what becomes of the job."""

from __future__ import annotations

import pytest

from klamm.spark.pipe.failures import (
    BAD_BATCH,
    BAD_RECORD,
    DATA_LOST,
    FAILED,
    FENCED,
    MISUSED,
    cause_of,
    final_code,
    is_outage,
)

BEGIN = "[STREAM_FAILED] Query [id = 1e36c428, runId = 44bcd015] terminated with exception: "
WORKER = (
    BEGIN
    + "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
    + "Traceback (most recent call last):\n"
)
# Spark adds the plan, in which every text of the job stands, this one in each job without dead letters.
END = (
    " SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: j\n"
    "+- ~Filter raise_error(concat(the record does not fit source.schema: , x)) ConfigError SQLSTATE: 22018\n"
)
FUNCTION = (
    WORKER
    + '  File "/jobs/revenue.py", line 4, in broken\n    raise ValueError(f"cannot handle {c}")\n'
    + "           ^^^^^^^\nValueError: cannot handle 2\n"
    + END
)
CRASHED = (
    BEGIN
    + "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task "
    + "0.0 in stage 1.0 (TID 1) (x executor driver): org.apache.spark.SparkException: Python worker exited "
    + "unexpectedly (crashed).\n\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala)\n"
    + END
)
DAMAGED = WORKER + "klamm.errors.ProtocolError: reading t-0 failed: checksum mismatch\n" + END
AWAY = WORKER + "klamm.errors.KlammTimeoutError: describing topics timed out after 60000 ms\n" + END
MOVING = WORKER + "klamm.errors.BrokerError: fetching t-0: NOT_LEADER_OR_FOLLOWER\n" + END
REFUSED = WORKER + "klamm.errors.BrokerError: fetching t-0: TOPIC_AUTHORIZATION_FAILED\n" + END
NO_NUMBER = (
    BEGIN + "[CAST_INVALID_INPUT] The value 'a' is malformed. SQLSTATE: 22018\n== SQL (line 1) ==\n" + END
)
ASSERTED = BEGIN + "[USER_RAISED_EXCEPTION] neg SQLSTATE: P0001" + END
BAD = (
    BEGIN
    + "[USER_RAISED_EXCEPTION] the record does not fit source.schema: orders-0 offset 12 SQLSTATE: P0001"
    + END
)
NO_AVRO = BAD.replace("offset 12", "offset 12: value: b'x' is not Avro SQLSTATE: P0001")
NO_REGISTRY = (
    "[PYTHON_DATA_SOURCE_ERROR] Failed to create: Traceback (most recent call last):\n"
    "klamm.schemas.registry_client.SchemaRegistryError: the schema registry did not answer GET http://r/1 "
    "within 10 s: [Errno 111] Connection refused\n"
)
TAKEN_OVER = (
    WORKER + "klamm.spark.write.steps.SinkFencedError: transactionalId x is used by a newer query\n" + END
)
GONE = WORKER + "klamm.spark.read.loss.DataLossError: offsets 3 to 5 are not in the log\n" + END


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (FUNCTION, "ValueError: cannot handle 2 (in broken, /jobs/revenue.py, line 4)"),
        (CRASHED, "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."),
        (DAMAGED, "reading t-0 failed: checksum mismatch"),
        (NO_NUMBER, "[CAST_INVALID_INPUT] The value 'a' is malformed."),
        (ASSERTED, "[USER_RAISED_EXCEPTION] neg"),
        (
            BAD,
            "the record does not fit source.schema: orders-0 offset 12; "
            "set source.dead_letters to keep such records",
        ),
        (
            NO_AVRO,
            "the record does not fit source.schema: orders-0 offset 12: value: b'x' is not Avro; "
            "set source.dead_letters to keep such records",
        ),
        (TAKEN_OVER, "transactionalId x is used by a newer query"),
        ("", "unknown failure"),
    ],
)
def test_the_cause_of_a_failure_is_one_line(text: str, cause: str) -> None:
    assert cause_of(text) == cause


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        (TAKEN_OVER, FENCED),
        (GONE, DATA_LOST),
        (BAD, BAD_RECORD),
        (NO_NUMBER, BAD_BATCH),
        (ASSERTED, BAD_BATCH),
        (WORKER + "klamm.config.ConfigError: unknown option\n" + END, MISUSED),
        (WORKER + "klamm.errors.SaslAuthenticationError: b:1: PLAIN: user a: no\n" + END, FAILED),
        (WORKER + "klamm.errors.SslAuthenticationError: b:1: TLS: it has expired\n" + END, FAILED),
        (WORKER + "klamm.errors.BrokerError: job.sink: GROUP_AUTHORIZATION_FAILED\n" + END, FAILED),
        (FUNCTION, None),
        (CRASHED, None),
        (DAMAGED, None),
        (AWAY, None),
    ],
)
def test_a_failure_is_final_or_may_pass(text: str, exit_code: int | None) -> None:
    assert final_code(text) == exit_code
    assert final_code(text, is_analysis=True) == (None if text == AWAY else MISUSED)


@pytest.mark.parametrize("text", [AWAY, MOVING, NO_REGISTRY])
def test_a_cluster_that_does_not_answer_is_waited_for(text: str) -> None:
    assert is_outage(text)


@pytest.mark.parametrize("text", [FUNCTION, CRASHED, DAMAGED, REFUSED, ASSERTED])
def test_all_else_is_not_the_cluster_being_away(text: str) -> None:
    assert not is_outage(text)
