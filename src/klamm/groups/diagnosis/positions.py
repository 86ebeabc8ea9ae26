"""Rules about positions that do not move, or cannot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from klamm.groups.diagnosis.finding import Evidence, Finding, GroupVerdict, exact, inferred
from klamm.groups.diagnosis.words import count, duration, listed
from klamm.groups.lag import LagStatus
from klamm.groups.snapshot import GroupSnapshot, PartitionSnapshot, PartitionTransaction

HELD_MS: Final = 10_000  # a transaction that is open for less is at work
RESTARTS: Final = 3
SILENT_MS: Final = 60_000


def out_of_range(group: GroupSnapshot) -> Finding | None:
    """Committed offsets that the log does not have."""
    found = [each for each in group.partitions if each.row.is_out_of_range]
    if not found:
        return None
    first = found[0].row.partition
    return Finding(
        GroupVerdict.OUT_OF_RANGE,
        f"The committed offset of {listed(each.row.partition for each in found)} is outside of the log.",
        [each for partition in found for each in _range(partition)],
        (
            "Consumers go on where auto.offset.reset says: with `latest` they skip what is there.",
            f"Stop the members, then `klamm offsets reset {group.group_id} --topic "
            f"{first.topic}:{first.partition} --to-earliest --execute`.",
        ),
    )


def _range(each: PartitionSnapshot) -> Iterator[Evidence]:
    row = each.row
    if row.log is None or row.committed is None:
        return
    if row.status is LagStatus.BEFORE_START:
        missing = row.log.start - row.committed
        gap = f"{count(missing, 'offset')} {'was' if missing == 1 else 'were'}"
        yield exact(f"{row.partition}: committed {row.committed}, the log starts at {row.log.start}")
        yield inferred(f"{row.partition}: {gap} deleted unread, by retention or by hand")
    else:
        yield exact(f"{row.partition}: committed {row.committed}, the log ends at {row.log.end}")
        yield inferred(f"{row.partition}: the topic was deleted and created again, or has lost records")


def open_transaction(group: GroupSnapshot) -> Finding | None:
    """The group stands at the last stable offset, and a transaction that is open for long begins there."""
    found = [
        (each, transaction)
        for each in group.partitions
        if each.row.lag and each.last_stable is not None and each.row.committed == each.last_stable
        for transaction in each.transactions
        if transaction.start_offset == each.last_stable and _age_ms(group, transaction) >= HELD_MS
    ]
    if not found:
        return None
    partition, transaction = found[0]
    others = sorted({name for each, _ in found for name in group.held_back.get(each.row.partition, ())})
    evidence = [each for item in found for each in _about_transaction(group, *item)]
    evidence.append(inferred("the group reads only committed records: its offset is the last stable one"))
    if others:
        evidence.append(inferred(f"it holds back {listed(others)}, too"))
    place, name = partition.row.partition, transaction.transactional_id
    steps = [f"Let its producer end it, or start the producer again: it aborts what is open ({name})."]
    if name is None:
        steps = [
            f"`klamm txns abort --topic {place.topic} --partition {place.partition} "
            f"--start-offset {transaction.start_offset}` ends it: no coordinator will."
        ]
    else:
        if transaction.timeout_ms is not None and transaction.started_at_ms is not None:
            due_ms = transaction.started_at_ms + transaction.timeout_ms - group.taken_at_ms
            steps.append(f"Its coordinator aborts it in {duration(max(0, due_ms))} (transaction.timeout.ms).")
        steps.append(f"`klamm txns abort {name}` fences its producer and aborts it now.")
    return Finding(
        GroupVerdict.OPEN_TRANSACTION,
        f"Records from offset {transaction.start_offset} of {place} on are held back by an open transaction "
        f"of {name or f'producer id {transaction.producer_id}'}.",
        evidence,
        steps,
    )


def _age_ms(group: GroupSnapshot, transaction: PartitionTransaction) -> int:
    began_ms = transaction.started_at_ms
    return group.taken_at_ms - (transaction.last_timestamp_ms if began_ms is None else began_ms)


def _about_transaction(
    group: GroupSnapshot, each: PartitionSnapshot, transaction: PartitionTransaction
) -> Iterator[Evidence]:
    identity = f"producer id {transaction.producer_id}, epoch {transaction.producer_epoch}"
    name = transaction.transactional_id
    of = f"{name} ({identity})" if name else f"{identity}, which no coordinator has,"
    idle = duration(group.taken_at_ms - transaction.last_timestamp_ms)
    opened = ""
    if transaction.started_at_ms is not None:
        opened = f", open for {duration(group.taken_at_ms - transaction.started_at_ms)}"
    yield exact(
        f"{each.row.partition}: the transaction of {of} began at offset {transaction.start_offset}{opened}; "
        f"it has written nothing for {idle}"
    )


def redelivered(group: GroupSnapshot) -> Finding | None:
    """A partition that stands at one offset while its readers end and begin again: a record ends them."""
    restarts = _restarts_ms(group)
    if len(restarts) < RESTARTS:
        return None
    found: list[tuple[PartitionSnapshot, int]] = []
    for each in group.partitions:
        # Nothing committed, with records there: it begins again where auto.offset.reset says.
        if each.row.status not in (LagStatus.KNOWN, LagStatus.NOTHING_COMMITTED) or not each.row.lag_limit:
            continue
        since_ms = _standing_since_ms(group, each)
        times = 0 if since_ms is None else sum(at_ms >= since_ms for at_ms in restarts)
        if times >= RESTARTS:
            found.append((each, times))
    if not found:
        return None
    each, times = max(found, key=lambda item: item[1])
    place = each.row.partition
    log = each.row.log
    offset = each.row.committed
    if offset is None:
        offset = 0 if log is None else log.start
    return Finding(
        GroupVerdict.REDELIVERED,
        f"{place} stands at offset {offset}, although its readers began again {times} times: "
        f"the same record is delivered each time.",
        [
            *(
                inferred(
                    f"{item.row.partition} has not moved during {count(number, 'restart')} of its readers"
                )
                for item, number in found
            ),
            inferred("a record that its readers cannot process, or that takes them too long, explains it"),
        ],
        (
            f"`klamm consume {place.topic} --partition {place.partition} --offset {offset} --max-messages 1 "
            "--json` shows the record.",
            f"To skip it, stop the members, then `klamm offsets reset {group.group_id} --topic "
            f"{place.topic}:{place.partition} --to-offset {offset + 1} --execute`.",
        ),
    )


def _restarts_ms(group: GroupSnapshot) -> list[int]:
    """When members ended: as events say, or as the generations suggest."""
    if group.events is not None:
        kinds = ("member_removed", "member_fenced")
        return [int(each["timestamp_ms"]) for each in group.events if each.get("type") in kinds]
    return [
        after.timestamp_ms for before, after in pairwise(group.generations) if before.members - after.members
    ]


def _standing_since_ms(group: GroupSnapshot, each: PartitionSnapshot) -> int | None:
    """Since when the committed offset is what it is, at the latest; None: not known."""
    for at, commit in enumerate(each.commits):
        if all(later.offset == each.row.committed for later in each.commits[at:]):
            return commit.timestamp_ms
    if each.commits:
        return None
    if group.has_history or each.row.committed is None:
        return group.taken_at_ms - group.window_ms
    return each.committed_at_ms


def owner_silent(group: GroupSnapshot) -> Finding | None:
    """A partition with an owner and unread records, in which nothing is committed."""
    found: list[tuple[PartitionSnapshot, int]] = []
    for each in group.partitions:
        if each.row.owner is None or not each.row.lag_limit or each.row.lag == 0:
            continue
        quiet_ms = _quiet_ms(group, each)
        if quiet_ms is not None and quiet_ms >= SILENT_MS:
            found.append((each, quiet_ms))
    if not found:
        return None
    owners = sorted({group.client_of(each.row.owner) for each, _ in found})
    shortest_ms = min(quiet_ms for _, quiet_ms in found)
    return Finding(
        GroupVerdict.OWNER_SILENT,
        f"{listed(owners)} committed nothing in {listed(each.row.partition for each, _ in found)} for "
        f"{duration(shortest_ms)}, and there are records to read.",
        [
            exact(
                f"{each.row.partition}: "
                + (
                    "nothing is committed"
                    if each.row.committed is None
                    else f"committed {each.row.committed}"
                )
                + f" for {duration(quiet_ms)}; up to {count(each.row.lag_limit or 0, 'record')} not read"
            )
            for each, quiet_ms in found
        ]
        + [exact("its members send heartbeats: the group is stable")],
        (
            "The process lives: see whether it has paused the partition, works on one record for long, or "
            "stores its offsets elsewhere.",
            f"`klamm groups members {group.group_id}` has its members.",
        ),
    )


def _committed(each: PartitionSnapshot) -> str:
    return "nothing is committed" if each.row.committed is None else f"committed {each.row.committed}"


def _quiet_ms(group: GroupSnapshot, each: PartitionSnapshot) -> int | None:
    """For how long there have been records to read and no commit."""
    if each.committed_at_ms is not None:
        since_ms = each.committed_at_ms
    elif each.commits:
        since_ms = each.commits[-1].timestamp_ms
    elif group.has_history:
        since_ms = group.taken_at_ms - group.window_ms
    else:
        return None
    joined = [each.timestamp_ms for each in group.generations]
    if each.row.committed is None and not joined and group.events is None:
        return None  # it may have begun a moment ago
    started = [
        int(event["timestamp_ms"])
        for event in group.events or ()
        if event.get("type") == "rebalance_completed"
    ]
    since_ms = max([since_ms, each.unread_since_ms or 0, *joined[-1:], *started[-1:]])
    return group.taken_at_ms - since_ms
