"""`klamm dump`: the content of log files, as text or JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from klamm.cli.dump_files import DumpError, Fact, facts
from klamm.cli.dump_journal import Journals
from klamm.cli.dump_store import exported, stored_facts, stored_partitions
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.output import echo, echo_lines

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def dump(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILES...",
            help="Log files, or folders of partitions for their whole logs. With --store: partitions as "
            "TOPIC-PARTITION; without any, they are listed.",
        ),
    ] = None,
    records: Annotated[
        bool, typer.Option("--records", "-r", help="Print each record, not only its batch.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="URL",
            help="Read partitions from this PostgreSQL database; default: from files.",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="FOLDER",
            help="Write segment files to this folder and print nothing; only with --store.",
        ),
    ] = None,
) -> None:
    """Print the content of log files: segments, indexes, producer snapshots, checkpoints.

    Reads files of klamm and of Apache Kafka, checks the checksum of every batch, and changes nothing. Behind
    the last segment of a partition, what only klamm's journal has is printed, too: a running broker writes
    it to the segments within a minute, a killed one when it starts again. The exit code is 1 when something
    cannot be read to its end.

    \b
      klamm dump klamm-data/orders-0
      klamm dump klamm-data/orders-0/*.log
      klamm dump --records --json klamm-data/orders-0/00000000000000000000.log
      klamm dump --records klamm-data/__transaction_state-*
      klamm dump klamm-data/orders-0/*.index klamm-data/orders-0/*.timeindex
      klamm dump klamm-data/*checkpoint klamm-data/orders-0/leader-epoch-checkpoint
      klamm dump --store postgresql://klamm@db/klamm
      klamm dump --store postgresql://klamm@db/klamm --records orders-0
      klamm dump --store postgresql://klamm@db/klamm --export kafka-logs orders-0 orders-1
    """
    if export is not None and store is None:
        fail("--export needs --store: files are Kafka's already", MISUSED)
    if not files:
        _list_partitions(store, export, as_json=as_json)
        return
    is_whole = True
    journals = Journals()
    for path in files:
        if len(files) > 1 and not as_json and export is None:
            echo(f"{path}:")
        try:
            if store is None:
                found = facts(path, journals, with_records=records)
            elif export is None:
                found = stored_facts(store, str(path), with_records=records)
            else:
                echo(f"wrote {exported(store, str(path), export)}", err=True)
                continue
            for fact in found:
                echo_lines(json.dumps({"file": str(path), **fact}) if as_json else as_line(fact))
        except DumpError as error:
            is_whole = False
            echo(f"klamm: {error}", err=True)
    if not is_whole:
        raise typer.Exit(FAILED)


def _list_partitions(store: str | None, export: Path | None, *, as_json: bool) -> None:
    if store is None:
        fail("name the folder of a partition, as in klamm-data/orders-0, or files of its log", MISUSED)
    if export is not None:
        fail("--export needs the partitions to export, as in orders-0", MISUSED)
    try:
        for fact in stored_partitions(store):
            echo_lines(json.dumps(fact) if as_json else as_line(fact))
    except DumpError as error:
        fail(error)


def as_line(fact: Fact) -> str:
    """An entry as text; the records of a batch follow it, indented."""
    if fact["type"] != "batch":
        return "  ".join(_pair(name, value) for name, value in fact.items() if name != "type")
    lines = [_batch_line(fact)]
    is_marker = "marker" in fact  # whose record says what the line of the batch has said
    for record in () if is_marker else fact.get("records", ()):
        content = {name: value for name, value in record.items() if name not in _RECORD_COLUMNS}
        lines.append(
            f"    {record['offset']}  {_instant(record['timestamp_ms'])}  "
            + "  ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in content.items())
            + (f"  headers {json.dumps(record['headers'])}" if record["headers"] else "")
        )
    return "\n".join(lines)


_RECORD_COLUMNS: Final = frozenset({"offset", "timestamp_ms", "headers"})
_TIMES: Final = frozenset({"timestamp_ms", "last_timestamp_ms"})


def _pair(name: str, value: object) -> str:
    label = name.removesuffix("_ms").replace("_", " ")
    return f"{label} {_instant(value) if name in _TIMES and isinstance(value, int) else value}"


def _batch_line(batch: Fact) -> str:
    place = "in the journal" if batch["in_journal"] else f"at {batch['position']}"
    parts = [
        f"offsets {batch['base_offset']}-{batch['last_offset']}",
        f"{batch['record_count']} record(s)",
        f"{batch['size_bytes']} bytes {place}",
        f"epoch {batch['leader_epoch']}",
        f"{batch['timestamp_type']} {_instant(batch['max_timestamp_ms'])}",
    ]
    if batch["codec"] != "none":
        parts.append(batch["codec"])
    if batch["producer_id"] >= 0:
        parts.append(f"producer {batch['producer_id']} epoch {batch['producer_epoch']}")
        if batch["base_sequence"] >= 0:
            parts.append(f"sequences {batch['base_sequence']}-{batch['last_sequence']}")
    if batch["is_transactional"]:
        parts.append("transactional")
    if batch["is_control"]:
        marker = f"control {batch['marker']} coordinator epoch {batch.get('coordinator_epoch')}"
        parts.append(marker if "marker" in batch else "control")
    if batch["delete_horizon_ms"] is not None:
        parts.append(f"delete horizon {_instant(batch['delete_horizon_ms'])}")
    return "  ".join(parts)


def _instant(timestamp_ms: int) -> str:
    """A wall-clock time, or the number where it is outside the calendar."""
    if timestamp_ms < 0:
        return "none"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
