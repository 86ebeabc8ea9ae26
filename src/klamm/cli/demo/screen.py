"""The demo's output: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from klamm.cli.demo.watching import View
from klamm.groups.story import clock_time, headline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

STORY_LINES: Final = 7
COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "red")


class Screen(AbstractContextManager["Screen"], Protocol):
    """The output of the demo."""

    def say(self, text: str) -> None:
        """A step of the demo."""
        ...

    def still(self, text: str) -> None:
        """Progress of the last step."""
        ...

    def show(self, view: View, counts: dict[str, int]) -> None:
        """The group as it is now, and how many orders each member has read."""
        ...


class PlainScreen:
    """Lines, for logs and pipes: steps, and each new event of the group."""

    def __init__(self) -> None:
        self._told = 0
        self._owners: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to close."""

    def say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def still(self, text: str) -> None:
        self.say(f"  {text}")

    def show(self, view: View, counts: dict[str, int]) -> None:
        for entry in view.story[self._told :]:
            self.say(f"  {clock_time(entry.timestamp_ms)[11:]}  {entry.text}")
        self._told = len(view.story)
        owners = view.owners
        if owners != self._owners and view.state == "Stable" and view.generation is not None:
            self._owners = owners
            listed = ", ".join(f"{partition} {owner}" for partition, owner in sorted(owners.items()))
            self.say(f"  generation {view.generation}, lag {view.lag_text}: {listed}")


class LiveScreen:
    """A live view."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - a tenth of a second that only a terminal pays
        from rich.live import Live  # noqa: PLC0415

        self.console = Console()
        self._steps: list[str] = []
        self._progress = ""
        self._view = View()
        self._counts: dict[str, int] = {}
        self._colours: dict[str, str] = {}
        self._live: Live = Live(console=self.console, refresh_per_second=8, transient=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def say(self, text: str) -> None:
        self._steps.append(text)
        self._progress = ""
        self._live.update(self.picture())

    def still(self, text: str) -> None:
        self._progress = f" ({text})"
        self._live.update(self.picture())

    def show(self, view: View, counts: dict[str, int]) -> None:
        self._view, self._counts = view, counts
        self._live.update(self.picture())

    def picture(self) -> RenderableType:
        """The view: steps, the group, its events."""
        from rich.console import Group  # noqa: PLC0415
        from rich.panel import Panel  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        lines = "\n".join(f"▸ {step}" for step in self._steps[-5:])
        steps = Text(f"{lines}{self._progress}", style="bold")
        view = self._view
        story = Text()
        for entry in view.story[-STORY_LINES:]:
            story.append(f"{clock_time(entry.timestamp_ms)[11:19]}  ", style="dim")
            story.append(f"{headline(entry.event)}\n")
        generation = "-" if view.generation is None else view.generation
        title = f"group billing: {view.state}, generation {generation}, lag {view.lag_text}"
        return Group(
            steps,
            Panel(self._table(), title=title),
            Panel(story, title="why it rebalanced", height=STORY_LINES + 2),
        )

    def _table(self) -> RenderableType:
        from rich.table import Table  # noqa: PLC0415

        table = Table(expand=True, box=None)
        for column in ("partition", "owner", "committed", "end", "lag"):
            table.add_column(column, justify="left" if column in ("partition", "owner") else "right")
        owners = self._view.owners
        for item in self._view.group.partitions if self._view.group else ():
            owner = owners.get(str(item.partition), "-")
            colour = self._colours.setdefault(owner, COLOURS[len(self._colours) % len(COLOURS)])
            read = self._counts.get(owner)
            table.add_row(
                str(item.partition),
                f"[{colour}]{owner}[/]" + (f" [dim]({read} read)[/]" if read is not None else ""),
                "-" if item.committed is None else str(item.committed),
                "-" if item.log is None else str(item.log.end),
                "-" if item.lag is None else str(item.lag),
            )
        return table


def screen(*, is_terminal: bool) -> Screen:
    """A live view on a terminal, plain lines elsewhere."""
    return LiveScreen() if is_terminal else PlainScreen()
