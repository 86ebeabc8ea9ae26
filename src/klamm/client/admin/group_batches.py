"""Requests about many groups: one to each coordinator, not one for each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from klamm.client.calls import ASK_AGAIN, GROUP, Calls, Deadline
from klamm.errors import KlammError, broker_error
from klamm.net.network import Node
from klamm.net.tasks import gather
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

AT_ONCE: Final = 25  # groups in one request: a broker answers others between two of them
_KEYS_AT_ONCE: Final = 250
_KEYS_VERSION: Final = 4  # of FindCoordinator: from here on a request has several keys

Item = TypeVar("Item")


async def ask_about(
    calls: Calls,
    group_ids: Sequence[str],
    api_key: ApiKey,
    request: Callable[[Sequence[str]], Any],  # for these groups, which have one coordinator
    items: Callable[[Any], Iterable[tuple[str, int, str | None, Item]]],  # group, error, message, item
    deadline: Deadline,
    max_version: int = 32767,
) -> dict[str, tuple[Item, int] | KlammError]:
    """For each group its part of the responses and its coordinator, or why there is none."""
    found: dict[str, tuple[Item, int] | KlammError] = {}
    pending = list(dict.fromkeys(group_ids))
    while pending:
        led, failed = await _coordinators(calls, pending, deadline)
        found.update(failed)
        chunks = [
            (node_id, ids[at : at + AT_ONCE])
            for node_id, ids in led.items()
            for at in range(0, len(ids), AT_ONCE)
        ]
        sent = [
            calls.core.tasks.spawn(
                calls.send(Node("broker", node_id), api_key, request(ids), deadline, max_version)
            )
            for node_id, ids in chunks
        ]
        again: KlammError | None = None
        pending = []
        for (node_id, ids), outcome in zip(chunks, await gather(sent), strict=True):
            if isinstance(outcome, KlammError):
                if not outcome.retriable:
                    found.update(dict.fromkeys(ids, outcome))
                    continue
                again, moved = outcome, ids
            else:
                moved = []
                missing = broker_error(ErrorCode.group_id_not_found, "a group that the response leaves out")
                found.update(dict.fromkeys(ids, missing))
                for group_id, error_code, message, item in items(outcome):
                    if error_code in ASK_AGAIN:
                        again = broker_error(error_code, f"group {group_id}", message)
                        moved.append(group_id)
                    elif error_code:
                        found[group_id] = broker_error(error_code, f"group {group_id}", message)
                    else:
                        found[group_id] = (item, node_id)
            for group_id in moved:
                calls.forget_coordinator(group_id)
            pending += moved
        if again is not None:
            await deadline.pause(again)
    return found


async def _coordinators(
    calls: Calls, group_ids: Sequence[str], deadline: Deadline
) -> tuple[dict[int, list[str]], dict[str, KlammError]]:
    """The groups by coordinator, and those that have none."""
    unknown = [group_id for group_id in group_ids if not calls.knows_coordinator(group_id)]
    if len(unknown) > 1:
        for at in range(0, len(unknown), _KEYS_AT_ONCE):
            await _look_up(calls, unknown[at : at + _KEYS_AT_ONCE], deadline)
    led: dict[int, list[str]] = defaultdict(list)
    failed: dict[str, KlammError] = {}
    for group_id in group_ids:
        try:
            led[await calls.coordinator_of(group_id, deadline)].append(group_id)
        except KlammError as error:
            failed[group_id] = error
    return led, failed


async def _look_up(calls: Calls, group_ids: Sequence[str], deadline: Deadline) -> None:
    """Ask for many at once; what this does not find is asked for one by one."""
    versions: list[int] = []

    def request(version: int) -> FindCoordinatorRequest:
        versions.append(version)
        return FindCoordinatorRequest(key=group_ids[0], key_type=GROUP, coordinator_keys=list(group_ids))

    response: FindCoordinatorResponse = await calls.to_any(ApiKey.FIND_COORDINATOR, request, deadline)
    if versions[-1] < _KEYS_VERSION:
        return
    for found in response.coordinators:
        if found.error_code == ErrorCode.none:
            await calls.learn_coordinator(found.key, found.node_id, deadline)
