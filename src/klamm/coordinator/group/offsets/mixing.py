"""Groups that get plain and transactional commits in one generation: legal, and nearly always a mistake.

The later commit wins, so a plain commit can overtake a transaction that aborts afterwards.
"""

from __future__ import annotations

from klamm.coordinator.group.events import CommitsMixed, GroupEvent, GroupEventCause
from klamm.coordinator.group.notes import Note
from klamm.coordinator.group.offsets.notes import MixingReported
from klamm.coordinator.group.state import Group
from klamm.coordinator.runtime.outcome import Context


def report_mixing(group: Group, request_member_id: str, context: Context) -> tuple[Note, GroupEvent]:
    """The warning, and the note that it was given: once per group."""
    event = CommitsMixed(
        group_id=group.group_id,
        timestamp_ms=context.timestamp_ms,
        cause=GroupEventCause.COMMITS_MIXED,
        member_id=request_member_id,
        client_id=context.client_id,
        client_host=context.client_host,
        generation=group.membership.generation,
    )
    return MixingReported(group.group_id), event
