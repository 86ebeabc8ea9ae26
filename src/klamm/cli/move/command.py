"""The command line of `klamm move`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from klamm.cli.cluster import AsJson, clear_errors, print_json, print_table
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.move.checking import checked, differences
from klamm.cli.move.copying import copy_records
from klamm.cli.move.ends import End, open_end
from klamm.cli.move.group_offsets import GroupMove, groups_to_move, move_group_offsets
from klamm.cli.move.state import MoveError, MoveState, load_state, save_state
from klamm.cli.move.topics import MovedTopic, apply_configs, chosen_topics, prepare_target
from klamm.cli.output import echo
from klamm.protocol.types import TopicPartition

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_STATE: Final = "klamm-move.json"
_SHOW_EVERY_S: Final = 0.5
_LINE_EVERY_S: Final = 5.0  # where standard error is not a terminal


@app.command()
def move(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="What is copied: HOST:PORT of a running cluster, or @NAME of a profile, a data folder, or "
            "postgresql://… of a database.",
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Where it is copied to: HOST:PORT, @NAME, a data folder, which is created if needed, or "
            "postgresql://….",
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="PATTERN", help="Copy only topics like this, as in 'orders*'; repeatable."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="PATTERN", help="Do not copy topics like this; repeatable."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="PATTERN", help="Copy only groups like this; repeatable."),
    ] = None,
    state_file: Annotated[
        Path,
        typer.Option("--state", metavar="FILE", help="The file for the progress of this move, to resume it."),
    ] = Path(_STATE),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be copied.")] = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not read the copies again to compare them.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="Seconds that each request about topics and groups may take; copying is not limited.",
        ),
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Copy topics, their configuration and the offsets of consumer groups to another cluster.

    Either end is a running cluster (klamm or Apache Kafka), or a data folder or database of klamm whose
    broker is stopped. Records keep their order, timestamps, keys and headers; aborted ones are left out.
    Offsets shift where the source has gaps, and committed offsets are translated. The command can be
    interrupted and run again: it goes on where it was. Run again later, it copies what was added.

    \b
      klamm move kafka1:9092 localhost:9092
      klamm move @old @new
      klamm move ./klamm-data postgresql://db/klamm --topic 'orders*'
      klamm move localhost:9092 ./copy --dry-run
    """
    if source == target:
        fail("SOURCE and TARGET are the same", MISUSED)
    with clear_errors(), ExitStack() as stack:
        from_end = stack.enter_context(open_end(source, must_exist=True, timeout=timeout))
        topics = chosen_topics(from_end.admin, topic or (), exclude or ())
        ends, starts = _extent(from_end, topics)
        groups = groups_to_move(from_end, [each.name for each in topics], group or ())
        if dry_run:
            _show_plan(topics, groups, starts, ends, as_json)
            return
        to_end = stack.enter_context(open_end(target, must_exist=False, timeout=timeout))
        if from_end.cluster_id == to_end.cluster_id:
            raise MoveError(f"{from_end.name} and {to_end.name} are the same cluster, {from_end.cluster_id}")
        state = load_state(state_file, from_end.cluster_id, to_end.cluster_id)
        before = sum(each.offsets.target_next for each in state.partitions.values())
        prepare_target(to_end, state, topics)
        _move_records(from_end, to_end, state, state_file, starts, ends, is_checked=not no_check)
        refused = apply_configs(to_end.admin, topics)
        failed = move_group_offsets(to_end, state, groups)
        copied = sum(each.offsets.target_next for each in state.partitions.values()) - before
        _show_result(topics, groups, copied, as_json, is_checked=not no_check)
    for each in groups:
        if each.has_members and each.group_id not in failed:
            _say(
                f"group {each.group_id} has members at {from_end.name}: run the command again when they have "
                "stopped"
            )
    for name, error in refused.items():
        _say(f"topic {name}: its configuration was refused by {to_end.name}: {error}")
    for name, error in failed.items():
        _say(f"group {name}: its offsets were refused by {to_end.name}: {error}")
    if refused or failed:
        raise typer.Exit(FAILED)


Offsets = dict[TopicPartition, int]


