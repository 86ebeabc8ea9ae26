"""Kafka Streams on klamm: its group protocol, internal topics, state stores and transactions."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from interop.kafka_tools import KAFKA_VERSION, TOOL_FLAGS, cache_dir
from interop.own import Own
from interop.processes import ROOT, LineProcess
from klamm import Consumer

PATIENCE_S = 100
WORDS = [f"word-{number}" for number in range(20)]


class Application:
    """Instances of CountWords, of one application."""

    def __init__(self, bootstrap: str, topics: tuple[str, str], folder: Path) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._folder = folder
        self._stack = ExitStack()
        self._started = 0

    def start(self) -> LineProcess:
        """Another instance, with a state folder of its own."""
        subprocess.run([ROOT / "tools" / "fetch_kafka_streams.sh", str(cache_dir())], check=True)
        self._started += 1
        libs = cache_dir() / f"kafka-streams-{KAFKA_VERSION}" / "libs"
        source = ROOT / "tests" / "interop" / "java" / "CountWords.java"
        state = self._folder / f"state-{self._started}"
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        command = ["java", *TOOL_FLAGS, quiet, "-cp", f"{libs}/*", str(source)]
        command += [self._bootstrap, f"counting-{self._topics[0]}", str(state), *self._topics]
        instance = LineProcess(command, stderr_path=self._folder / f"instance-{self._started}.log")
        self._stack.callback(instance.kill)
        return instance

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def application(bootstrap: str, topic: str, tmp_path: Path) -> Iterator[Application]:
    application = Application(bootstrap, (topic, f"{topic}-counts"), tmp_path)
    yield application
    application.close()


def wait_until_running(instance: LineProcess) -> None:
    while instance.read_line(PATIENCE_S) != "RUNNING":
        pass


def read_counts(consumer: Consumer, until: Counter[str]) -> list[tuple[str, int]]:
    """Counts as they were written, until each word has the one that is expected, or more."""
    seen: list[tuple[str, int]] = []
    highest: Counter[str] = Counter()
    deadline = time.monotonic() + PATIENCE_S
    while any(highest[word] < count for word, count in until.items()):
        assert time.monotonic() < deadline, f"{highest.total()} of {until.total()} words were counted"
        for record in consumer.poll(0.5):
            word, count = (record.key or b"").decode(), int.from_bytes(record.value or b"", "big")
            seen.append((word, count))
            highest[word] = max(highest[word], count)
    return seen


def test_words_are_counted_once_although_an_instance_is_killed(
    bootstrap: str, topic: str, application: Application
) -> None:
    chance = Random(7)
    expected: Counter[str] = Counter()
    with Own(bootstrap) as own:
        own.create_topic(topic, 4)
        counts = own.create_topic(f"{topic}-counts", 2)
        reader = own.consumer(group_id=None, isolation_level="read_committed")
        reader.assign(counts)
        producer = own.producer()

        def write_words(number: int) -> None:
            for _ in range(number):
                word = chance.choice(WORDS)
                expected[word] += 1
                producer.send(topic, word.encode())
            producer.flush(PATIENCE_S)

        # Given two instances that share the work
        first, second = application.start(), application.start()
        wait_until_running(first)
        wait_until_running(second)
        write_words(500)
        seen = read_counts(reader, expected)
        # When one of them dies in the middle of it, and another one takes its place
        write_words(500)
        first.kill()
        wait_until_running(application.start())
        write_words(500)
        # Then no word is counted twice, none is left out, and no reader sees a count go back
        seen += read_counts(reader, expected)
        before: Counter[str] = Counter()
        for word, count in seen:
            assert count > before[word], f"{word} was {before[word]} before it was {count}"
            before[word] = count
        assert before == expected
        assert second.terminate(30) == 143  # as Java ends after SIGTERM
