"""The table of a connection's states."""

from __future__ import annotations

from klamm.broker.net.connection_states import CLOSING, LOST, NEXT, OPEN, OVER


def test_a_connection_that_has_ended_never_reads_again() -> None:
    for state, following in NEXT.items():
        if state.has_ended:
            assert not state.reads
            assert all(each.has_ended for each in following)


def test_every_state_can_be_left_but_the_last_and_is_reached_from_the_first() -> None:
    reached = {OPEN}
    while more := {each for state in reached for each in NEXT[state]} - reached:
        reached |= more
    assert reached == set(NEXT)
    assert [state for state, following in NEXT.items() if not following] == [OVER]


def test_nothing_is_sent_once_the_client_is_gone() -> None:
    assert not LOST.sends
    assert not OVER.sends
    assert CLOSING.sends
    assert NEXT[LOST] == {OVER}
