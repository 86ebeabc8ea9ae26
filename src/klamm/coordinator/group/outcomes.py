"""What a decision about groups returns."""

from __future__ import annotations

from klamm.coordinator.runtime.outcome import Context, Outcome

GroupOutcome = Outcome


def reply(context: Context, response: object, seen_offset: int | None = None) -> GroupOutcome:
    """Only an answer."""
    return Outcome(((context.token, response),), seen_offset)
