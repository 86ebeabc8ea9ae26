"""Failures of a query: what they mean for the job, and the line that names their cause."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from klamm import errors
from klamm.protocol.errors import ErrorCode

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
FENCED: Final = 3  # another run of the job has taken over
DATA_LOST: Final = 4  # offsets to be read were deleted
BAD_RECORD: Final = 5  # a record does not fit the schema, and there is no topic for dead letters
ROWS_LOST: Final = 6  # a decided batch lacks rows that cannot be written again (txn.mode=per-task)
BAD_BATCH: Final = 7  # a batch fails whenever it is run: the transform raises, or stored data is damaged
NEEDS_CHECKPOINT: Final = 8  # the checkpoint does not fit the job, or cannot be read

# Error of a failed query -> exit code. Starting again does not help.
_FINAL: Final[Mapping[str, int]] = {
    "SinkFencedError": FENCED,
    "DataLossError": DATA_LOST,
    "LostRowsError": ROWS_LOST,
    "ManyWritersError": FAILED,
    "UnknownTopicError": FAILED,
    "SaslAuthenticationError": FAILED,
    "SslAuthenticationError": FAILED,
    "ConfigError": MISUSED,
    "CheckpointBehindError": NEEDS_CHECKPOINT,
}
# With its place: the text alone is in the plan that Spark prints with every failure.
_BAD_RECORD: Final = re.compile(r"the record does not fit source\.schema: \S+-\d+ offset \d+(?:: [^\n]*)?")
# Data that an expression cannot process (class 22 of the SQL standard), and raise_error in the query.
_BAD_VALUE: Final = re.compile(r"SQLSTATE: (22\w{3}|P0001)\b")
_STATES: Final = re.compile(r"(\s*SQLSTATE: \w{5})+\s*$")
_QUERY: Final = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_TASK: Final = re.compile(r"^Job aborted due to stage failure: .*? executor \S+\): ")
_OWN: Final = re.compile(r"^klamm\.(?:\w+\.)*(\w+Error): (.*)")
_RAISED: Final = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt))\b(?:: (.*))?$")
_FRAME: Final = re.compile(r'^\s+File "(.+)", line (\d+), in (.+)$')
_OUTAGES: Final = frozenset(
    name
    for name, item in vars(errors).items()
    if isinstance(item, type) and issubclass(item, errors.KlammError) and item.retriable is True
)
_PASSING: Final = re.compile("|".join(rf"\b{code.name.upper()}\b" for code in ErrorCode if code.retriable))

_DENIED: Final = re.compile(r"\b(TOPIC|GROUP|CLUSTER|TRANSACTIONAL_ID)_AUTHORIZATION_FAILED\b")

# A schema registry that does not answer, or has an error of its own.
_AWAY: Final = re.compile(r"did not answer|\(5\d\d(\d\d)?\)")


class JobFailedError(Exception):
    """The job ended with an error; `exit_code` is its class."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def final_code(text: str, *, is_analysis: bool = False) -> int | None:
    """The exit code of a failure that starting again does not mend; None for one that may pass."""
    if is_analysis:
        return None if is_outage(text) else MISUSED
    said = _said(text)
    if _BAD_RECORD.search(said):
        return BAD_RECORD
    for line in said.splitlines():
        own = _OWN.match(line)
        if own is not None and own[1] in _FINAL:
            return _FINAL[own[1]]
        if own is not None and _DENIED.search(own[2]):
            return FAILED
    return BAD_BATCH if _BAD_VALUE.search(said) else None


def is_outage(text: str) -> bool:
    """Whether the cluster did not answer, or not yet: that passes, however long it takes."""
    found = [own for own in map(_OWN.match, _said(text).splitlines()) if own is not None]
    if not found:
        return False
    name, message = found[-1].groups()
    if name == "SchemaRegistryError":
        return _AWAY.search(message) is not None
    return name in _OUTAGES or _PASSING.search(message) is not None


def cause_of(text: str) -> str:
    """The line of a failure that names its cause: the last Python error, else Spark's own first line."""
    said = _said(text)
    bad_record = _BAD_RECORD.search(said)
    if bad_record is not None:
        return f"{_STATES.sub('', bad_record[0])}; set source.dead_letters to keep such records"
    lines = said.splitlines()
    own = [found for found in map(_OWN.match, lines) if found is not None]
    if own:
        return own[-1][2]
    raised = _raised(lines)
    if raised is not None:
        return raised
    first = next((line.strip() for line in lines if line.strip()), "")
    first = _TASK.sub("", _QUERY.sub("", first))
    return _STATES.sub("", first) or "unknown failure"


def _said(text: str) -> str:
    """A failure without the description of the query that follows it."""
    return text.partition("=== Streaming Query ===")[0]


def _raised(lines: list[str]) -> str | None:
    """The last error of Python, with the line of code that raised it."""
    place = ""
    raised: str | None = None
    for line in lines:
        frame = _FRAME.match(line)
        if frame is not None:
            place = f" (in {frame[3]}, {frame[1]}, line {frame[2]})"
            continue
        error = _RAISED.match(line) if place else None
        if error is not None:
            raised = f"{error[1]}: {error[2]}{place}" if error[2] else f"{error[1]}{place}"
            place = ""
    return raised
