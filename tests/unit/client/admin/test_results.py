"""Results: an error cannot be overlooked, and none is lost."""

from __future__ import annotations

import pytest

from klamm import BrokerError, Results
from klamm.errors import KlammError, broker_error
from klamm.protocol.errors import ErrorCode


def failure(name: str) -> BrokerError:
    return broker_error(ErrorCode.topic_already_exists, f"topic {name}")


@pytest.fixture
def mixed() -> Results[str, int]:
    outcomes: dict[str, int | KlammError] = {"a": 1, "b": failure("b"), "c": 3, "d": failure("d")}
    return Results(outcomes)


def test_an_item_that_failed_raises_its_error_when_it_is_read(mixed: Results[str, int]) -> None:
    assert mixed["a"] == 1
    for read in (lambda: mixed["b"], lambda: mixed.get("b"), lambda: list(mixed.values()), mixed.unwrap):
        with pytest.raises(BrokerError, match="topic b"):
            read()
    with pytest.raises(KeyError):
        mixed["nosuch"]


def test_all_items_are_counted_and_both_kinds_can_be_had(mixed: Results[str, int]) -> None:
    assert len(mixed) == 4
    assert list(mixed) == ["a", "b", "c", "d"]
    assert "b" in mixed
    assert "nosuch" not in mixed
    assert mixed.successes == {"a": 1, "c": 3}
    assert mixed.errors.keys() == {"b", "d"}


def test_the_error_that_is_raised_names_the_others_once(mixed: Results[str, int]) -> None:
    for _ in range(2):
        with pytest.raises(BrokerError) as caught:
            mixed.unwrap()
    assert caught.value.results is mixed
    (note,) = caught.value.__notes__
    assert note.startswith("2 of 4 items failed; the others: topic d: TOPIC_ALREADY_EXISTS")


def test_a_long_list_of_failures_is_cut() -> None:
    names = [str(number) for number in range(30)]
    with pytest.raises(BrokerError) as caught:
        Results({name: failure(name) for name in names}).unwrap()
    assert caught.value.__notes__[0].endswith("; and 19 more")


def test_results_without_errors_compare_as_dictionaries() -> None:
    results: Results[str, int] = Results({"a": 1})
    assert results == {"a": 1}
    assert results != {"a": 2}
    assert results == Results({"a": 1})
    assert results.unwrap() == dict(results.items())
