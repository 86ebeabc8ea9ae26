"""A broker in your tests: real groups, real offsets, a restart, and nothing to install or clean up.

Run it: `pytest examples/broker_in_tests.py`, or `python examples/broker_in_tests.py`. The code under test is
`count_words`; it knows nothing but an address, and could use any Kafka client.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import klamm


def count_words(bootstrap: str, most: int) -> Counter[str]:
    """The code under test: read a topic in a group, commit what was counted."""
    counts: Counter[str] = Counter()
    with klamm.Consumer(
        "lines",
        bootstrap_servers=bootstrap,
        group_id="counters",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while counts.total() < most:
            for record in consumer.poll(1.0):
                counts.update((record.value or b"").decode().split())
        consumer.commit()
    return counts


@pytest.fixture
def broker() -> Iterator[klamm.Broker]:
    """In memory, on a free port, up in milliseconds."""
    with klamm.Broker() as broker:
        yield broker


def say(bootstrap: str, *lines: str) -> None:
    with klamm.Producer(bootstrap_servers=bootstrap) as producer:
        for line in lines:
            producer.send("lines", line)
        producer.flush()


def test_words_are_counted(broker: klamm.Broker) -> None:
    say(broker.bootstrap, "to be or", "not to be")
    assert count_words(broker.bootstrap, 6) == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_what_was_counted_is_not_counted_again(broker: klamm.Broker) -> None:
    say(broker.bootstrap, "once")
    count_words(broker.bootstrap, 1)
    say(broker.bootstrap, "upon a time")
    assert count_words(broker.bootstrap, 3) == {"upon": 1, "a": 1, "time": 1}


def test_a_restart_of_the_broker_loses_no_progress(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": 1}  # fifty, as usual, are fifty logs on disk
    with klamm.Broker(data=tmp_path, settings=settings) as broker:
        say(broker.bootstrap, "before")
        count_words(broker.bootstrap, 1)
    with klamm.Broker(data=tmp_path, settings=settings) as broker:
        say(broker.bootstrap, "after")
        assert count_words(broker.bootstrap, 1) == {"after": 1}


if __name__ == "__main__":
    # pytest would like to import klamm, whose plugin it found, by itself.
    is_known = ["-W", "ignore:Module already imported"]
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *is_known, __file__]))
