"""Help texts: each stands alone, since `klamm X --help` is read one option at a time."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from klamm.cli.app import COMMANDS, app

# They continue another text, or say nothing that the name does not say.
_NEEDS_ITS_NEIGHBOUR = re.compile(r"^(And|Or|Also|The same|Then|Likewise|These|This|Such|As in|For values)\b")
_OPTIONAL = re.compile(
    r"\b(default|without|only|repeatable|optional|include|print|[Ii]f|unless|need|needed|once)\b", re.I
)

# What --timeout limits where that is not the whole command.
_OTHER_TIMEOUTS = {
    "produce": "each record",
    "consume": "without a record",
    "move": "each request",
    "doctor": "each check",
}
_CHANGING = ("txns abort", "quotas set", "quotas remove")


def commands() -> Iterator[tuple[str, Any]]:
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
    is_value = parameter.param_type_name == "option" and not parameter.is_flag and not parameter.required
    if is_value and parameter.default is None and not parameter.multiple:
        assert _OPTIONAL.search(text), f"{name}: does not say what holds without it: {text!r}"


def test_a_timeout_says_what_it_limits() -> None:
    texts = {
        name.removesuffix(" --timeout"): each.help for name, each in parameters() if "--timeout" in each.opts
    }
    wrong = {
        name: text
        for name, text in texts.items()
        if _OTHER_TIMEOUTS.get(name, "the whole command") not in text
    }
    assert wrong == {}
    assert texts.keys() >= _OTHER_TIMEOUTS.keys()


def test_options_of_a_command_that_changes_something_do_not_speak_of_looking() -> None:
    texts = {name: each.help for name, each in parameters() if name.startswith(_CHANGING)}
    assert {name: text for name, text in texts.items() if "look at" in text or text.startswith("Only")} == {}
    assert len(texts) > len(_CHANGING)


def test_an_option_with_a_choice_names_each_value() -> None:
    choices = {name: each for name, each in parameters() if isinstance(each.default, Enum)}
    assert [
        f"{name}: {value}"
        for name, each in choices.items()
        for value in type(each.default)
        if not re.search(rf"\b{value.value}\b", each.help)
    ] == []
    assert choices


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=[name for name, _ in commands()])
def test_every_command_says_what_it_does_in_one_sentence(name: str, command: Any) -> None:
    first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
    assert len(first.split()) >= 3, f"{name}: {first!r}"
    assert first[0].isupper(), f"{name}: {first!r}"
    assert first.rstrip().endswith("."), f"{name}: {first!r}"


@pytest.mark.parametrize("command", ["", *(name for name, each in commands() if hasattr(each, "commands"))])
def test_lists_of_commands_cut_no_sentence(command: str) -> None:
    page = CliRunner().invoke(app, [*command.split(), "--help"], terminal_width=80).output
    listed = page.partition("Commands:")[2]
    assert [line for line in listed.splitlines() if line.rstrip().endswith("...")] == []
    assert listed.count("\n  ") >= 2


@pytest.mark.parametrize("command", COMMANDS)
def test_completion_is_an_option_of_klamm_alone(command: str) -> None:
    assert "completion" not in CliRunner().invoke(app, [command, "--help"]).output
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).output


def test_the_help_page_names_the_exit_codes() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"], terminal_width=100).output.split())
    assert "Exit codes: 0 done, 1 failed, 2 invalid command line or setting" in text
