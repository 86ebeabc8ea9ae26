"""Fill in the diagrams of docs/how-a-group-works.md and of its Chinese version, made from the code.

python tools/group_diagrams.py

A diagram stands between `<!-- made by tools/group_diagrams.py: NAME -->` and the end of the fence that
follows. States are the tables that the coordinators check; sequences are what scripted groups ask and are
answered.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from klamm.coordinator.group.classic.phases import NEXT_PHASES, Phase  # noqa: E402 - found once its folder is on the path
from klamm.coordinator.transaction.states import NEXT_STATES, State  # noqa: E402 - found once its folder is on the path
from klamm.groups.sequence import Actors, mermaid  # noqa: E402 - found once its folder is on the path
from klamm.testing import ScriptedGroup  # noqa: E402 - found once its folder is on the path

PAGES: Final = (ROOT / "docs/how-a-group-works.md", ROOT / "docs/zh/how-a-group-works.md")
_PLACE: Final = re.compile(
    r"(<!-- made by tools/group_diagrams\.py: (\w+) -->\n\n```mermaid\n)(.*?)(^```$)",
    re.MULTILINE | re.DOTALL,
)


def group_states() -> str:
    """The states of a group in the classic protocol."""
    names = {phase: phase.value for phase in Phase}
    return _states(
        names[Phase.EMPTY], ((names[a], names[b]) for a, after in NEXT_PHASES.items() for b in after)
    )


def transaction_states() -> str:
    """The states of a transactional id."""
    return _states(State.EMPTY.label, ((a.label, b.label) for a, after in NEXT_STATES.items() for b in after))


def _states(first: str, changes: Iterable[tuple[str, str]]) -> str:
    lines = sorted(f"    {before} --> {after}" for before, after in changes if before != after)
    return "\n".join(["stateDiagram-v2", f"    [*] --> {first}", *lines]) + "\n"


def first_join() -> str:
    """A member joins an empty group."""
    group = ScriptedGroup({"orders": 4})
    group.join("anna")
    group.settle()
    return _sequence(group.requests)


def second_join() -> str:
    """A member joins a group that is at work."""
    return _since(lambda group: group.join("bert"))


def death() -> str:
    """A member ends without a word."""
    return _since(lambda group: group.die("bert"), members=("anna", "bert"))


def consumer_join() -> str:
    """A member joins a group of the consumer protocol."""
    return _since(lambda group: group.join("bert"), settings={"group.protocol": "consumer"})


def _since(
    step: Callable[[ScriptedGroup], Any],
    members: tuple[str, ...] = ("anna",),
    settings: dict[str, str] | None = None,
) -> str:
    group = ScriptedGroup({"orders": 4}, settings=settings)
    group.join(*members)
    group.settle()
    seen = len(group.requests)
    step(group)
    group.settle()
    return _sequence(group.requests[seen:])


def _sequence(entries: list[Any]) -> str:
    """Without heartbeats that only keep a session alive, or say what the coordinator knows."""
    telling = {each.get("exchange") for each in entries if each.get("error", "NONE") != "NONE"}
    telling |= {
        each.get("exchange")
        for each in entries
        if each.get("api") == "ConsumerGroupHeartbeat"
        and ("assignment" in each["facts"] or "owned" in each["facts"] or "topics" in each["facts"])
    }
    quiet = ("Heartbeat", "ConsumerGroupHeartbeat")
    shown = [each for each in entries if each.get("api") not in quiet or each["exchange"] in telling]
    actors = Actors()
    actors.learn(shown)
    return mermaid(shown, actors)


DIAGRAMS: Final[dict[str, Callable[[], str]]] = {
    made.__name__: made
    for made in (group_states, transaction_states, first_join, second_join, death, consumer_join)
}


def filled(page: str) -> str:
    """The page with its diagrams as the code makes them now."""
    return _PLACE.sub(lambda found: found[1] + DIAGRAMS[found[2]]() + found[4], page)


def places(page: str) -> Iterator[str]:
    """The names of the diagrams in a page."""
    return (found[2] for found in _PLACE.finditer(page))


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
