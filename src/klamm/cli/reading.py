"""A consumer for commands that look back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from klamm.cli.cluster import clear_errors
from klamm.cli.profiles import profile_settings
from klamm.client.consumer.consumer import Consumer


@contextmanager
def a_reader(bootstrap: str, **settings: str) -> Iterator[Consumer]:
    """A consumer without a group; errors end the command with one line."""
    with (
        clear_errors(),
        Consumer(
            {
                **profile_settings(),
                "bootstrap.servers": bootstrap,
                "auto.offset.reset": "earliest",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        ) as consumer,
    ):
        yield consumer
