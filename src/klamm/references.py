"""References in settings, as Kafka has them: `${env:NAME}`, `${file:/path:key}`, `${directory:/path:name}`.

A password need stand in no file of settings and in no command line. These three names are known without
`config.providers`, which may give others (KIP-297, KIP-421, KIP-887). References are resolved in what this
process was started with; never in what another program sends, which would read files of this machine by them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from klamm.config import ConfigError, parse_properties

PROVIDERS: Final = "config.providers"
_REFERENCE: Final = r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}"
_KINDS: Final = {
    "env": "EnvVarConfigProvider",
    "file": "FileConfigProvider",
    "directory": "DirectoryConfigProvider",
}
Lookup = Callable[[str, str, str], str]  # setting, path and key to the value


def resolved(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The settings with values in place of references. Raises ConfigError, which names no value."""
    if not any("${" in value for value in settings.values()):
        return dict(settings)
    lookups = _lookups(settings, environ)

    def value_of(name: str, found: re.Match[str]) -> str:
        provider, path, key = found[1], found[2] or "", found[3]
        if provider not in lookups:
            return found[0]  # as in Kafka: no reference, or one that another program resolves
        return lookups[provider](name, path, key)

    return {
        name: value
        if name.startswith(PROVIDERS) or "${" not in value
        else re.sub(_REFERENCE, partial(value_of, name), value)
        for name, value in settings.items()
    }


def _lookups(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, Lookup]:
    """What each name of a provider reads."""
    named = dict(_KINDS)
    for name in filter(None, map(str.strip, settings.get(PROVIDERS, "").split(","))):
        text = settings.get(f"{PROVIDERS}.{name}.class", named.get(name, ""))
        kind = text.strip().rpartition(".")[2]
        if kind not in _KINDS.values():
            raise ConfigError(
                f"{PROVIDERS}.{name}.class",
                f"invalid value {text} for {PROVIDERS}.{name}.class: expected one of "
                f"{', '.join(_KINDS.values())}",
            )
        named[name] = kind
    found: dict[str, Lookup] = {}
    for name, kind in named.items():
        allowed = settings.get(f"{PROVIDERS}.{name}.param.allowed.paths")
        paths = None if allowed is None else [os.path.realpath(each.strip()) for each in allowed.split(",")]
        if kind == _KINDS["env"]:
            pattern = settings.get(f"{PROVIDERS}.{name}.param.allowlist.pattern", "")
            found[name] = partial(_variable, environ, pattern)
        else:
            found[name] = partial(_property if kind == _KINDS["file"] else _content, paths)
    return found


def _variable(environ: Mapping[str, str], pattern: str, setting: str, path: str, key: str) -> str:
    if path:
        raise ConfigError(setting, f"{setting} refers to ${{env:{path}:…}}: expected ${{env:NAME}}")
    if pattern and not re.fullmatch(pattern, key):
        raise ConfigError(
            setting, f"{setting} refers to environment variable {key}: its provider does not allow it"
        )
    if key not in environ:
        raise ConfigError(
            setting, f"{setting} refers to environment variable {key}, which is not set: set it"
        )
    return environ[key]


def _property(allowed: list[str] | None, setting: str, path: str, key: str) -> str:
    if not path or not key:
        raise ConfigError(setting, f"{setting} refers to a file without a key: expected ${{file:/path:key}}")
    properties = parse_properties(_read(setting, path, allowed))
    if key not in properties:
        raise ConfigError(setting, f"{setting} refers to key {key} in {path}, which has no such key: add it")
    return properties[key]


def _content(allowed: list[str] | None, setting: str, path: str, key: str) -> str:
    if not path or not key or os.sep in key:
        raise ConfigError(
            setting, f"{setting} refers to no file: expected ${{directory:/path:name-of-a-file}}"
        )
    return _read(setting, os.path.join(path, key), allowed)


def _read(setting: str, file: str, allowed: list[str] | None) -> str:
    if allowed is not None and not any(_is_below(file, each) for each in allowed):
        raise ConfigError(
            setting, f"{setting} refers to {file}, which is not in allowed.paths of its provider"
        )
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except OSError as error:
        raise ConfigError(
            setting, f"{setting} refers to {file}, which cannot be read: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(setting, f"{setting} refers to {file}, which is not UTF-8 text") from None


def _is_below(file: str, folder: str) -> bool:
    return os.path.commonpath((os.path.realpath(file), folder)) == folder
