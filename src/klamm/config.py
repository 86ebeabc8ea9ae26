"""Settings under Kafka's names: their types and limits, how text is parsed, where values come from.

Broker, topic and client configuration share these definitions. A value comes from one of four
places, of which the later takes precedence: the default, a file (Java properties or TOML), the environment, a
flag `name=value`.
In the environment `log.retention.ms` is written `KLAMM_SET_LOG_RETENTION_MS`, and klamm's own
`klamm.flush` is `KLAMM_SET_FLUSH`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from os.path import splitext
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path  # slow to import

INT_MAX: Final = 2**31 - 1
INT_MIN: Final = -(2**31)
LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
DOUBLE_MAX: Final = 1.7976931348623157e308

# Longer than KLAMM_: other variables begin like that too, such as KLAMM_BOOTSTRAP, or KLAMM_SERVICE_HOST,
# which Kubernetes sets in every pod beside a service called klamm.
ENVIRONMENT_PREFIX: Final = "KLAMM_SET_"
_NEAR_PREFIX: Final = "KLAMM_"

_log = logging.getLogger(__name__)


class Kind(IntEnum):
    """The type of a setting; the numbers are DescribeConfigs'."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """The source of a value; the numbers are DescribeConfigs'. Up to 5 a lower one takes precedence."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigError(ValueError):
    """An invalid setting; the message says what is expected."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class Password:
    """A secret that does not print itself."""

    __slots__ = ("secret",)

    def __init__(self, secret: str) -> None:
        self.secret: Final = secret

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.secret == self.secret

    def __hash__(self) -> int:
        return hash(self.secret)

    def __repr__(self) -> str:
        return "[hidden]"

    __str__ = __repr__


Value: TypeAlias = bool | int | float | str | tuple[str, ...] | Password | None
RawValue: TypeAlias = str | bool | int | float | Sequence[str] | None


class Check(NamedTuple):
    """A condition on a value, and its description."""

    holds: Callable[[Value], bool]
    wanted: str
    is_of_words: bool = False  # for a list of known words


def between(low: float, high: float) -> Check:
    """A number from low to high, both included."""

    def holds(value: Value) -> bool:
        return isinstance(value, int | float) and low <= value <= high

    return Check(holds, f"from {low} to {high}")


def at_least(low: float) -> Check:
    """A number not below low."""

    def holds(value: Value) -> bool:
        return isinstance(value, int | float) and value >= low

    return Check(holds, f"not below {low}")


def one_of(*choices: str) -> Check:
    """One of these words, in this spelling."""
    return Check(lambda value: value in choices, "one of " + ", ".join(choices))


def word_of(*choices: str) -> Check:
    """One of these words, whatever the case of their letters."""

    def holds(value: Value) -> bool:
        return isinstance(value, str) and value.lower() in choices

    return Check(holds, "one of " + ", ".join(choices))


def each_of(*choices: str) -> Check:
    """A list of any of these words, also an empty one."""

    def holds(value: Value) -> bool:
        return isinstance(value, tuple) and all(word in choices for word in value)

    return Check(holds, "any of " + ", ".join(choices), is_of_words=True)


def not_empty() -> Check:
    """A text or list that is not empty."""
    return Check(lambda value: value is None or bool(value), "not empty")


class Setting(NamedTuple):
    """One setting: its name, type, default and limits."""

    name: str
    kind: Kind
    default: Value
    check: Check | None = None
    doc: str = ""
    dynamic: bool = False  # may change while the broker runs
    has_effect: bool = True  # some of Kafka's are accepted for compatibility and have no effect
    required: bool = False

    @property
    def is_sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD

    def parse(self, raw: RawValue) -> Value:
        """The typed value of a text, as Kafka reads it: trimmed, booleans in any case, lists by commas."""
        value = None if raw is None else _parse_text(self, as_text(raw).strip())
        if isinstance(value, tuple) and self.check is not None and self.check.is_of_words:
            value = tuple(dict.fromkeys(value))  # duplicates are ignored
        if value is None and self.default is not None:
            raise ConfigError(self.name, f"{self.name} has no value: expected {self.wanted}")
        if value is not None and self.check is not None and not self.check.holds(value):
            raise self.refusal(raw)
        return value

    def refusal(self, raw: RawValue) -> ConfigError:
        """The error for an invalid value."""
        shown = "[hidden]" if self.is_sensitive or raw is None else as_text(raw)
        return ConfigError(self.name, f"invalid value {shown} for {self.name}: expected {self.wanted}")

    @property
    def wanted(self) -> str:
        words = _KIND_WORDS[self.kind]
        return words if self.check is None else f"{words}, {self.check.wanted}"


_KIND_WORDS: Final[Mapping[Kind, str]] = {
    Kind.BOOLEAN: "true or false",
    Kind.STRING: "a text",
    Kind.INT: "a whole number of 32 bits",
    Kind.SHORT: "a whole number of 16 bits",
    Kind.LONG: "a whole number of 64 bits",
    Kind.DOUBLE: "a number",
    Kind.LIST: "words separated by commas",
    Kind.CLASS: "a name",
    Kind.PASSWORD: "a secret",
}
# Compiled when it is used first.
_NUMBER: Final = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
_BITS: Final[Mapping[Kind, int]] = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_WIDEST_NUMBER: Final = 400  # no valid number is longer


def _parse_text(setting: Setting, text: str) -> Value:
    match setting.kind:
        case Kind.BOOLEAN:
            if text.lower() not in {"true", "false"}:
                raise setting.refusal(text)
            return text.lower() == "true"
        case Kind.SHORT | Kind.INT | Kind.LONG:
            bound = 1 << (_BITS[setting.kind] - 1)
            if len(text) > _WIDEST_NUMBER or not _is_whole_number(text):
                raise setting.refusal(text)
            if not -bound <= (number := int(text)) < bound:
                raise setting.refusal(text)
            return number
        case Kind.DOUBLE:
            if len(text) > _WIDEST_NUMBER or not re.fullmatch(_NUMBER, text):
                raise setting.refusal(text)
            return float(text)
        case Kind.LIST:
            return tuple(re.split(r"\s*,\s*", text)) if text else ()
        case Kind.PASSWORD:
            return Password(text)
        case Kind.STRING | Kind.CLASS:
            return text


def _is_whole_number(text: str) -> bool:
    digits = text[1:] if text.startswith(("+", "-")) else text
    return digits.isascii() and digits.isdigit()


def as_text(raw: RawValue | Value) -> str:
    """A value as written in a properties file and in DescribeConfigs."""
    match raw:
        case None:
            return ""
        case bool():
            return "true" if raw else "false"
        case float():
            return _java_double(raw)
        case Password():
            return raw.secret
        case str() | int():
            return str(raw)
        case _:
            return ",".join(raw)


def _java_double(number: float) -> str:
    """Java's spelling: an exponent only for very small and very large numbers, always with a point."""
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    shortest = next(text for digits in range(1, 18) if float(text := f"{number:.{digits}e}") == number)
    mantissa, exponent = shortest.split("e")
    return f"{mantissa}E{int(exponent)}"


