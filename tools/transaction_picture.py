"""Make docs/images/transaction.svg: the requests of one transaction, from begin to the markers.

python tools/transaction_picture.py

A sequence diagram of consume-transform-produce with version 2 of the protocol; the requests are those that
tests/unit/client/producer/transactions/test_conversations.py holds the producer to.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

TARGET = Path(__file__).parents[1] / "docs/images/transaction.svg"
ACTORS = {
    "program": "your program",
    "txn": "transaction coordinator",
    "leaders": "partition leaders",
    "group": "group coordinator",
    "reader": "read_committed reader",
}
FIRST_X, STEP_X, TOP, ROW = 90, 185, 70, 30


@dataclass(frozen=True)
class Arrow:
    """A message from one actor to another."""

    source: str
    target: str
    text: str
    is_answer: bool = False


@dataclass(frozen=True)
class Note:
    """What is so now, at one actor."""

    at: str
    text: str


@dataclass(frozen=True)
class Phase:
    """A line across the picture."""

    text: str


STORY: tuple[Arrow | Note | Phase, ...] = (
    Phase("producer.init_transactions()"),
    Arrow("program", "txn", "InitProducerId"),
    Note("txn", "fences older producers, aborts what they left open"),
    Arrow("txn", "program", "producer id, epoch", is_answer=True),
    Phase("with producer.transaction():"),
    Note("program", "begin: nothing is sent"),
    Arrow("program", "leaders", "Produce: transactional batches"),
    Arrow("leaders", "txn", "add partition"),
    Note("txn", "Ongoing; transaction.timeout.ms counts from here"),
    Arrow("leaders", "program", "written, not visible", is_answer=True),
    Arrow("program", "group", "TxnOffsetCommit: offsets, generation, member"),
    Arrow("group", "txn", "add group"),
    Arrow("group", "program", "pending", is_answer=True),
    Phase("end of the block: commit"),
    Arrow("program", "txn", "EndTxn(commit)"),
    Note("txn", "PrepareCommit on disk: decided, whatever crashes now"),
    Arrow("txn", "program", "committed; next epoch", is_answer=True),
    Arrow("txn", "leaders", "COMMIT marker"),
    Arrow("txn", "group", "COMMIT marker"),
    Note("group", "offsets count"),
    Arrow("leaders", "reader", "all records of the transaction"),
    Note("txn", "CompleteCommit"),
)


def x_of(actor: str) -> int:
    return FIRST_X + list(ACTORS).index(actor) * STEP_X


def arrow(item: Arrow, y: int) -> list[str]:
    start, end = x_of(item.source), x_of(item.target)
    kind = "answer" if item.is_answer else "request"
    middle = (start + end) / 2
    return [
        f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" class="{kind}" marker-end="url(#head)"/>',
        f'<text x="{middle}" y="{y - 5}" class="label">{escape(item.text)}</text>',
    ]


def note(item: Note, y: int) -> list[str]:
    width = len(item.text) * 6 + 16
    left = max(8, min(x_of(item.at) - width / 2, FIRST_X + (len(ACTORS) - 1) * STEP_X + 80 - width))
    return [
        f'<rect x="{left}" y="{y - 16}" width="{width}" height="20" rx="4" class="note"/>',
        f'<text x="{left + width / 2}" y="{y - 2}" class="label">{escape(item.text)}</text>',
    ]


def phase(item: Phase, y: int, width: int) -> list[str]:
    return [
        f'<rect x="8" y="{y - 18}" width="{width - 16}" height="22" class="phase"/>',
        f'<text x="16" y="{y - 3}" class="code">{escape(item.text)}</text>',
    ]


def main() -> None:
    width = FIRST_X * 2 + (len(ACTORS) - 1) * STEP_X
    height = TOP + ROW * len(STORY) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        "<style>text{font:12px sans-serif;fill:#222}.label{text-anchor:middle;font-size:11px}"
        ".actor{text-anchor:middle;font-weight:bold}.code{font:bold 12px monospace}"
        ".life{stroke:#bbb}.request{stroke:#246;stroke-width:1.5}"
        ".answer{stroke:#246;stroke-dasharray:5 3}.note{fill:#ffd;stroke:#cc8}.phase{fill:#e8eef6}</style>",
        '<defs><marker id="head" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#246"/></marker></defs>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for actor, title in ACTORS.items():
        x = x_of(actor)
        parts.append(f'<text x="{x}" y="28" class="actor">{title}</text>')
        parts.append(f'<line x1="{x}" y1="38" x2="{x}" y2="{height - 10}" class="life"/>')
    for number, item in enumerate(STORY):
        y = TOP + number * ROW
        match item:
            case Arrow():
                parts += arrow(item, y)
            case Note():
                parts += note(item, y)
            case Phase():
                parts += phase(item, y, width)
    TARGET.write_text("\n".join([*parts, "</svg>"]) + "\n")
    sys.stderr.write(f"wrote {TARGET}\n")


if __name__ == "__main__":
    main()
