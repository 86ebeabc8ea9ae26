"""The security settings of kafka-python and aiokafka as klamm's."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.config import ConfigError

# The same thing under another name.
_RENAMED: Final = {
    "security_protocol": "security.protocol",
    "ssl_context": "ssl.context",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
}
_CHECKS_NAME: Final = "ssl_check_hostname"
_TOKENS: Final = "sasl_oauth_token_provider"
NAMES: Final = frozenset({*_RENAMED, _CHECKS_NAME, _TOKENS})
_UNKNOWN_LIFETIME_S: Final = 60  # of a token that is not a JWT


def settings_without_security(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not about security."""
    return {name: value for name, value in given.items() if name not in NAMES}


def security_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """klamm's names for those that are; None is theirs for "not set"."""
    found = {_RENAMED[name]: value for name, value in given.items() if name in _RENAMED and value is not None}
    if given.get(_CHECKS_NAME) is False:
        found["ssl.endpoint.identification.algorithm"] = "none"
    provider = given.get(_TOKENS)
    if provider is not None:
        found["oauth_cb"] = _token_function(provider)
    return found


def _token_function(provider: Any) -> Callable[[str], tuple[str, float]]:
    """Their provider has `token()`, in aiokafka's programs a coroutine; the token says when it ends."""
    if not callable(getattr(provider, "token", None)):
        raise ConfigError(_TOKENS, f"{_TOKENS}: expected an object with a method token()")

    def oauth_cb(_: str) -> tuple[str, float]:
        token = provider.token()
        if inspect.isawaitable(token):
            token = asyncio.run(_awaited(token))
        return token, _expires_at(token)

    return oauth_cb


async def _awaited(token: Any) -> Any:
    return await token


def _expires_at(token: str) -> float:
    try:
        payload = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return time.time() + _UNKNOWN_LIFETIME_S
