"""Help texts: each stands alone, since `klamm X --help` is read one option at a time."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest
import typer

from klamm.cli.app import COMMANDS

# They continue another text, or say nothing that the name does not say.
_NEEDS_ITS_NEIGHBOUR = re.compile(r"^(And|Or|Also|The same|Then|Likewise|These|This|Such|As in|For values)\b")
_OPTIONAL = re.compile(
    r"\b(default|without|only|repeatable|optional|include|print|[Ii]f|unless|need|once)\b", re.I
)


def commands() -> Iterator[tuple[str, click.Command]]:
    for name, module in COMMANDS.items():
        command: Any = typer.main.get_command(importlib.import_module(f"klamm.cli.{module}").app)
        yield from flat(name, command)


def flat(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for sub, each in getattr(command, "commands", {}).items():
        yield from flat(f"{name} {sub}", each)


def parameters() -> list[tuple[str, Any]]:
    return [
        (f"{name} {each.opts[0]}", each)
        for name, command in commands()
        for each in command.params
        if each.opts[0] not in ("--help", "--install-completion", "--show-completion")
    ]


@pytest.mark.parametrize(("name", "parameter"), parameters(), ids=[name for name, _ in parameters()])
def test_a_help_text_stands_alone(name: str, parameter: Any) -> None:
    text = parameter.help or ""
    assert len(text.split()) >= 3, f"{name}: says too little: {text!r}"
    assert text[0].isupper() or not text[0].isalpha(), f"{name}: begins in the middle: {text!r}"
    assert text.rstrip("]").endswith((".", ")", ";")) or "[default:" in text, f"{name}: ends early: {text!r}"
    assert not _NEEDS_ITS_NEIGHBOUR.match(text), f"{name}: needs its neighbour: {text!r}"
    assert "the same" not in text.lower(), f"{name}: refers to another text: {text!r}"
    if parameter.metavar == "SECONDS":
        assert "second" in text.lower(), f"{name}: says no unit: {text!r}"
    is_value = isinstance(parameter, click.Option) and not parameter.is_flag and not parameter.required
    if is_value and parameter.default is None and not parameter.multiple:
        assert _OPTIONAL.search(text), f"{name}: does not say what holds without it: {text!r}"


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=[name for name, _ in commands()])
def test_every_command_says_what_it_does_in_one_sentence(name: str, command: Any) -> None:
    first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
    assert len(first.split()) >= 3, f"{name}: {first!r}"
    assert first[0].isupper(), f"{name}: {first!r}"
    assert first.rstrip().endswith("."), f"{name}: {first!r}"
