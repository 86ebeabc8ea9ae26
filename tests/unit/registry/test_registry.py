"""What the registry decides, and that its state is what its records say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from klamm.registry.model import LEVELS, Reference, RegistryError, Schema
from klamm.registry.records import RegistryRecord, decode, encode
from klamm.registry.registry import Decided, Registry
from klamm.registry.state import RegistryState


def an_avro(*fields: str, default: Any = ...) -> Schema:
    rest = {} if default is ... else {"default": default}
    listed = [{"name": name, "type": "int", **rest} for name in fields]
    return Schema("AVRO", json.dumps({"type": "record", "name": "R", "fields": listed}))


class Driver:
    """A registry whose decisions are written at once; the log is compacted as Kafka's cleaner does it."""

    def __init__(self) -> None:
        self.registry = Registry(RegistryState())
        self.log: dict[bytes, bytes | None] = {}

    def do(self, decision: Decided) -> Any:
        for record in decision.records:
            key, value = encode(record)
            self.log.pop(key, None)
            self.log[key] = value
            self.registry.state.replay(record)
        return decision.answer

    def register(self, subject: str, schema: Schema) -> int:
        schema_id: int = self.do(self.registry.register(subject, schema, None, None)).schema_id
        return schema_id

    def refused(self, call: Any, *arguments: Any, **options: Any) -> int:
        with pytest.raises(RegistryError) as refusal:
            call(*arguments, **options)
        return refusal.value.code


def test_one_schema_has_one_id_in_all_subjects_and_one_version_in_each() -> None:
    driver = Driver()
    assert driver.register("a", an_avro("x")) == driver.register("b", an_avro("x")) == 1
    assert driver.register("a", an_avro("x")) == 1
    assert driver.register("b", an_avro()) == 2
    assert [each.version for each in driver.registry.versions("b", deleted=False)] == [1, 2]
    assert [each.version for each in driver.registry.versions("a", deleted=False)] == [1]


@pytest.mark.parametrize(
    ("level", "first", "then", "is_accepted"),
    [
        ("BACKWARD", an_avro("x"), an_avro("x", "y"), False),
        ("BACKWARD", an_avro("x", "y"), an_avro("x"), True),
        ("FORWARD", an_avro("x"), an_avro("x", "y"), True),
        ("FORWARD", an_avro("x", "y"), an_avro("x"), False),
        ("FULL", an_avro("x", "y"), an_avro("x"), False),
        ("FULL", an_avro("x", "y", default=0), an_avro("x", default=0), True),
        ("NONE", an_avro("x"), Schema("JSON", "true"), True),
        ("BACKWARD", an_avro("x"), Schema("JSON", "true"), False),
    ],
)
def test_a_level_decides_what_may_follow(level: str, first: Schema, then: Schema, is_accepted: bool) -> None:
    driver = Driver()
    driver.do(driver.registry.set_level("s", level))
    driver.register("s", first)
    assert driver.registry.compatible("s", then, "latest") == [] or not is_accepted
    if is_accepted:
        assert driver.register("s", then) == 2
    else:
        assert driver.refused(driver.registry.register, "s", then, None, None) == 409
        assert len(driver.registry.versions("s", deleted=False)) == 1


def test_a_transitive_level_compares_with_every_version() -> None:
    driver = Driver()
    driver.register("s", an_avro())
    driver.register("s", an_avro("x", default=0))
    assert driver.register("s", an_avro("x")) == 3  # readable with the latest, not with the first
    driver.do(driver.registry.delete_version("s", "3", permanent=False))
    driver.do(driver.registry.set_level(None, "BACKWARD_TRANSITIVE"))
    assert driver.refused(driver.registry.register, "s", an_avro("x"), None, None) == 409


def test_versions_are_deleted_first_and_then_for_good_and_numbers_are_not_used_again() -> None:
    driver = Driver()
    registry = driver.registry
    driver.register("s", an_avro("x"))
    assert driver.refused(registry.delete_subject, "s", permanent=True) == 40405
    assert driver.do(registry.delete_subject("s", permanent=False)) == [1]
    assert driver.refused(registry.delete_subject, "s", permanent=False) == 40404
    assert driver.refused(registry.versions, "s", deleted=False) == 40401
    assert registry.schema(1).text  # its records are still in topics
    driver.register("s", an_avro("y"))
    assert [each.version for each in registry.versions("s", deleted=False)] == [2]
    assert driver.refused(registry.delete_version, "s", "2", permanent=True) == 40407
    assert driver.refused(registry.version, "s", "1", deleted=False) == 40402
    assert driver.refused(registry.version, "s", "0", deleted=False) == 42202
    driver.do(registry.delete_version("s", "latest", permanent=False))
    assert driver.do(registry.delete_subject("s", permanent=True)) == [1, 2]
    assert driver.refused(registry.versions, "s", deleted=True) == 40401


