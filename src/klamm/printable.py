"""Text that somebody else chose, for logs and terminals: no control characters, not too long.

Names, ids, messages and addresses come from clients and brokers. A line end in one of them would be a line
of the log that nothing has written, and an escape sequence would be carried out by the terminal.
"""

from __future__ import annotations

from typing import Final

MOST_CHARACTERS: Final = 200


def printable(text: str, most: int = MOST_CHARACTERS) -> str:
    """One line, cut, in which everything that is not printable is shown as a Python escape."""
    if len(text) > most:
        return printable(text[:most], most) + "..."
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_lines(text: str) -> str:
    """The same of a text that may have lines and tabs, without a limit."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(each if each in "\n\t" else _shown(each) for each in text)


def printable_json(text: str) -> str:
    """Escape in JSON what it allows in strings and is not printable: the value stays the same."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(each if each == "\n" or each.isprintable() else _in_json(each) for each in text)


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2))
