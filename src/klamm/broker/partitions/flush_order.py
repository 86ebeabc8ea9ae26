"""Which appends may only be durable after those of another partition.

The markers of a transaction come after the record of its outcome, and its first batch in a partition after
the record that adds the partition. To wait for one flush before the other append would take two rounds.
Instead both are appended at once: in one round of the journal they are durable together or not at all, and
where they cannot share a round, the later one waits for the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from klamm.broker.partitions.registry import Partition
from klamm.protocol.errors import NO_ERROR
from klamm.storage.durability import HeldBack
from klamm.storage.log import PartitionLog


class _Earlier:
    """What must be durable in a partition."""

    __slots__ = ("end_offset", "flush_failures", "log")

    def __init__(self, log: PartitionLog, end_offset: int, flush_failures: int) -> None:
        self.log = log
        self.end_offset = end_offset
        self.flush_failures = flush_failures  # one more means that it was truncated


class FlushOrder:
    """The partitions whose unflushed appends come after those of others."""

    def __init__(self) -> None:
        self._earlier: dict[Partition, dict[Partition, _Earlier]] = {}
        self._held_back: dict[Partition, HeldBack] = {}
        self._late: set[Partition] = set()  # they were left out of a round

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._earlier

    def takes(self, partition: Partition) -> bool:
        """Whether appends to a partition can be put after others.

        Not to one that was left out of a round: it would wait for ever while there are new ones.
        """
        return (
            partition.error_code is NO_ERROR
            and partition not in self._late
            and partition.durable.held_back is not None
        )

    def postpone(self, partition: Partition) -> None:
        """A partition was left out of a round, because it cannot share that of what comes before."""
        self._late.add(partition)

    def add(self, partition: Partition, after: Partition) -> None:
        """What is appended to a partition from now on comes after everything in another one.

        It takes that. Raises LogError if one of them is not available.
        """
        held_back, earlier = partition.durable.held_back, after.log
        assert held_back is not None
        held_back.begin()
        known = self._earlier.get(partition)
        if known is None:
            known = self._earlier[partition] = {}
            self._held_back[partition] = held_back
        before = known.get(after)
        if before is None:
            known[after] = _Earlier(earlier, earlier.log_end_offset, after.flush_failures)
        else:
            before.end_offset = earlier.log_end_offset

    def waits_for(self, partition: Partition) -> Sequence[Partition]:
        """The partitions whose flush must come first, or be part of the same round."""
        known = self._earlier.get(partition)
        if known is None:
            return ()
        durable = []
        for each, earlier in known.items():
            if (
                each.flush_failures == earlier.flush_failures
                and each.error_code is NO_ERROR
                and earlier.log.high_watermark >= earlier.end_offset
            ):
                durable.append(each)
        for each in durable:
            del known[each]
        if not known:
            self.settle(partition)
        return list(known)

    def earlier_than(self, partition: Partition) -> Iterable[Partition]:
        """The same, as `waits_for` found them last."""
        return self._earlier.get(partition, ())

    def is_lost(self, partition: Partition) -> bool:
        """Whether something that must come first will never be durable."""
        for each, earlier in self._earlier.get(partition, {}).items():
            if each.flush_failures != earlier.flush_failures or each.error_code is not NO_ERROR:
                return True
        return False

    def settle(self, partition: Partition) -> None:
        """Nothing of a partition waits any more: what comes first is durable, or what waited is truncated."""
        if self._earlier.pop(partition, None) is not None:
            self._late.discard(partition)
            self._held_back.pop(partition).end()

    def forget(self, partition: Partition) -> None:
        """A partition is not served any more. Its log keeps back what it holds back, until it is closed."""
        self._earlier.pop(partition, None)
        self._held_back.pop(partition, None)
        self._late.discard(partition)
