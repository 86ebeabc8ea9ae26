"""`klamm topics list` without the command line library and without a client.

Importing both takes several times as long as the rest. What is out of the ordinary (another option, a cluster
that does not answer at once, an error of a topic) goes to the full command line, which explains it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from klamm.cli.tables import table_lines
from klamm.errors import KlammError
from klamm.net.single import ask_once
from klamm.printable import printable_json
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest, MetadataResponse

LONGEST_S: Final = 1.0  # for a cluster that does not answer: the full command line begins anew
COLUMNS: Final = ("topic", "partitions")


class ListOptions(NamedTuple):
    """The options of `klamm topics list`."""

    bootstrap: str
    timeout: float
    internal: bool
    as_json: bool


def parse_list(arguments: Sequence[str], environ: Mapping[str, str]) -> ListOptions | None:
    """The options after `klamm topics list`; None when the full command line must handle them."""
    if environ.get("KLAMM_PROFILE"):
        return None
    values = {"--bootstrap": environ.get("KLAMM_BOOTSTRAP") or "127.0.0.1:9092", "--timeout": "10"}
    flags = set()
    rest = list(reversed(arguments))
    while rest:
        name, equals, value = rest.pop().partition("=")
        if name in ("--internal", "--json") and not equals:
            flags.add(name)
            continue
        name = "--bootstrap" if name == "-b" and not equals else name
        if name not in values or (not equals and not rest):
            return None
        values[name] = value if equals else rest.pop()
    try:
        timeout = float(values["--timeout"])
    except ValueError:
        return None
    return ListOptions(values["--bootstrap"], timeout, "--internal" in flags, "--json" in flags)


def list_topics(options: ListOptions) -> bool:
    """Print the topics; False, with nothing printed, when the full command line must handle it."""
    host, _, port = options.bootstrap.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or "," in host or "[" in host:
        return False
    if not 0 < options.timeout < float("inf"):
        return False
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    try:
        response: MetadataResponse = ask_once(
            (host, int(port)), "klamm-admin", ApiKey.METADATA, request, min(options.timeout, LONGEST_S)
        )
    except (OSError, OverflowError, KlammError):
        return False
    if response.error_code or any(topic.error_code for topic in response.topics):
        return False
    found = sorted(
        (topic.name or "", len(topic.partitions), topic.is_internal)
        for topic in response.topics
        if options.internal or not topic.is_internal
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines(found, options.as_json)))
    return True


def lines(found: Sequence[tuple[str, int, bool]], as_json: bool) -> list[str]:
    """The output for topics: name, number of partitions, whether it is internal."""
    if as_json:
        import json  # noqa: PLC0415 - a table does not need it

        listed: list[dict[str, Any]] = [
            {"topic": name, "partitions": count, "is_internal": is_internal}
            for name, count, is_internal in found
        ]
        return [printable_json(json.dumps(listed, ensure_ascii=False, indent=2))]
    return list(table_lines(COLUMNS, [(name, count) for name, count, _ in found]))
