"""Make docs/images/demo.svg: the demo's live picture, taken from a real run after the member was killed.

python tools/demo_picture.py
"""

from __future__ import annotations

import io
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from klamm.cli.demo.play import Play
from klamm.cli.demo.screen import LiveScreen
from klamm.cli.demo.watching import View
from klamm.clock import SystemClock

TARGET = Path(__file__).parents[1] / "docs/images/demo.svg"
WIDTH = 120


class CameraScreen(LiveScreen):
    """A live screen without output, which keeps its last picture of a stable group."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: str | None = None

    def show(self, view: View, counts: dict[str, int]) -> None:
        self._view, self._counts = view, counts
        was_killed = any("silent" in chapter.text for chapter in view.story)
        if view.state == "Stable" and was_killed and all(item.member for item in view.partitions):
            console = Console(record=True, width=WIDTH, file=io.StringIO())
            console.print(self.picture())
            self.kept = console.export_svg(title="klamm demo")

    def say(self, text: str) -> None:
        self._steps.append(text)
        sys.stderr.write(f"{text}\n")


def main() -> None:
    camera = CameraScreen()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        Play(folder, camera, stack, SystemClock(), Random()).run()
    if camera.kept is None:
        sys.exit("the demo ended without a stable group after the kill")
    TARGET.write_text(camera.kept)
    sys.stderr.write(f"wrote {TARGET.relative_to(Path.cwd())}\n")


if __name__ == "__main__":
    main()
