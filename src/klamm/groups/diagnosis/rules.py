"""The rules in their order, and the diagnosis of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from klamm.groups.diagnosis.finding import Diagnosis, Finding, GroupVerdict
from klamm.groups.diagnosis.members import nobody_reads, rebalancing, without_owner
from klamm.groups.diagnosis.positions import open_transaction, out_of_range, owner_silent, redelivered
from klamm.groups.diagnosis.progress import not_known, offsets_expire, too_slow, well, went_back
from klamm.groups.diagnosis.storm import storm
from klamm.groups.snapshot import GroupSnapshot

Rule = Callable[[GroupSnapshot], Finding | None]

RULES: Final[tuple[Rule, ...]] = (
    nobody_reads,
    rebalancing,
    storm,
    without_owner,
    out_of_range,
    open_transaction,
    redelivered,
    owner_silent,
    went_back,
    too_slow,
    offsets_expire,
    not_known,
)


def diagnose(group: GroupSnapshot) -> Diagnosis:
    """Apply every rule; the first one that finds something is the verdict."""
    found = [finding for rule in RULES if (finding := rule(group)) is not None]
    found = _with_deeper_cause(found)
    # Partitions of unknown lag are the evidence of another finding already, if there is one.
    if len(found) > 1:
        found = [each for each in found if each.verdict is not GroupVerdict.NOT_KNOWN]
    return Diagnosis(group.group_id, found or [well(group)])


def _with_deeper_cause(found: list[Finding]) -> list[Finding]:
    """A record that ends its readers each time is what makes them come and go."""
    by_verdict = {each.verdict: each for each in found}
    poison = by_verdict.get(GroupVerdict.REDELIVERED)
    if poison is None:
        return found
    caused = [
        by_verdict[each] for each in (GroupVerdict.STORM, GroupVerdict.NOBODY_READS) if each in by_verdict
    ]
    if not caused:
        return found
    evidence = [*poison.evidence, *(line for each in caused for line in each.evidence)]
    merged = replace(poison, evidence=evidence)
    return [merged, *(each for each in found if each is not poison)]
