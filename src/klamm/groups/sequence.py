"""The requests of a group and their answers as a sequence diagram: for a terminal, as text, as Mermaid.

Entries are mappings as a trace has them (`klamm.coordinator.group.tracing`): requests, answers, and events of
the coordinator, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

Entry = Mapping[str, Any]
COORDINATOR: Final = "coordinator"
_WIDTH: Final = 14  # of a column
_MAX_LABEL: Final = 100
_UNSAID: Final = ("session_timeout_ms", "rebalance_timeout_ms")  # the same each time


class Actors:
    """Names for those who send requests: client ids, with a part of the member id where that is not enough.

    Only its answer tells who sent a first JoinGroup: `learn` takes entries before they are shown.
    """

    def __init__(self) -> None:
        self._member_of: dict[int, str] = {}  # by exchange
        self._client_of: dict[str, str] = {}  # by member id
        self._members_of: dict[str, list[str]] = {}  # by client id

    def learn(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry["kind"] == "event":
                continue
            member_id = entry["member_id"] or entry["facts"].get("member_id") or ""
            if member_id:
                self._member_of[entry["exchange"]] = member_id
                if member_id not in self._client_of:
                    self._client_of[member_id] = entry["client_id"]
                    self._members_of.setdefault(entry["client_id"], []).append(member_id)

    def name(self, entry: Entry) -> str:
        """Who sent a request, or is answered."""
        member_id = self._member_of.get(entry["exchange"])
        client_id = str(entry["client_id"])
        if member_id is not None:
            return self.of_member(member_id)
        known = self._members_of.get(client_id, ())
        return self.of_member(known[0]) if len(known) == 1 else client_id or "?"

    def of_member(self, member_id: str) -> str:
        client_id = self._client_of.get(member_id, "")
        if client_id and len(self._members_of[client_id]) == 1:
            return client_id
        return f"{client_id[:8]}…{member_id[-4:]}" if client_id else member_id

    def in_words(self, text: str) -> str:
        """Member ids replaced by names."""
        for member_id in self._client_of:
            text = text.replace(member_id, self.of_member(member_id))
        return text


def label(entry: Entry, actors: Actors) -> str:
    """What an arrow says."""
    facts = actors.in_words(_facts(entry["facts"]))
    if entry["kind"] == "request":
        said = f"{entry['api']} {facts}".rstrip()
    else:
        took = f" after {entry['took_ms']:,} ms" if entry["took_ms"] else ""
        error = entry["error"]
        said = f"{'OK' if error == 'NONE' else error} {facts}".rstrip() + took
    return said if len(said) <= _MAX_LABEL else f"{said[: _MAX_LABEL - 1]}…"


def _facts(facts: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in facts.items() if name not in _UNSAID)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value)


def transition(entry: Entry) -> str:
    """How the state of the group has changed; empty if it has not."""
    before, after = entry["state_before"], entry["state_after"]
    return f"{before} → {after}" if before != after else ""


def text_lines(entries: Iterable[Entry], actors: Actors, time: Callable[[int], str]) -> Iterator[str]:
    """One line for each entry; also line by line, as entries come."""
    for entry in entries:
        at = time(entry["timestamp_ms"])
        if entry["kind"] == "event":
            said = f"{COORDINATOR}: {actors.in_words(entry['text'])}"
        else:
            arrow = "→" if entry["kind"] == "request" else "←"
            said = f"{actors.name(entry)} {arrow} {label(entry, actors)}"
        yield f"{at}  {said}  [{transition(entry) or entry['state_after']}]"


class Diagram:
    """A diagram for a terminal: the coordinator on the left, those who send requests in columns."""

    def __init__(self, actors: Actors, time: Callable[[int], str]) -> None:
        self._actors = actors
        self._time = time
        self._columns: list[str] = []

    def lines(self, entries: Sequence[Entry]) -> Iterator[str]:
        """The lines of further entries; a heading whenever there is a new column."""
        names = [self._actors.name(each) for each in entries if each["kind"] != "event"]
        new = [name for name in dict.fromkeys(names) if name not in self._columns]
        if new:
            self._columns += new
            yield self._heading(entries[0])
        for entry in entries:
            yield self._line(entry)

    def _heading(self, first: Entry) -> str:
        left = " " * len(self._time(first["timestamp_ms"]))
        names = [COORDINATOR, *self._columns]
        return f"{left}  " + "".join(f"{name[: _WIDTH - 1]:^{_WIDTH}}" for name in names).rstrip()

    def _line(self, entry: Entry) -> str:
        at = self._time(entry["timestamp_ms"])
        if entry["kind"] == "event":
            drawn, said = self._lifelines(None, ""), f"· {self._actors.in_words(entry['text'])}"
        else:
            to = self._columns.index(self._actors.name(entry))
            drawn, said = self._lifelines(to, entry["kind"]), label(entry, self._actors)
        state = transition(entry)
        return f"{at}  {drawn}  {said}" + (f"   [{state}]" if state else "")

    def _lifelines(self, to: int | None, kind: str) -> str:
        half = _WIDTH // 2
        cells = [" "] * (_WIDTH * (len(self._columns) + 1))
        for number in range(len(self._columns) + 1):
            cells[number * _WIDTH + half] = "│"
        if to is not None:
            start, end = half, (to + 1) * _WIDTH + half
            for at in range(start + 1, end):
                cells[at] = "┼" if cells[at] == "│" else "─"
            cells[start + 1 if kind == "request" else end - 1] = "◀" if kind == "request" else "▶"
        return "".join(cells)


def mermaid(entries: Sequence[Entry], actors: Actors) -> str:
    """A sequence diagram for Mermaid, which GitHub and many editors draw."""
    names = dict.fromkeys(actors.name(each) for each in entries if each["kind"] != "event")
    ids = {name: f"m{number}" for number, name in enumerate(names, 1)}
    lines = ["sequenceDiagram", f"    participant c as {COORDINATOR}"]
    lines += [f"    participant {ids[name]} as {_plain(name)}" for name in names]
    for entry in entries:
        if entry["kind"] == "event":
            lines.append(f"    Note over c: {_plain(actors.in_words(entry['text']))}")
            if state := transition(entry):
                lines.append(f"    Note over c: {state}")
            continue
        actor, said = ids[actors.name(entry)], _plain(label(entry, actors))
        arrow = f"{actor}->>c" if entry["kind"] == "request" else f"c-->>{actor}"
        lines.append(f"    {arrow}: {said}")
        if state := transition(entry):
            lines.append(f"    Note over c: {state}")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """With entity codes for what Mermaid reads as its own: a name must neither end a line nor hide in it."""
    return "".join(f"#{ord(each)};" if each in _SPECIAL else each for each in " ".join(text.split()))


_SPECIAL: Final = frozenset("#;%<>")
