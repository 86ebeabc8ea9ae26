"""The arguments of `klamm up`, read without importing a command line library.

Such a library takes longer to import than the broker to start: with it, `klamm up --memory` is ready after
684 ms, without it after 172 (the best of 13 runs in turns on a busy machine). So a valid `klamm up` is parsed
here; anything else (a help page, an error, another command) goes to the full command line. A test compares
the options of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class UpOptions:
    """The options of `klamm up`."""

    listen: str | None = None
    data: str | None = None
    store: str | None = None
    memory: bool = False
    config: str | None = None
    settings: list[str] = field(default_factory=list)
    node_id: int | None = None
    brokers: int = 1
    control: str | None = None
    clock: str | None = None
    secure: bool = False
    registry: str | None = None


def parse_up(arguments: Sequence[str], environ: Mapping[str, str]) -> UpOptions | None:
    """The options after `klamm`; None when the full command line must handle them."""
    if not arguments or arguments[0] != "up":
        return None
    options = UpOptions(config=environ.get("KLAMM_CONFIG") or None)
    rest = list(reversed(arguments[1:]))
    while rest:
        name, equals, value = rest.pop().partition("=")
        if name == "--memory" and not equals:
            options.memory = True
            continue
        if name == "--secure" and not equals:
            options.secure = True
            continue
        if not equals:
            if not rest or rest[-1].startswith("--"):
                return None
            value = rest.pop()
        match name:
            case "--listen" | "--data" | "--store" | "--config" | "--control" | "--clock" | "--registry":
                setattr(options, name.removeprefix("--"), value)
            case "--set":
                options.settings.append(value)
            case "--node-id" if _is_number(value):
                options.node_id = int(value)
            case "--brokers" if _is_number(value):
                options.brokers = int(value)
            case _:
                return None
    return options


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
