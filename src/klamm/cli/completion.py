"""Shell completion of topics and groups of the cluster in the command line."""

from __future__ import annotations

import os
from collections.abc import Callable

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP
from klamm.client.admin.admin import Admin
from klamm.errors import KlammError

TIMEOUT_MS = 1_500  # the user waits


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, lambda admin: admin.list_topics(internal=incomplete.startswith("_")))


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, lambda admin: [item.group_id for item in admin.list_groups()])


def _names(ctx: typer.Context, incomplete: str, ask: Callable[[Admin], list[str]]) -> list[str]:
    bootstrap = ctx.params.get("bootstrap") or os.environ.get("KLAMM_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    settings = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": TIMEOUT_MS}
    try:
        with Admin(settings) as admin:
            return sorted(name for name in ask(admin) if name.startswith(incomplete))
    except KlammError:
        return []  # completion has no place for an error: complete nothing
