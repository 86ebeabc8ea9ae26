"""`klamm groups diagnose`: what is wrong with a group, and what to do."""

from __future__ import annotations

import re
import textwrap
from typing import Annotated, Final

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    print_json,
    problem_of,
)
from klamm.cli.completion import complete_groups
from klamm.cli.exit_codes import FAILED, NEEDS_ATTENTION
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo, echo_lines
from klamm.cli.survey import MINUTE_MS, survey
from klamm.groups.diagnosis.finding import Diagnosis, Finding

WIDTH: Final = 110


def diagnose(
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...", help="The ids of groups; default: all.", autocompletion=complete_groups
        ),
    ] = None,
    window: Annotated[
        float,
        typer.Option("--window", metavar="MINUTES", help="How many minutes of history are looked at."),
    ] = 10,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with groups, with the evidence and what to do next.

    Each statement is marked: exact, as the cluster states it, or inferred from that. Works with klamm, and
    with any Kafka cluster as far as its protocol tells. Exit code 0: all is well; 3: a group needs attention.

    \b
      klamm groups diagnose
      klamm groups diagnose billing
      klamm groups diagnose --json
    """
    if window <= 0:
        fail("--window must be above 0", MISUSED)
    looked = survey(bootstrap, timeout, groups or (), round(window * MINUTE_MS))
    found, errors = [diagnosis for _, diagnosis in looked.groups], looked.errors
    if as_json:
        print_json([each.as_json() for each in found])
    elif not found and not errors:
        echo("No groups.")
    else:
        for number, each in enumerate(found):
            if number:
                echo()
            _print(each)
    for group_id, error in errors.items():
        echo(f"klamm: {problem_of(group_id, error)}", err=True)
    if errors:
        raise typer.Exit(FAILED)
    if not all(each.is_well for each in found):
        raise typer.Exit(NEEDS_ATTENTION)


def _print(diagnosis: Diagnosis) -> None:
    first, *others = diagnosis.findings
    echo(f"{diagnosis.group_id}: {first.verdict.value.upper()}")
    print_finding(first)
    for each in others:
        echo(f"  also: {each.verdict.value}")
        _wrapped(each.summary, "    ")


def print_finding(finding: Finding) -> None:
    _wrapped(finding.summary, "  ")
    for each in finding.evidence:
        _wrapped(f"{each.text}", f"  {each.certainty.value:>8}  ")
    for step in finding.next_steps:
        _wrapped(step, "  do next:  ")


def _wrapped(text: str, head: str) -> None:
    """A paragraph. Ids and commands are copied from here: they are not broken."""
    if len(head) + len(text) <= WIDTH:
        echo(head + text)  # as most are, of ten thousand groups
        return
    lines = textwrap.fill(
        _COMMAND.sub(lambda found: found[0].replace(" ", _NO_BREAK), text),
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
        break_long_words=False,
    )
    echo_lines(lines.replace(_NO_BREAK, " "))


_COMMAND: Final = re.compile("`[^`]*`")
_NO_BREAK: Final = "\0"
