"""Whatever is passed to the admin, a result comes back, or an error that says why."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from klamm import (
    Acl,
    AclFilter,
    AclOperation,
    Admin,
    AlterOp,
    CommittedOffset,
    ElectionType,
    KlammError,
    NewTopic,
    QuotaEntity,
    Resource,
    ResourceType,
    ScramMechanism,
    TopicPartition,
)

GOOD = st.just("orders")
LONG = st.just(20_000).map(lambda length: "é" * length)  # mapped: its repr is short
NAMES = st.one_of(GOOD, GOOD, LONG, st.sampled_from(["", "__consumer_offsets", "bad name", "\ud800", "\0"]))
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**15 - 1, 2**15, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**70]),
    st.booleans(),
    st.floats(),
)
TEXTS = st.one_of(NAMES, st.text(max_size=5))
PLAIN = st.one_of(st.none(), TEXTS, NUMBERS, st.binary(max_size=3), st.builds(object))
PARTITIONS = st.one_of(
    st.builds(TopicPartition, NAMES, NUMBERS),
    st.tuples(PLAIN, PLAIN),
    st.builds(TopicPartition, GOOD, NUMBERS),
    st.just(TopicPartition("orders", 0)),
)
BROKERS = st.one_of(PLAIN, st.lists(NUMBERS, max_size=3))
CONFIGS = st.dictionaries(TEXTS, st.one_of(PLAIN, st.lists(PLAIN, max_size=2)), max_size=2)
WORDS = st.sampled_from([*Resource, *AlterOp, *ElectionType, "earliest", "latest", "Stable", "nosuch"])
NEW = st.builds(
    NewTopic,
    NAMES,
    st.one_of(PLAIN, st.integers(-2, 3)),
    st.one_of(PLAIN, st.integers(-2, 2)),
    st.one_of(PLAIN, CONFIGS),
    st.one_of(PLAIN, st.dictionaries(NUMBERS, BROKERS, max_size=2), st.lists(BROKERS, max_size=2)),
)
HASHABLE = st.one_of(NAMES, NUMBERS, PARTITIONS, st.tuples(WORDS, st.one_of(NAMES, NUMBERS)))
CHANGES = st.one_of(CONFIGS, st.lists(st.tuples(TEXTS, st.one_of(WORDS, PLAIN), PLAIN), max_size=2))
VALUES = st.one_of(
    PLAIN,
    WORDS,
    PARTITIONS,
    NEW,
    CHANGES,
    st.builds(CommittedOffset, NUMBERS, NUMBERS, st.one_of(TEXTS, NUMBERS)),
    st.lists(st.one_of(PLAIN, NEW, PARTITIONS, WORDS), max_size=3),
    st.dictionaries(
        HASHABLE,
        st.one_of(PLAIN, WORDS, NEW, BROKERS, CHANGES, st.builds(CommittedOffset, NUMBERS)),
        max_size=2,
    ),
)
# Values of the right shape, so that most calls reach the wire; numbers on both sides of each field's limits.
INTS = st.sampled_from([0, 1, -1, 2**15 - 1, 2**15, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1])
PLACES = st.one_of(st.just(TopicPartition("orders", 0)), st.builds(TopicPartition, GOOD, INTS))
TEXT_LISTS = st.lists(st.one_of(GOOD, LONG, st.just("bad name")), max_size=2)
SETTINGS = st.dictionaries(st.sampled_from(["retention.ms", "nosuch"]), INTS, max_size=1)
ACLS = st.builds(
    Acl.of,
    st.sampled_from(["User:a", "a", ""]),
    st.sampled_from(AclOperation),
    st.sampled_from(ResourceType),
    NAMES,
)
FILTERS = st.one_of(
    ACLS,
    st.builds(AclFilter, st.none() | st.sampled_from(ResourceType), st.none(), NAMES, st.booleans(), NAMES),
    st.builds(AclFilter, PLAIN, PLAIN, PLAIN, PLAIN, PLAIN),
)
ENTITIES = st.builds(QuotaEntity, st.none() | NAMES, st.none() | NAMES, st.none() | NAMES)
SHAPED: dict[str, st.SearchStrategy[Any]] = {
    "topics": st.one_of(
        TEXT_LISTS,
        st.dictionaries(st.just("new"), INTS, max_size=1),
        st.builds(NewTopic, st.just("new"), INTS, INTS, SETTINGS),
        st.builds(NewTopic, st.just("new"), assignments=st.dictionaries(INTS, st.lists(INTS, max_size=1))),
    ),
    "names": TEXT_LISTS,
    "group_ids": TEXT_LISTS,
    "group_id": GOOD,
    "transactional_ids": st.one_of(GOOD, LONG),
    "partitions": st.lists(PLACES, max_size=2),
    "partition": PLACES,
    "before": st.dictionaries(PLACES, INTS, max_size=2),
    "replicas": st.dictionaries(PLACES, st.lists(INTS, max_size=2), max_size=2),
    "offsets": st.dictionaries(
        PLACES, st.one_of(INTS, st.builds(CommittedOffset, INTS, INTS, GOOD)), max_size=1
    ),
    "totals": st.dictionaries(GOOD, INTS, max_size=1),
    "assignments": st.dictionaries(GOOD, st.lists(st.lists(INTS, max_size=1), max_size=1), max_size=1),
    "levels": st.dictionaries(st.just("transaction.version"), INTS, max_size=1),
    "resource": st.sampled_from(["topic", "broker", "group"]),
    "name": st.one_of(GOOD, INTS),
    "settings": SETTINGS,
    "keys": TEXT_LISTS,
    "states": TEXT_LISTS,
    "types": TEXT_LISTS,
    "producer_ids": st.lists(INTS, max_size=2),
    "producer_id": INTS,
    "producer_epoch": INTS,
    "coordinator_epoch": INTS,
    "member_ids": TEXT_LISTS,
    "instance_ids": TEXT_LISTS,
    "acls": st.lists(ACLS, max_size=2),
    "wanted": st.dictionaries(PLACES, INTS, max_size=2),
    "matching": FILTERS,
    "filters": st.lists(FILTERS, max_size=2),
    "passwords": st.dictionaries(st.one_of(GOOD, LONG, st.just("")), st.sampled_from(["x", ""]), max_size=1),
    "mechanism": st.sampled_from([*ScramMechanism, "PLAIN"]),
    "iterations": st.sampled_from([4096, 4095, 2**31]),
    "entity": ENTITIES,
    "changes": st.dictionaries(
        ENTITIES,
        st.dictionaries(
            st.sampled_from(["producer_byte_rate", "nosuch"]), st.one_of(st.none(), INTS), max_size=1
        ),
        max_size=2,
    ),
    "timestamp_ms": INTS,
    "to": INTS,
    "shift_by": INTS,
}
CHECKED_IN = {"access_arguments.py", "arguments.py", "resets.py"}
OPERATIONS = [
    name
    for name, _ in inspect.getmembers(Admin, inspect.isfunction)
    # Waiting for a topic that does not exist takes the whole timeout; its argument is that of delete_topics.
    if not name.startswith("_") and name not in ("close", "wait_for_topics")
]


def arguments_of(method: Callable[..., Any]) -> st.SearchStrategy[dict[str, Any]]:
    parameters = [item for key, item in inspect.signature(method).parameters.items() if key != "self"]
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for item in parameters:
        shaped = SHAPED.get(item.name, st.just(item.default))
        chosen = st.one_of(*[shaped] * 6, VALUES)
        if item.name == "timeout":  # what a broker on this machine needs; and the edges
            optional[item.name] = st.sampled_from([0.3, -1, True, "1", float("inf"), 1e300])
        elif item.name == "validate_only":
            required[item.name] = st.sampled_from([True, True, True, 0, None])  # creates nothing
        elif item.default is inspect.Parameter.empty:
            required[item.name] = chosen
        else:
            optional[item.name] = chosen
    return st.fixed_dictionaries(required, optional=optional)


@pytest.mark.parametrize("name", OPERATIONS)
def test_any_argument_gives_a_result_or_an_error_that_says_why(admin: Admin, name: str) -> None:
    if "orders" not in admin.list_topics():
        admin.create_topics("orders")

    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(arguments_of(getattr(Admin, name)))
    def holds(arguments: dict[str, Any]) -> None:
        arguments.setdefault("timeout", 0.3)
        try:
            getattr(admin, name)(**arguments)
        except KlammError:
            pass  # the broker's refusal, or its silence
        except (TypeError, ValueError) as error:
            raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename).name
            if raised_in not in CHECKED_IN and not str(error).startswith("unknown transaction state"):
                raise

    holds()
