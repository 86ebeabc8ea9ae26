"""The page on how a group works: its pictures and answers are the code's, and both languages say the same."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from klamm.coordinator.group.classic.phases import Phase
from unit.coordinator.driver import World

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/how-a-group-works.md"
PAIRS = [(PAGE, ROOT / "docs/zh/how-a-group-works.md"), (ROOT / "README.md", ROOT / "docs/zh/README.md")]
_COMMAND = re.compile(r"`((?:klamm|make|pip|python) [^`]+|klamm\.\w[^`]*|ScriptedGroup[^`]*)`")
# What readers of articles on Kafka's source look for.
NAMES = [
    "GroupMetadata", "GroupMetadataManager", "MemberMetadata", "MemberSummary", "GroupSummary",
    "DelayedJoin", "InitialDelayedJoin", "DelayedHeartbeat", "purgatory", "ConsumerCoordinator",
    "storeOffsets", "storeGroup", "cleanupGroupMetadata", "selectProtocol", "partitionFor",
    "PartitionAssignor", "OffsetAndMetadata", "on_assignment", "AwaitSync", "StatefulListener",
    "FileOffsetStore", "test_worked_examples.py", "ScriptedGroup.story",
]  # fmt: skip


@pytest.fixture(scope="module")
def diagrams() -> ModuleType:
    spec = importlib.util.spec_from_file_location("group_diagrams", ROOT / "tools/group_diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAIRS[0], ids=["english", "chinese"])
def test_the_pictures_are_what_the_code_makes(page: Path, diagrams: ModuleType) -> None:
    """Otherwise run tools/group_diagrams.py."""
    text = page.read_text(encoding="utf-8")
    assert set(diagrams.places(text)) == set(diagrams.DIAGRAMS)
    assert diagrams.filled(text) == text


@pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=["groups", "readme"])
def test_both_languages_have_the_same_headings_and_commands(english: Path, chinese: Path) -> None:
    texts = [each.read_text(encoding="utf-8") for each in (english, chinese)]
    ours, theirs = map(_without_fences, texts)
    assert re.findall(r"^#+ ", ours, re.MULTILINE) == re.findall(r"^#+ ", theirs, re.MULTILINE)
    assert sorted(_COMMAND.findall(ours)) == sorted(_COMMAND.findall(theirs))
    assert ours.count("\n|") == theirs.count("\n|")
    assert _code(texts[0]) == _code(texts[1])


def _without_fences(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _code(text: str) -> list[str]:
    """The lines of code blocks, without comments and without pictures."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for language, block in blocks if language != "mermaid" for line in block.splitlines()]
    return [re.sub(r"\s+# .*", "", line) for line in lines]


@pytest.mark.parametrize("page", PAIRS[0], ids=["english", "chinese"])
def test_the_names_of_articles_lead_to_files_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [name for name in NAMES if name not in text] == []
    paths = re.findall(r"`((?:coordinator|protocol|broker|client|assignors|cli)/[\w/]*(?:\.py)?)`", text)
    assert len(paths) >= 20
    assert [path for path in paths if not (ROOT / "src/klamm" / path).exists()] == []


def answered(state: str) -> list[str]:
    """What SyncGroup, Heartbeat and OffsetCommit of a member are answered in a state."""
    world = World()
    leader, follower = world.stable(2)
    if state == "PreparingRebalance":
        world.join(leader)
    if state == "CompletingRebalance":
        world.join(leader)
        world.join(follower)
    if state == "Empty":
        world.leave(leader)
        world.leave(follower)
    assert world.phase() is Phase(state)
    generation = world.live().generation
    sync = world.sync(follower, generation)
    heartbeat = world.heartbeat_later(follower, generation)
    commit = world.commit_error(offsets={("t", 0): 1}, member_id=follower, generation=generation)
    return [
        sync.error.name.upper() if sync.is_answered else "parked",
        heartbeat.error.name.upper(),
        commit.name.upper(),
    ]


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_the_table_of_states_says_what_is_answered(state: str) -> None:
    row = re.search(rf"^\| {state} \| .*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert row is not None
    sync, heartbeat, commit = (cell.strip().split(",")[0] for cell in row[0].split("|")[4:7])
    words = {"answered with the assignment": "NONE", "accepted": "NONE"}
    assert [words.get(cell, cell) for cell in (sync, heartbeat, commit)] == answered(state)
