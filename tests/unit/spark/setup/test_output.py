"""Standard error of Spark's processes: what says nothing is left out, all else arrives."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from klamm.spark.setup.output import LineFilter, filtered_errors

NOISE = b"""\
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
26/11/17 22:00:45 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform
Traceback (most recent call last):
Traceback (most recent call last):
  File "/x/site-packages/pyspark/daemon.py", line 264, in manager
    code = worker(sock, authenticated)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/x/site-packages/pyspark/daemon.py", line 264, in manager
    code = worker(sock, authenticated)
  File "/x/site-packages/pyspark/daemon.py", line 95, in worker
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe
  File "/x/site-packages/pyspark/daemon.py", line 95, in worker
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe
"""
NEWS = b"""\
printed by a function of the job
Traceback (most recent call last):
  File "/jobs/revenue.py", line 4, in broken
    raise ValueError("no")
ValueError: no
26/11/17 22:00:45 ERROR Executor: something else
"""


def passed(text: bytes) -> bytes:
    written: list[bytes] = []
    lines = LineFilter(written.append)
    for line in text.splitlines(keepends=True):
        lines.line(line)
    lines.flush()
    return b"".join(written)


def test_what_says_nothing_is_left_out_and_all_else_passes() -> None:
    assert passed(NOISE) == b""
    assert passed(NEWS) == NEWS
    assert passed(NOISE + NEWS + NOISE) == NEWS


def test_a_traceback_at_the_very_end_is_not_lost() -> None:
    assert passed(b"Traceback (most recent call last):\n") == b"Traceback (most recent call last):\n"


def test_processes_that_are_started_meanwhile_are_filtered(capfd: pytest.CaptureFixture[str]) -> None:
    program = "import sys; sys.stderr.write('To adjust logging level use x\\nnews\\n')"
    with filtered_errors():
        subprocess.run([sys.executable, "-c", program], check=True)
    os.write(2, b"own\n")
    seen = ""
    deadline = time.monotonic() + 10
    while "news" not in seen and time.monotonic() < deadline:
        seen += capfd.readouterr().err
    assert sorted(seen.split()) == ["news", "own"]
