"""Make docs/images/explain.svg: the output of `klamm groups explain`, from a real run.

python tools/explain_picture.py
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

import klamm  # noqa: E402

TARGET = ROOT / "docs/images/explain.svg"
WIDTH = 118
GROUP = "billing"


def play(bootstrap: str) -> None:
    """Two members share a topic; one leaves the group, then the other."""
    with klamm.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({"orders": 4})
        settings = {"bootstrap.servers": bootstrap, "group.id": GROUP}
        first = klamm.Consumer({**settings, "client.id": "app-1"}, "orders")
        second = klamm.Consumer({**settings, "client.id": "app-2"}, "orders")
        while not (len(first.assignment()) == len(second.assignment()) == 2):
            first.poll(0.05)
            second.poll(0.05)
        second.close()
        while len(first.assignment()) != 4:
            first.poll(0.05)
        first.close()


def explained(bootstrap: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "klamm", "groups", "explain", GROUP, "-b", bootstrap]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": str(WIDTH)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def main() -> None:
    with klamm.Broker() as broker:
        play(broker.bootstrap)
        text = explained(broker.bootstrap)
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text(f"$ klamm groups explain {GROUP}", style="bold"))
    console.print(Text(text.rstrip()))
    TARGET.write_text(console.export_svg(title="klamm groups explain"))
    sys.stderr.write(f"wrote {TARGET.relative_to(ROOT)}\n{text}")


if __name__ == "__main__":
    main()
