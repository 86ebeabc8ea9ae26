"""Settings: reading text as Kafka does, and saying what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.config import (
    DOUBLE_MAX,
    LONG_MAX,
    ConfigError,
    Definition,
    Kind,
    Password,
    RawValue,
    Setting,
    Value,
    as_text,
    at_least,
    between,
    each_of,
    from_environment,
    from_flags,
    load_file,
    merge,
    not_empty,
    one_of,
    parse_properties,
    parse_toml,
)

DEFINITION = Definition(
    [
        Setting(name="log.retention.ms", kind=Kind.LONG, default=604800000, check=at_least(-1)),
        Setting(name="log.cleaner.min.cleanable.ratio", kind=Kind.DOUBLE, default=0.5, check=between(0, 1)),
        Setting(name="auto.create.topics.enable", kind=Kind.BOOLEAN, default=True),
        Setting(name="num.partitions", kind=Kind.INT, default=1, check=at_least(1)),
        Setting(name="retries", kind=Kind.SHORT, default=3),
        Setting(
            name="cleanup.policy", kind=Kind.LIST, default=("delete",), check=each_of("compact", "delete")
        ),
        Setting(name="klamm.flush", kind=Kind.STRING, default="commit", check=one_of("commit", "os")),
        Setting(name="broker.rack", kind=Kind.STRING, default=None, check=not_empty()),
        Setting(name="partitioner.class", kind=Kind.CLASS, default=None),
        Setting(name="ssl.key.password", kind=Kind.PASSWORD, default=None),
    ],
    ignored_prefixes=("controller.",),
)


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("auto.create.topics.enable", " TRUE ", True),
        ("auto.create.topics.enable", "false", False),
        ("auto.create.topics.enable", False, False),
        ("num.partitions", " 7\t", 7),
        ("num.partitions", "+7", 7),
        ("num.partitions", 7, 7),
        ("log.retention.ms", "-1", -1),
        ("log.retention.ms", str(LONG_MAX), LONG_MAX),
        ("log.cleaner.min.cleanable.ratio", "1e-2", 0.01),
        ("log.cleaner.min.cleanable.ratio", ".5", 0.5),
        ("cleanup.policy", "compact , delete", ("compact", "delete")),
        ("cleanup.policy", ["compact"], ("compact",)),
        ("cleanup.policy", "", ()),
        ("klamm.flush", " os ", "os"),
        ("broker.rack", None, None),
        ("partitioner.class", "a.b.C", "a.b.C"),
        ("ssl.key.password", " x ", Password("x")),
    ],
)
def test_text_is_read_as_kafka_reads_it(name: str, raw: RawValue, expected: Value) -> None:
    value = DEFINITION[name].parse(raw)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("name", "raw", "advice"),
    [
        ("auto.create.topics.enable", "yes", "true or false"),
        ("auto.create.topics.enable", "1", "true or false"),
        ("num.partitions", "0", "not below 1"),
        ("num.partitions", "1.0", "whole number"),
        ("num.partitions", "1_0", "whole number"),
        ("num.partitions", "2147483648", "32 bits"),
        ("num.partitions", "9" * 5000, "32 bits"),
        ("retries", "40000", "16 bits"),
        ("log.retention.ms", "-2", "not below -1"),
        ("log.retention.ms", "", "whole number"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "from 0 to 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "a number"),
        ("cleanup.policy", "compact,shred", "any of compact, delete"),
        ("klamm.flush", "Commit", "one of commit, os"),
        ("klamm.flush", None, "one of commit, os"),
        ("broker.rack", "", "not empty"),
    ],
)
def test_a_bad_value_is_refused_with_advice(name: str, raw: RawValue, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice) as refused:
        DEFINITION.parse({name: raw})
    assert refused.value.name == name
    assert name in str(refused.value)


def test_an_unknown_name_is_answered_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean log\.retention\.ms\?"):
        DEFINITION.parse({"log.retention.msec": "1"})
    with pytest.raises(ConfigError, match=r"unknown setting quux$"):
        DEFINITION.parse({"quux": "1"})


@pytest.mark.parametrize("name", ["zookeeper.connect", "inter.broker.protocol.version"])
def test_a_setting_that_is_gone_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ConfigError, match=r"(there is no ZooKeeper|current format).*remove this line"):
        DEFINITION.parse({name: "1"})


def test_names_of_an_ignored_family_are_taken_and_forgotten() -> None:
    values = DEFINITION.parse({"controller.quorum.voters": "1@localhost:9093"})
    assert "controller.quorum.voters" not in values
    assert DEFINITION.knows("controller.quorum.voters")
    assert not DEFINITION.knows("controllers")


def test_defaults_fill_what_is_not_given() -> None:
    values = DEFINITION.parse({"num.partitions": "3"})
    assert values.integer("num.partitions") == 3
    assert values.boolean("auto.create.topics.enable") is True
    assert values.number("log.cleaner.min.cleanable.ratio") == 0.5
    assert values.words("cleanup.policy") == ("delete",)
    assert values.text("klamm.flush") == "commit"
    assert values.optional_text("broker.rack") is None
    assert values.secret("ssl.key.password") is None
    assert len(values) == len(DEFINITION.settings) == len(list(values))
    assert DEFINITION.parse_given({"num.partitions": "3"}) == {"num.partitions": 3}


def test_a_required_setting_must_be_given() -> None:
    definition = Definition(
        [Setting(name="bootstrap.servers", kind=Kind.LIST, default=(), required=True, check=not_empty())]
    )
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is required"):
        definition.parse({})
    assert definition.parse({"bootstrap.servers": "a:1,b:2"}).words("bootstrap.servers") == ("a:1", "b:2")


def test_a_secret_never_prints_itself() -> None:
    value = DEFINITION["ssl.key.password"].parse("s3cret")
    assert "s3cret" not in f"{value} {value!r}"
    assert as_text(value) == "s3cret"
    limited = Setting(name="p", kind=Kind.PASSWORD, default=None, check=one_of())
    with pytest.raises(ConfigError) as refused:
        limited.parse("s3cret")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1e7, "1.0E7"),
        (1234567.0, "1234567.0"),
        (0.0001, "1.0E-4"),
        (DOUBLE_MAX, "1.7976931348623157E308"),
        (True, "true"),
        (("a", "b"), "a,b"),
        (-1, "-1"),
        (None, ""),
    ],
)
def test_values_are_written_as_java_writes_them(value: Value, text: str) -> None:
    assert as_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_double_reads_back_the_same(number: float) -> None:
    setting = Setting(name="x", kind=Kind.DOUBLE, default=0.0)
    assert setting.parse(as_text(number)) == number


def test_properties_follow_javas_rules() -> None:
    text = "\n".join(
        [
            "# a comment",
            "  ! another",
            "",
            "a=1",
            "b : 2",
            "c 3",
            "d\t=\t4  ",
            "  e = x,\\",
            "      y,\\",
            "      z",
            r"f = back\\slash\tand\u0041",
            r"g\ h\=i = spaced",
            "empty=",
            "alone",
            r"path = C:\\dir\\",
            "a=again",
        ]
    )
    assert parse_properties(text) == {
        "a": "again",
        "b": "2",
        "c": "3",
        "d": "4  ",
        "e": "x,y,z",
        "f": "back\\slash\tandA",
        "g h=i": "spaced",
        "empty": "",
        "alone": "",
        "path": "C:\\dir\\",
    }


def test_properties_take_every_line_end_and_a_comment_does_not_continue() -> None:
    assert parse_properties("a=1\r\nb=2\rc=3\n# note \\\nd=4\ne=5\\") == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "4",
        "e": "5",
    }


@given(st.text())
def test_no_text_breaks_the_properties_reader(text: str) -> None:
    assert all(isinstance(value, str) for value in parse_properties(text).values())


def test_toml_tables_become_dotted_names() -> None:
    text = """
    listeners = ["PLAINTEXT://localhost:9092", "LAN://10.0.0.1:9092"]
    "num.partitions" = 3
    [log.retention]
    ms = 1000
    [auto.create]
    topics.enable = false
    [log.cleaner.min]
    cleanable.ratio = 0.25
    """
    assert parse_toml(text) == {
        "listeners": "PLAINTEXT://localhost:9092,LAN://10.0.0.1:9092",
        "num.partitions": "3",
        "log.retention.ms": "1000",
        "auto.create.topics.enable": "false",
        "log.cleaner.min.cleanable.ratio": "0.25",
    }


@pytest.mark.parametrize("text", ["a = ", "a = 2020-01-01", "a = [{b = 1}]"])
def test_toml_that_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_toml(text)


def test_the_environment_spells_names_in_capitals() -> None:
    environ = {"KLAMM_SET_LOG_RETENTION_MS": "5", "KLAMM_SET_FLUSH": "os", "HOME": "/home/klamm"}
    assert from_environment(environ, DEFINITION) == {"log.retention.ms": "5", "klamm.flush": "os"}


def test_a_misspelled_variable_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean KLAMM_SET_LOG_RETENTION_MS"):
        from_environment({"KLAMM_SET_LOG_RETENTION_MSS": "5"}, DEFINITION)


@pytest.mark.parametrize(
    "variable",
    ["KLAMM_BOOTSTRAP", "KLAMM_CACHE", "KLAMM_PURE", "KLAMM_SERVICE_HOST", "KLAMM_PORT_9092_TCP_ADDR"],
)
def test_variables_of_others_are_no_settings(variable: str, caplog: pytest.LogCaptureFixture) -> None:
    assert from_environment({variable: "10.0.0.1"}, DEFINITION) == {}
    assert not caplog.records


def test_a_setting_without_the_whole_prefix_is_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert from_environment({"KLAMM_LOG_RETENTION_MS": "5"}, DEFINITION) == {}
    assert "write KLAMM_SET_LOG_RETENTION_MS" in caplog.text


def test_flags_are_name_and_value() -> None:
    assert from_flags(["a=1", "b = x=y", "c="]) == {"a": "1", "b": " x=y", "c": ""}
    for flag in ("verbose", "=1"):
        with pytest.raises(ConfigError, match="name=value"):
            from_flags([flag])


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    # Given the same settings in three places
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nklamm.flush=os\nlog.retention.ms=1\n", encoding="utf-8")
    environ = {"KLAMM_SET_LOG_RETENTION_MS": "2", "KLAMM_SET_NUM_PARTITIONS": "3"}
    # When they are merged
    merged = merge(load_file(file), from_environment(environ, DEFINITION), from_flags(["num.partitions=4"]))
    # Then the later place wins
    assert merged == {"num.partitions": "4", "klamm.flush": "os", "log.retention.ms": "2"}


def test_the_file_name_chooses_the_reader(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text("[num]\npartitions = 2\n", encoding="utf-8")
    assert load_file(file) == {"num.partitions": "2"}


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_file(tmp_path / "absent.properties")
    file = tmp_path / "latin"
    file.write_bytes(b"a=\xff\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_file(file)
