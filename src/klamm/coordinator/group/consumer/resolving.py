"""Which topics the regular expressions of a group match: found outside the shard, told to it as a signal."""

from __future__ import annotations

from functools import partial
from typing import Final

from klamm.coordinator.group.consumer.draft import ConsumerDraft
from klamm.coordinator.group.consumer.membership import consumer_membership
from klamm.coordinator.group.consumer.notes import ResolvingBegun, ResolvingEnded
from klamm.coordinator.group.consumer.remembered import ConsumerRegex
from klamm.coordinator.group.consumer.signals import (
    RegexesResolved,
    ResolvedRefused,
    ResolveRegexes,
)
from klamm.coordinator.group.events import GroupEventCause
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.outcome import Context, Outcome

SHORTEST_PAUSE_MS: Final = 10_000  # between two passes


def begin_resolving(draft: ConsumerDraft) -> None:
    """Match the regular expressions, if one was never matched, topics have changed, or it is long ago."""
    memory = draft.memory
    regexes = sorted(draft.regexes() if draft.updated or draft.gone else memory.regex_users)
    live, topics, now_ms = draft.live, draft.state.topics, draft.context.now_ms
    if not regexes or topics is None:
        return
    if live is not None:
        if live.is_resolving:
            return
        since_ms = live.resolved_at_ms
        if since_ms is not None:
            passed_ms = now_ms - since_ms
            is_due = (
                passed_ms >= draft.state.config.group_consumer_regex_refresh_interval_ms
                or live.resolved_version != topics.version
                or any(regex not in memory.regexes for regex in regexes)
            )
            if passed_ms < SHORTEST_PAUSE_MS or not is_due:
                return
    draft.notes.append(ResolvingBegun(draft.group_id, topics.version))
    draft.actions.append(ResolveRegexes(draft.group_id, tuple(regexes), draft.context))


def regexes_resolved(state: GroupState, signal: RegexesResolved, context: Context) -> GroupOutcome:
    """Take over what was matched; the epoch rises if the group reads other topics now."""
    live = consumer_membership(state.groups.get(signal.group_id))
    if live is None:
        return Outcome()
    memory = live.memory
    draft = ConsumerDraft(state, signal.group_id, context, memory, live)
    draft.notes.append(ResolvingEnded(signal.group_id, context.now_ms))
    is_other = False
    for regex, value in signal.resolved.items():
        if regex not in memory.regex_users:
            continue  # nobody uses it any more
        known = memory.regexes.get(regex)
        if known is None or known.topics != value.topics:
            is_other = True
            draft.resolved[regex] = value
            draft.records.append(ConsumerRegex(signal.group_id, regex, value))
    draft.if_refused = partial(ResolvedRefused, signal.group_id)
    if is_other:
        draft.bump(GroupEventCause.SUBSCRIPTION_CHANGED, reason="topics match a regular expression")
    return draft.outcome()


def resolved_refused(state: GroupState, signal: ResolvedRefused, context: Context) -> GroupOutcome:
    """The log rejected them: they are matched again later."""
    if consumer_membership(state.groups.get(signal.group_id)) is None:
        return Outcome()
    return Outcome(notes=(ResolvingEnded(signal.group_id, context.now_ms),))