class Values(Mapping[str, Value]):
    """Typed values by name, with an accessor for each type."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def boolean(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def integer(self, name: str) -> int:
        value = self._values[name]
        assert type(value) is int, name  # a boolean is an int to Python, not here
        return value

    def number(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, int | float), name
        return float(value)

    def text(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def words(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple), name
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self._values[name] is None else self.integer(name)

    def optional_text(self, name: str) -> str | None:
        return None if self._values[name] is None else self.text(name)

    def secret(self, name: str) -> str | None:
        value = self._values[name]
        assert value is None or isinstance(value, Password), name
        return None if value is None else value.secret


class Definition:
    """All settings that a broker, a topic or a client understands."""

    def __init__(self, settings: Iterable[Setting], *, ignored_prefixes: tuple[str, ...] = ()) -> None:
        self.settings: dict[str, Setting] = {setting.name: setting for setting in settings}
        self._ignored_prefixes = ignored_prefixes  # prefixes of settings that only other programs use

    def __contains__(self, name: object) -> bool:
        return name in self.settings

    def __getitem__(self, name: str) -> Setting:
        """The setting of this name; raises ConfigError that suggests the nearest name."""
        try:
            return self.settings[name]
        except KeyError:
            raise unknown_name(name, self.settings) from None

    def knows(self, name: str) -> bool:
        """Whether a name is a setting or is ignored."""
        return name in self.settings or name.startswith(self._ignored_prefixes)

    def parse_given(self, raw: Mapping[str, RawValue]) -> dict[str, Value]:
        """Typed values of the given settings only."""
        return {
            name: self[name].parse(value)
            for name, value in raw.items()
            if name in self.settings or not self.knows(name)
        }

    def parse(self, raw: Mapping[str, RawValue]) -> Values:
        """Typed values of all settings, with defaults."""
        given = self.parse_given(raw)
        for setting in self.settings.values():
            if setting.required and setting.name not in given:
                raise ConfigError(setting.name, f"{setting.name} is required: expected {setting.wanted}")
        return Values({name: setting.default for name, setting in self.settings.items()} | given)


# Settings of Kafka that are in many files and books, and no longer exist.
GONE: Final = {
    "zookeeper.connect": "there is no ZooKeeper; topics and leaders are kept in the data folder",
    "zookeeper.connection.timeout.ms": "there is no ZooKeeper",
    "zookeeper.session.timeout.ms": "there is no ZooKeeper",
    "inter.broker.protocol.version": "records always have the current format, as in Kafka 4",
    "log.message.format.version": "records always have the current format, as in Kafka 4",
}


def unknown_name(name: str, known: Iterable[str]) -> ConfigError:
    """The error for an unknown name."""
    if name in GONE:
        return ConfigError(name, f"unknown setting {name}: {GONE[name]}; remove this line")
    import difflib  # noqa: PLC0415 - slow to import, and needed for errors only

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return ConfigError(name, f"unknown setting {name}{hint}")


def merge(*layers: Mapping[str, RawValue]) -> dict[str, str]:
    """One mapping of texts; later layers take precedence."""
    merged: dict[str, str] = {}
    for layer in layers:
        merged.update({name: as_text(value) for name, value in layer.items() if value is not None})
    return merged


def load_file(path: str | Path) -> dict[str, str]:
    """The settings in a file: TOML if it ends so, else Java properties."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ConfigError(str(path), f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"{path} is not UTF-8 text: save it as UTF-8") from error
    return parse_toml(text) if splitext(path)[1] == ".toml" else parse_properties(text)


