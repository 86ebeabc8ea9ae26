"""Who may use a consumer: one thread at a time, never a forked child; and how to wake it."""

from __future__ import annotations

import os
import threading
import warnings

import pytest

from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.polling.claims import ThreadClaim
from klamm.client.consumer.polling.hosts import run_blocking
from klamm.config import ConfigError
from klamm.errors import ConcurrentAccessError, IllegalStateError, WakeupError
from klamm.protocol.api import ApiKey
from klamm.protocol.types import TopicPartition
from unit.client.consumer.world import World

NOWHERE = "127.0.0.1:1"  # nobody listens there


@pytest.fixture
def consumer() -> Consumer:
    made = Consumer(bootstrap_servers=NOWHERE)
    made.assign([TopicPartition("t", 0)])
    return made


def test_a_second_thread_is_refused_by_name_and_the_first_unharmed(consumer: Consumer) -> None:
    inside, woken = threading.Event(), threading.Event()
    outcome: list[BaseException] = []

    def poll() -> None:
        inside.set()
        try:
            consumer.poll(60)
        except WakeupError as error:
            outcome.append(error)
        woken.set()

    thread = threading.Thread(target=poll, name="the first")
    thread.start()
    inside.wait()
    while not consumer._operations.engine.is_waiting:
        woken.wait(0.001)
    with pytest.raises(ConcurrentAccessError, match=r"the first.*MainThread"):
        consumer.position(TopicPartition("t", 0))
    assert thread.is_alive()
    consumer.wakeup()
    thread.join()
    assert len(outcome) == 1
    consumer.poll(0)
    consumer.close(0)


def test_a_wakeup_is_raised_once_by_the_next_call_that_waits() -> None:
    world = World()
    world.cluster.create("t")
    consumer = world.consumer()
    consumer.assign([TopicPartition("t", 0)])
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(1)
    consumer.poll(1)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.end_offsets([TopicPartition("t", 0)])
    assert consumer.end_offsets([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 0}


def test_closing_is_not_woken() -> None:
    world = World()
    world.cluster.create("t")
    consumer = world.consumer("t", group_id="g")
    consumer.poll(1)
    consumer.wakeup()
    consumer.close()
    assert world.cluster.requests(ApiKey.LEAVE_GROUP)


def another_thread_may_enter(claim: ThreadClaim) -> bool:
    entered: list[bool] = []

    def enter() -> None:
        try:
            with claim:
                entered.append(True)
        except ConcurrentAccessError:
            entered.append(False)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return entered[0]


def test_the_same_thread_may_enter_again() -> None:
    claim = ThreadClaim()
    with claim, claim:
        assert not another_thread_may_enter(claim)
    assert another_thread_may_enter(claim)


def test_a_forked_child_is_told_to_make_its_own(consumer: Consumer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what this is about
        child = os.fork()
    if not child:
        told = False
        try:
            consumer.poll(0)
        except IllegalStateError as error:
            told = "fork" in str(error)
        finally:
            os._exit(0 if told else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_constructor_that_fails_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(TypeError):
        Consumer("t", 7, bootstrap_servers=NOWHERE)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(Exception, match=r"group\.id"):
        Consumer("t", bootstrap_servers=NOWHERE)
    with pytest.raises(ConfigError, match=r"group\.id"):
        Consumer(bootstrap_servers=NOWHERE, grp_id="x")  # type: ignore[call-arg]  # on purpose
    assert threading.active_count() == before


def test_settings_may_come_as_a_dictionary_as_in_other_clients() -> None:
    with Consumer({"bootstrap.servers": NOWHERE, "group.id": "g"}) as consumer:
        assert consumer.group_metadata().group_id == "g"


def test_an_async_callback_is_refused_where_nobody_can_await_it() -> None:
    async def pauses() -> None:
        class Pause:
            def __await__(self) -> object:
                yield None

        await Pause()  # type: ignore[misc]  # an awaitable of no particular kind

    with pytest.raises(TypeError, match=r"klamm\.aio"):
        run_blocking(pauses())
