"""`sasl.jaas.config` as Kafka's clients take it: one login module and its options."""

from __future__ import annotations

import re
from typing import Final

from klamm.config import ConfigError, Password

NAME: Final = "sasl.jaas.config"
_PREFIX: Final = "org.apache.kafka.common.security."
# By the end of the mechanism's name: the module, and the options that klamm knows.
_MODULES: Final = {
    "PLAIN": ("plain.PlainLoginModule", ("username", "password")),
    "SCRAM": ("scram.ScramLoginModule", ("username", "password")),
    "OAUTHBEARER": ("oauthbearer.OAuthBearerLoginModule", ("clientId", "clientSecret", "scope")),
}
_WORD: Final = re.compile(
    r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s=;"']+)|([=;]))""", re.DOTALL
)
_EXTENSION: Final = "extension_"


def jaas_options(text: Password, mechanism: str, prefix: str = "") -> dict[str, str]:
    """The options of the login module for a mechanism, those that it knows and those with the prefix.

    Raises ConfigError, which never shows a value.
    """
    words = _words(text.secret)
    module, known = _MODULES[mechanism.split("-", maxsplit=1)[0]]
    if not words or words[0] != _PREFIX + module:
        raise ConfigError(NAME, f"{NAME} does not begin with {_PREFIX}{module}, the module for {mechanism}")
    if len(words) < 3 or words[1] != "required" or words[-1] != ";" or ";" in words[:-1]:
        raise ConfigError(NAME, f'{NAME}: expected MODULE required name="value" ... ; with one module')
    rest = words[2:-1]
    options: dict[str, str] = {}
    while rest:
        if len(rest) < 3 or rest[1] != "=" or rest[2] in ("=", ";"):
            raise ConfigError(NAME, f'{NAME}: expected name="value" after option {len(options)}')
        name, _, value = rest[:3]
        is_extension = mechanism == "OAUTHBEARER" and name.startswith(_EXTENSION)
        if name not in known and not is_extension and not (prefix and name.startswith(prefix)):
            raise ConfigError(NAME, f"{NAME}: unknown option {name}: expected {', '.join(known)}")
        options[name] = value
        rest = rest[3:]
    return options


def extensions_of(options: dict[str, str]) -> dict[str, str]:
    """SASL extensions among the options of OAUTHBEARER."""
    return {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }


def _words(text: str) -> list[str]:
    words: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            raise ConfigError(NAME, f"{NAME}: a quote is not closed, or a value needs quotes")
        double, single, plain, sign = match.groups()
        quoted = double if double is not None else single
        words.append(
            re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else plain or sign
        )
        position = match.end()
    return words