def parse_toml(text: str) -> dict[str, str]:
    """TOML with nested tables: `[log.retention] ms = 1` is `log.retention.ms`."""
    import tomllib  # noqa: PLC0415 - slow to import, and most settings are not in TOML

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("", f"invalid TOML: {error}") from error
    flat: dict[str, str] = {}
    pending: list[tuple[str, object]] = list(tables.items())
    while pending:
        name, value = pending.pop()
        if isinstance(value, dict):
            pending.extend((f"{name}.{inner}", content) for inner, content in value.items())
        elif isinstance(value, list) and all(isinstance(word, str | int | float) for word in value):
            flat[name] = ",".join(as_text(word) for word in value)
        elif isinstance(value, str | bool | int | float):
            flat[name] = as_text(value)
        else:
            raise ConfigError(name, f"{name} holds a {type(value).__name__}: expected a text or a number")
    return flat


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties: `#` and `!` comments, `=`, `:` or a space between, `\\` continues a line."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
        assert match is not None  # both groups may be empty
        properties[_unescape(match[1])] = _unescape(match[2])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = ""
        yield line
    if pending:
        yield pending


_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) == 5 else _ESCAPES.get(escaped, escaped)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", plain, text, flags=re.DOTALL)


def from_environment(environ: Mapping[str, str], definition: Definition) -> dict[str, str]:
    """`KLAMM_SET_LOG_RETENTION_MS=1` is `log.retention.ms`; `KLAMM_SET_FLUSH=os` is `klamm.flush`.

    Raises ConfigError for an unknown setting. A variable that lacks `SET_` only is ignored with a warning.
    """
    found: dict[str, str] = {}
    for variable, value in environ.items():
        if variable.startswith(ENVIRONMENT_PREFIX):
            name = _setting_of(variable.removeprefix(ENVIRONMENT_PREFIX), definition)
            if name is None:
                variables = (
                    ENVIRONMENT_PREFIX + known.upper().replace(".", "_") for known in definition.settings
                )
                raise unknown_name(variable, variables)
            found[name] = value
        elif variable.startswith(_NEAR_PREFIX):
            rest = variable.removeprefix(_NEAR_PREFIX)
            if _setting_of(rest, definition) is not None:
                _log.warning(
                    "environment variable %s ignored: settings are read from %s<NAME>, write %s%s",
                    variable,
                    ENVIRONMENT_PREFIX,
                    ENVIRONMENT_PREFIX,
                    rest,
                )
    return found


def _setting_of(text: str, definition: Definition) -> str | None:
    """The setting that `LOG_RETENTION_MS` names; None when there is none."""
    name = text.lower().replace("_", ".")
    for candidate in (name, f"klamm.{name}"):
        if definition.knows(candidate):
            return candidate
    return None


def from_flags(flags: Iterable[str]) -> dict[str, str]:
    """`name=value` words of a command line."""
    found: dict[str, str] = {}
    for flag in flags:
        name, equals, value = flag.partition("=")
        if not equals or not name.strip():
            raise ConfigError(flag, f"{flag!r} is not a setting: expected name=value")
        found[name.strip()] = value
    return found
