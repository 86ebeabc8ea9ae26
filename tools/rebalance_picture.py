"""Make docs/images/rebalances.svg: the owner of each partition while members join and leave, in a real run.

python tools/rebalance_picture.py
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import klamm

TARGET = Path(__file__).parents[1] / "docs/images/rebalances.svg"
PARTITIONS = 6
# How long a member works between two polls; it cannot revoke partitions meanwhile.
BUSY_S = {"anna": 0.15, "bert": 0.5, "carl": 0.3}
PANELS = {"range": "eager (range)", "cooperative-sticky": "cooperative (cooperative-sticky)"}
COLOURS = {"anna": "#88aadd", "bert": "#ccbb44", "carl": "#66ccaa"}
LEFT, WIDTH, ROW, GAP, NAME_WIDTH = 70, 720, 22, 4, 40


@dataclass
class Story:
    """Spans of ownership, in seconds."""

    began: float = field(default_factory=time.monotonic)
    spans: list[tuple[str, int, float, float]] = field(default_factory=list)
    marks: list[tuple[str, float]] = field(default_factory=list)
    owners: dict[int, tuple[str, float]] = field(default_factory=dict)

    def now(self) -> float:
        return time.monotonic() - self.began

    def gained(self, member: str, partitions: list[klamm.TopicPartition]) -> None:
        for item in partitions:
            self.owners[item.partition] = (member, self.now())

    def lost(self, member: str, partitions: list[klamm.TopicPartition]) -> None:
        for item in partitions:
            owner, since = self.owners.pop(item.partition, (member, self.now()))
            self.spans.append((owner, item.partition, since, self.now()))


class Worker(threading.Thread):
    """A member that is busy between its polls."""

    def __init__(self, name: str, story: Story, bootstrap: str, assignor: str) -> None:
        super().__init__(name=name)
        self.may_go = threading.Event()
        self._story, self._address, self._assignor = story, bootstrap, assignor
        self.start()

    def run(self) -> None:
        consumer = klamm.Consumer(
            bootstrap_servers=self._address,
            group_id=self._assignor,
            heartbeat_interval_ms=50,
            partition_assignment_strategy=self._assignor,
        )
        with consumer:
            consumer.subscribe(
                ["t"],
                on_assign=lambda partitions: self._story.gained(self.name, partitions),
                on_revoke=lambda partitions: self._story.lost(self.name, partitions),
            )
            while not self.may_go.is_set():
                consumer.poll(0.05)
                self.may_go.wait(BUSY_S[self.name])


def lived(bootstrap: str, assignor: str) -> Story:
    """Two members at work, a third comes and goes."""
    story = Story()
    first = [Worker(name, story, bootstrap, assignor) for name in ("anna", "bert")]
    time.sleep(3)
    story.began += story.now()  # the picture begins when the group is settled
    story.owners = {partition: (name, 0.0) for partition, (name, _) in story.owners.items()}
    story.spans.clear()
    time.sleep(0.6)
    story.marks.append(("carl joins", story.now()))
    carl = Worker("carl", story, bootstrap, assignor)
    time.sleep(2.2)
    story.marks.append(("carl leaves", story.now()))
    carl.may_go.set()
    time.sleep(2.2)
    end = story.now()
    story.spans += [(name, partition, since, end) for partition, (name, since) in story.owners.items()]
    for worker in first:
        worker.may_go.set()
        worker.join()
    story.spans = [span for span in story.spans if span[2] < end]
    return story


def panel(title: str, story: Story, top: int, seconds: float) -> list[str]:
    """One group as rows of partitions."""

    def x(at: float) -> float:
        return LEFT + WIDTH * min(at, seconds) / seconds

    rows_top = top + 40
    bottom = rows_top + PARTITIONS * (ROW + GAP)
    out = [f'<text x="{LEFT}" y="{top}" class="title">{title}</text>']
    for partition in range(PARTITIONS):
        y = rows_top + partition * (ROW + GAP)
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{ROW}" class="idle"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 15}" class="row">t-{partition}</text>')
    for name, partition, since, until in story.spans:
        y = rows_top + partition * (ROW + GAP)
        width = max(1.0, x(until) - x(since))
        out.append(
            f'<rect x="{x(since):.1f}" y="{y}" width="{width:.1f}" height="{ROW}" fill="{COLOURS[name]}"/>'
        )
        if width > NAME_WIDTH:
            out.append(f'<text x="{x(since) + 5:.1f}" y="{y + 15}">{name}</text>')
    for text, at in story.marks:
        out.append(
            f'<line x1="{x(at):.1f}" y1="{rows_top - 8}" x2="{x(at):.1f}" y2="{bottom}" class="mark"/>'
        )
        out.append(f'<text x="{x(at):.1f}" y="{rows_top - 12}" class="note">{text}</text>')
    return out


def main() -> None:
    stories: dict[str, Story] = {}
    with klamm.Broker(num_partitions=PARTITIONS, group_min_session_timeout_ms=100) as broker:
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("t", b"").result(30)
        for assignor in PANELS:
            stories[assignor] = lived(broker.bootstrap, assignor)
    seconds = min(max(span[3] for span in story.spans) for story in stories.values())
    height = PARTITIONS * (ROW + GAP) + 70
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {2 * height + 30}">',
        "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}"
        ".row{text-anchor:end}.note{text-anchor:middle;font-style:italic}"
        ".idle{fill:#eee}.mark{stroke:#c33;stroke-dasharray:4 3}</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (assignor, title) in enumerate(PANELS.items()):
        parts += panel(title, stories[assignor], 24 + number * height, seconds)
    legend = f"{seconds:.1f} seconds; grey: no member reads the partition"
    parts.append(f'<text x="{LEFT}" y="{2 * height + 18}">{legend}</text>')
    TARGET.write_text("\n".join([*parts, "</svg>"]) + "\n")
    sys.stderr.write(f"wrote {TARGET}\n")


if __name__ == "__main__":
    main()
