"""Users of PLAIN and SCRAM in the configuration: sasl.jaas.config and klamm.users.file."""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
from typing import TYPE_CHECKING, Final

from klamm.broker.security.credentials import ScramCredential
from klamm.broker.security.sasl import PLAIN
from klamm.broker.security.sasl_plain import HASHES
from klamm.config import ConfigError
from klamm.net.security.jaas import jaas_options

if TYPE_CHECKING:
    from klamm.broker.config.security_settings import ListenerValues

NAME: Final = "klamm.users.file"
USER_PREFIX: Final = "user_"
_LINE: Final = re.compile(r"(.+):(SCRAM-SHA-256|SCRAM-SHA-512)\$(\d{1,7}):([^$:]+)\$([^$:]+):([^$:]+)")

_log = logging.getLogger(__name__)


def jaas_users(values: ListenerValues) -> dict[str, str]:
    """User names and passwords of `sasl.jaas.config`, for PLAIN. Raises ConfigError."""
    text = values.secret("sasl.jaas.config", PLAIN)
    if text is None:
        return {}
    options = jaas_options(text, PLAIN, prefix=USER_PREFIX)
    return {
        name.removeprefix(USER_PREFIX): password
        for name, password in options.items()
        if name.startswith(USER_PREFIX)
    }


def read_users(values: ListenerValues) -> dict[str, tuple[str, ScramCredential]]:
    """Rows of the users file. Raises ConfigError, which shows no row."""
    path = values.text(NAME)
    if path is None:
        return {}
    setting = values.full_name(NAME)
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
            mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise ConfigError(setting, f"{setting}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(setting, f"{setting}: {path} is not UTF-8 text") from None
    if mode & 0o077:
        _log.warning("%s can be read by other users of this machine: chmod 600 %s", path, path)
    rows: dict[str, tuple[str, ScramCredential]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _row(line.strip())
        if found is None:
            raise ConfigError(
                setting,
                f"{setting}: line {number} of {path} is invalid: expected "
                "NAME:SCRAM-SHA-256$ITERATIONS:SALT$STORED:SERVER with salt and keys in base64",
            )
        user, mechanism, credential = found
        if user in rows:
            raise ConfigError(setting, f"{setting}: line {number} of {path} repeats a user")
        rows[user] = mechanism, credential
    return rows


def _row(line: str) -> tuple[str, str, ScramCredential] | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    user, mechanism, iterations = match[1], match[2], int(match[3])
    try:
        salt, stored, server = (base64.b64decode(each, validate=True) for each in match.groups()[3:])
    except binascii.Error:
        return None
    size = 32 if HASHES[mechanism] == "sha256" else 64
    if not salt or len(stored) != size or len(server) != size or not iterations:
        return None
    return user, mechanism, ScramCredential(salt, stored, server, iterations)
