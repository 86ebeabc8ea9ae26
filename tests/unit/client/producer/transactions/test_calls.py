"""The calls of a program: legal ones, illegal ones, and those that take too long."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

import klamm
from klamm.errors import IllegalStateError, KlammTimeoutError

CALLS: list[tuple[str, tuple[object, ...]]] = [
    ("init_transactions", ()),
    ("begin_transaction", ()),
    ("send_offsets_to_transaction", ({}, "workers")),
    ("commit_transaction", ()),
    ("abort_transaction", ()),
    ("complete_transaction", (klamm.PreparedTransaction(1, 1),)),
    ("hand_over_transaction", ()),
    ("resume_transaction", (klamm.OpenTransaction("t", 1, 1, 2),)),
]


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def producer(silent: str) -> Iterator[klamm.Producer]:
    made = klamm.Producer(bootstrap_servers=silent, transactional_id="t")
    yield made
    made.close(0)


@pytest.mark.parametrize(("call", "arguments"), CALLS)
def test_a_producer_without_transactional_id_names_the_setting(
    silent: str, call: str, arguments: tuple[object, ...]
) -> None:
    message = rf"{call}\(\).*set transactional.id"
    with klamm.Producer(bootstrap_servers=silent) as plain, pytest.raises(IllegalStateError, match=message):
        getattr(plain, call)(*arguments)


def test_a_call_that_takes_too_long_may_be_repeated_and_nothing_else(producer: klamm.Producer) -> None:
    for _ in range(2):
        with pytest.raises(KlammTimeoutError, match=r"call init_transactions\(\) again"):
            producer.init_transactions(timeout=0.01)
    with pytest.raises(IllegalStateError, match=r"begin_transaction\(\): init_transactions\(\) has"):
        producer.begin_transaction()


def test_nothing_is_sent_outside_a_transaction(producer: klamm.Producer) -> None:
    with pytest.raises(IllegalStateError, match=r"call init_transactions\(\) first"):
        producer.send("t", b"x")


def test_a_closed_producer_says_so(producer: klamm.Producer) -> None:
    producer.close(0)
    with pytest.raises(IllegalStateError, match="closed"):
        producer.begin_transaction()
    with pytest.raises(IllegalStateError, match="closed"), producer.transaction():
        raise AssertionError("not reached")


def test_preparing_needs_the_setting_for_it(producer: klamm.Producer) -> None:
    with pytest.raises(IllegalStateError, match=r"transaction.two.phase.commit.enable"):
        producer.prepare_transaction()


@pytest.mark.parametrize(("offsets", "group"), [([], "workers"), ({"t": 1}, "workers"), ({}, 5), ({}, None)])
def test_offsets_and_group_are_checked_before_anything_is_sent(
    producer: klamm.Producer, offsets: object, group: object
) -> None:
    with pytest.raises(TypeError):
        producer.send_offsets_to_transaction(offsets, group)  # type: ignore[arg-type]  # what is wrong


def test_the_asyncio_producer_refuses_in_the_same_words(silent: str) -> None:
    async def scenario() -> None:
        producer = klamm.aio.Producer(bootstrap_servers=silent, transactional_id="t")
        with pytest.raises(IllegalStateError, match=r"call init_transactions\(\) first"):
            async with producer.transaction():
                raise AssertionError("not reached")
        with pytest.raises(KlammTimeoutError, match=r"call init_transactions\(\) again"):
            await producer.init_transactions(timeout=0.01)
        await producer.close(0)

    asyncio.run(scenario())