def test_what_others_refer_to_is_kept() -> None:
    driver = Driver()
    driver.register("inner", an_avro("x"))
    outer = Schema(
        "AVRO",
        json.dumps({"type": "record", "name": "O", "fields": [{"name": "r", "type": "R"}]}),
        (Reference("R", "inner", 1),),
    )
    driver.register("outer", outer)
    assert driver.registry.state.referenced_by("inner", 1) == [2]
    assert driver.refused(driver.registry.delete_subject, "inner", permanent=False) == 42206
    assert driver.refused(driver.registry.delete_version, "inner", "1", permanent=False) == 42206
    lost = Schema("AVRO", '"R"', (Reference("R", "inner", 9),))
    assert driver.refused(driver.registry.register, "s", lost, None, None) == 42201


def test_a_read_only_subject_takes_nothing_and_import_takes_ids() -> None:
    driver = Driver()
    driver.register("s", an_avro("x"))
    driver.do(driver.registry.set_mode("s", "READONLY", force=False))
    assert driver.refused(driver.registry.register, "s", an_avro(), None, None) == 42205
    assert driver.register("s", an_avro("x")) == 1  # what it has, it finds
    assert driver.refused(driver.registry.delete_subject, "s", permanent=False) == 42205
    assert driver.refused(driver.registry.set_mode, "s", "IMPORT", force=False) == 42205
    driver.do(driver.registry.set_mode("new", "IMPORT", force=False))
    made = driver.do(driver.registry.register("new", an_avro("z"), 77, 5))
    assert (made.schema_id, made.version) == (77, 5)
    assert driver.refused(driver.registry.register, "new", an_avro("other"), 77, 6) == 42205
    assert driver.register("third", an_avro("w")) == 78
    assert driver.refused(driver.registry.register, "third", an_avro("v"), 5, None) == 42205


@pytest.mark.parametrize(
    ("method", "arguments", "code"),
    [
        ("set_level", ("s", "SIDEWAYS"), 42203),
        ("remove_level", ("s",), 40408),
        ("remove_mode", ("s",), 40409),
        ("schema", (9,), 40403),
    ],
)
def test_what_cannot_be_is_refused_with_confluents_code(
    method: str, arguments: tuple[Any, ...], code: int
) -> None:
    driver = Driver()
    assert driver.refused(getattr(driver.registry, method), *arguments) == code


@pytest.mark.parametrize(
    "key", [b"", b"5", b"{}", b'{"keytype":"SCHEMA"}', b'{"keytype":"SCHEMA","subject":"s","version":[]}']
)
@pytest.mark.parametrize("value", [None, b"", b"[]", b'{"schema":5}'])
def test_foreign_records_are_no_records(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(key, value)


def test_records_that_others_write_change_nothing() -> None:
    assert decode(b'{"keytype":"NOOP","magic":0}', None) is None


SUBJECTS = st.sampled_from(["a", "b"])


class Registrations(RuleBasedStateMachine):
    """Random requests: the state is what the compacted log says."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()

    def attempt(self, call: Any, *arguments: Any, **options: Any) -> None:
        before = repr(self.driver.registry.state)
        try:
            decision = call(*arguments, **options)
        except RegistryError:
            assert repr(self.driver.registry.state) == before
        else:
            assert repr(self.driver.registry.state) == before  # a decision changes nothing
            self.driver.do(decision)

    @rule(subject=SUBJECTS, fields=st.sets(st.sampled_from("xyz")))
    def register(self, subject: str, fields: set[str]) -> None:
        schema = an_avro(*sorted(fields), default=0)
        self.attempt(self.driver.registry.register, subject, schema, None, None)

    @rule(subject=SUBJECTS, permanent=st.booleans())
    def delete_subject(self, subject: str, permanent: bool) -> None:
        self.attempt(self.driver.registry.delete_subject, subject, permanent=permanent)

    @rule(subject=SUBJECTS, version=st.sampled_from(["1", "2", "latest"]), permanent=st.booleans())
    def delete_version(self, subject: str, version: str, permanent: bool) -> None:
        self.attempt(self.driver.registry.delete_version, subject, version, permanent=permanent)

    @rule(subject=st.sampled_from([None, "a"]), level=st.sampled_from(LEVELS))
    def set_level(self, subject: str | None, level: str) -> None:
        self.attempt(self.driver.registry.set_level, subject, level)

    @precondition(lambda self: self.driver.log)
    @invariant()
    def the_compacted_log_has_it_all(self) -> None:
        rebuilt = RegistryState()
        for key, value in self.driver.log.items():
            record: RegistryRecord | None = decode(key, value)
            assert record is not None
            rebuilt.replay(record)
        state = self.driver.registry.state
        assert rebuilt.subjects == state.subjects
        assert rebuilt.levels == state.levels

    @invariant()
    def an_id_has_one_schema(self) -> None:
        seen: dict[int, Schema] = {}
        for each in self.driver.registry.state.all_versions(deleted=True):
            assert seen.setdefault(each.schema_id, each.schema) == each.schema


Registrations.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
TestRegistrations = Registrations.TestCase