def _extent(source: End, topics: list[MovedTopic]) -> tuple[Offsets, Offsets]:
    """Where each partition ends and begins now."""
    partitions = [key for each in topics for key in each.partitions]
    if not partitions:
        return {}, {}
    # In a store that is served for this command, what brokers with other ids led is taken over a moment after
    # the start.
    source.admin.wait_for_topics([each.name for each in topics])
    latest = source.admin.list_offsets(partitions, read_committed=True)
    earliest = source.admin.list_offsets(partitions, "earliest")
    return (
        {key: each.offset for key, each in latest.items()},
        {key: each.offset for key, each in earliest.items()},
    )


def _move_records(
    source: End,
    target: End,
    state: MoveState,
    state_file: Path,
    starts: Offsets,
    ends: Offsets,
    *,
    is_checked: bool,
) -> None:
    def save() -> None:
        try:
            save_state(state_file, state)
        except OSError as error:
            raise MoveError(f"cannot write the state file {state_file}: {error}") from error

    save()
    total = sum(
        max(0, end - max(starts[key], state.partitions[key].source_next)) for key, end in ends.items()
    )
    with _Progress("copying", total) as progress:
        copy_records(source, target, state, ends, save=save, on_progress=progress.add)
    if is_checked:
        total = sum(each.offsets.target_next - each.checked_to for each in state.partitions.values())
        with _Progress("checking", total) as progress:
            found = differences(target, state, progress.add)
        if found:
            raise MoveError(
                f"the copies differ: {'; '.join(found[:10])}: delete these topics at the target, "
                "and move them again"
            )
    checked(state)
    save()


class _Progress:
    """One line on standard error: rewritten on a terminal, else a new one now and then."""

    def __init__(self, what: str, total: int, now: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._total = total
        self._now = now
        self._began_at = self._shown_at = now()
        self._count = self._bytes = 0
        self._is_terminal = sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._is_terminal and self._shown_at != self._began_at:
            echo("", err=True)

    def add(self, count: int, size: int) -> None:
        self._count += count
        self._bytes += size
        now = self._now()
        if now - self._shown_at >= (_SHOW_EVERY_S if self._is_terminal else _LINE_EVERY_S):
            self._shown_at = now
            line = self._line(now - self._began_at)
            typer.echo(f"\r{line:<79}" if self._is_terminal else line, err=True, nl=not self._is_terminal)

    def _line(self, seconds: float) -> str:
        rate = self._count / seconds
        left = max(0, self._total - self._count) / rate if rate else 0.0
        return (
            f"{self._what}: {self._count:,} of {self._total:,} records, {self._bytes / 1e6:,.1f} MB, "
            f"{rate:,.0f}/s, {left:,.0f} s left"
        )


def _show_plan(
    topics: list[MovedTopic], groups: list[GroupMove], starts: Offsets, ends: Offsets, as_json: bool
) -> None:
    rows = [
        {
            "topic": each.name,
            "partitions": len(each.partitions),
            "offsets": sum(ends[key] - starts[key] for key in each.partitions),
            "configs": each.configs,
        }
        for each in topics
    ]
    if as_json:
        print_json({"topics": rows, "groups": {each.group_id: len(each.offsets) for each in groups}})
        return
    print_table(
        ("topic", "partitions", "offsets", "settings"),
        [
            (each.name, row["partitions"], row["offsets"], len(each.configs))
            for each, row in zip(topics, rows, strict=True)
        ],
    )
    print_table(("group", "offsets"), [(each.group_id, len(each.offsets)) for each in groups])


def _show_result(
    topics: list[MovedTopic], groups: list[GroupMove], copied: int, as_json: bool, *, is_checked: bool
) -> None:
    if as_json:
        print_json({"topics": len(topics), "records": copied, "groups": len(groups), "checked": is_checked})
        return
    ending = "; the copies are the same as the originals" if is_checked else ""
    echo(f"{len(topics)} topics, {copied:,} records and the offsets of {len(groups)} groups copied{ending}")


def _say(message: str) -> None:
    echo(f"klamm: {message}", err=True)
