"""`klamm pipe redrive`: dead letters go back, each of them once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import klamm
from klamm.cli.pipe import app
from klamm.client.admin.model import CommittedOffset
from klamm.errors import KlammTimeoutError
from klamm.protocol.types import TopicPartition
from klamm.spark.pipe.redriving import MARK, read_letters
from unit.spark.world import World

PATIENCE_S = 30.0


class Letters:
    """A job whose dead letters a test writes."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.origin, self.dead = world.topic(2), world.topic(1)
        self.name = f"{self.origin}-job"
        self.path = folder / f"{self.name}.toml"
        self.path.write_text(
            f'bootstrap = "{world.bootstrap}"\n[source]\ntopics = ["{self.origin}"]\nformat = "json"\n'
            f'schema = "a long"\ndead_letters = "{self.dead}"\n[sink]\ntopic = "{self.dead}"\n'
        )

    def letter(self, value: bytes, offset: int, message: str = "no JSON", partition: int = 1) -> None:
        headers = [
            ("trace", b"t1"),
            ("klamm.origin.topic", self.origin.encode()),
            ("klamm.origin.partition", str(partition).encode()),
            ("klamm.origin.offset", str(offset).encode()),
            ("klamm.error.class", b"MalformedValue"),
            ("klamm.error.message", message.encode()),
        ]
        self.world.fill(self.dead, [value], headers=headers)

    def redrive(self, *options: str) -> str:
        seen = CliRunner().invoke(app, ["redrive", str(self.path), *options])
        assert seen.exit_code == 0, seen.output
        return seen.output.splitlines()[0]

    def back(self) -> list[tuple[int, bytes | None]]:
        """Partition and value of each record that is in the job's topic, and committed."""
        return [(record.partition, record.value) for record in self.records()]

    def records(self) -> Iterator[klamm.ConsumerRecord]:
        partitions = [TopicPartition(self.origin, number) for number in range(2)]
        ends = self.world.admin.list_offsets(dict.fromkeys(partitions, -1)).unwrap()
        settings = {"bootstrap.servers": self.world.bootstrap, "isolation.level": "read_committed"}
        with klamm.Consumer(settings) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            while any(consumer.position(key) < ends[key].offset for key in partitions):
                yield from consumer.poll(PATIENCE_S)

    def noted(self) -> CommittedOffset:
        group = f"{self.name}.redrive"
        return self.world.admin.list_group_offsets(group)[TopicPartition(self.dead, 0)]


@pytest.fixture
def letters(world: World, tmp_path: Path) -> Letters:
    return Letters(world, tmp_path)


def test_letters_go_back_where_they_came_from_once(letters: Letters) -> None:
    letters.letter(b"x", 4)
    letters.letter(b"y", 9, partition=0)
    assert letters.redrive("--dry-run") == f"would put back 2 of 2 dead letters of {letters.dead}"
    assert letters.back() == []
    assert letters.redrive() == f"put back 2 of 2 dead letters of {letters.dead}"
    assert sorted(letters.back()) == [(0, b"y"), (1, b"x")]
    assert letters.redrive() == f"put back 0 of 0 dead letters of {letters.dead}"
    (headers,) = {tuple(record.headers) for record in letters.records()}
    assert headers == (("trace", b"t1"), ("klamm.redrives", b"1"))


@pytest.mark.parametrize(
    "options", [("--message", "odd"), ("--offsets", "2-2"), ("--limit", "1", "--message", "odd")]
)
def test_letters_that_are_not_picked_stay_for_later(letters: Letters, options: tuple[str, ...]) -> None:
    letters.letter(b"x", 1)
    letters.letter(b"y", 2, "odd")
    letters.letter(b"z", 3)
    assert letters.redrive(*options) == f"put back 1 of 3 dead letters of {letters.dead}"
    assert letters.back() == [(1, b"y")]
    assert letters.noted() == CommittedOffset(0, -1, f"{MARK}1-1")
    assert letters.redrive(*options) == f"put back 0 of 2 dead letters of {letters.dead}"
    assert letters.redrive() == f"put back 2 of 2 dead letters of {letters.dead}"
    assert sorted(value or b"" for _, value in letters.back()) == [b"x", b"y", b"z"]
    assert letters.noted() == CommittedOffset(3, -1, "")


def test_a_letter_that_came_back_is_counted(letters: Letters) -> None:
    letters.world.fill(letters.dead, [b"x"], headers=[("klamm.redrives", b"2")])
    letters.redrive()
    ((name, value),) = next(letters.records()).headers
    assert (name, value) == ("klamm.redrives", b"3")


def test_a_job_without_dead_letters_has_nothing_to_put_back(letters: Letters) -> None:
    text = letters.path.read_text()
    letters.path.write_text(text.replace(f'dead_letters = "{letters.dead}"\n', ""))
    seen = CliRunner().invoke(app, ["redrive", str(letters.path)])
    assert seen.exit_code == 2
    assert "the job has no source.dead_letters" in seen.output


def test_headers_that_somebody_else_wrote_are_no_numbers(letters: Letters) -> None:
    names = ("klamm.origin.partition", "klamm.origin.offset", "klamm.redrives")
    letters.world.fill(letters.dead, [b"x"], headers=[(name, b"\xffmany") for name in names])
    letters.redrive("--offsets", "1-2")
    assert letters.redrive() == f"put back 1 of 1 dead letters of {letters.dead}"
    assert next(letters.records()).headers == (("klamm.redrives", b"1"),)


def test_letters_that_do_not_come_end_the_redrive(letters: Letters) -> None:
    away = {"bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(KlammTimeoutError, match=r"from offset 3 on: nothing came for 0\.1 s"):
        list(read_letters(away, TopicPartition(letters.dead, 0), 3, 5, timeout_s=0.1))


def test_offsets_that_are_no_range_are_refused(letters: Letters) -> None:
    seen = CliRunner().invoke(app, ["redrive", str(letters.path), "--offsets", "a-b"])
    assert seen.exit_code == 2
    assert "expected FIRST-LAST" in seen.output
