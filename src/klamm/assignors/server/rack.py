"""`rack` and `rack-leader`: even shares, and then as many partitions as possible in the rack of their member.

It starts from the shares of `uniform`, and then looks at each partition whose member is in another rack: the
partition moves to a lighter member of a rack it is in, or changes places with a partition there, as long as
more partitions are in their rack afterwards. No exchange changes the size of a share, so balance comes first;
and a group in which no exchange helps keeps its target.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, TypeAlias

from klamm.assignors.base import PartitionView
from klamm.assignors.server.model import GroupAssignor, GroupSpec, Target
from klamm.assignors.server.uniform import UniformAssignor

Place: TypeAlias = tuple[bytes, int]  # topic id and partition
Racks: TypeAlias = frozenset[str]

MOST_TRIED: Final = 100  # candidates for one exchange, where subscriptions differ


class RackGroupAssignor(GroupAssignor):
    """Follows the replicas, which serve consumers of their rack (KIP-392)."""

    name = "rack"
    takes_bounded_time = True
    uses_racks = True

    def assign(self, group: GroupSpec) -> Target:
        places = {
            (topic_id, number): self.racks_of(view)
            for topic_id, topic in group.topics.items()
            for number, view in enumerate(topic.partitions)
        }
        return _Placement(group, UniformAssignor().assign(group), places).improved()

    def racks_of(self, partition: PartitionView) -> Racks:
        """The racks in which a partition is read without leaving the rack."""
        return partition.replica_racks or _leader_rack(partition)


class LeaderRackGroupAssignor(RackGroupAssignor):
    """Follows the leaders, for clusters whose consumers do not read from followers."""

    name = "rack-leader"
    takes_bounded_time = True

    def racks_of(self, partition: PartitionView) -> Racks:
        return _leader_rack(partition) or partition.replica_racks


def _leader_rack(partition: PartitionView) -> Racks:
    return frozenset() if partition.leader_rack is None else frozenset((partition.leader_rack,))


class _Placement:
    """Who has which partition, indexed by what an exchange needs to find."""

    def __init__(self, group: GroupSpec, target: Target, racks: dict[Place, Racks]) -> None:
        self._group = group
        self._racks = racks
        self._sizes = dict.fromkeys(sorted(group.members), 0)
        self._owners: dict[Place, str] = {}
        # Rack of the member -> racks of the partition -> partitions, in the order they came there.
        self._held: dict[str | None, dict[Racks, dict[Place, None]]] = {}
        self._in_rack: dict[str, list[str]] = {}
        for member_id in self._sizes:
            rack = group.members[member_id].rack_id
            if rack is not None:
                self._in_rack.setdefault(rack, []).append(member_id)
        for topic_id in group.topic_ids():
            for member_id in self._sizes:
                for partition in sorted(target.get(member_id, {}).get(topic_id, ())):
                    self._give((topic_id, partition), member_id)

    def improved(self) -> Target:
        """The target after all exchanges that help."""
        waiting = [place for place in self._owners if self._could_be_nearer(place)]
        improving = True
        while improving:
            improving = False
            for place in waiting:
                if self._could_be_nearer(place) and (self._move(place) or self._exchange(place)):
                    improving = True
            waiting = [place for place in waiting if self._could_be_nearer(place)]
        target: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in self._sizes}
        for (topic_id, partition), member_id in self._owners.items():
            target[member_id].setdefault(topic_id, []).append(partition)
        return target

    def _rack_of(self, member_id: str) -> str | None:
        return self._group.members[member_id].rack_id

    def _racks_of(self, place: Place) -> Racks:
        return self._racks.get(place, frozenset())

    def _could_be_nearer(self, place: Place) -> bool:
        racks = self._racks_of(place)
        return self._rack_of(self._owners[place]) not in racks and any(
            rack in self._in_rack for rack in racks
        )

    def _give(self, place: Place, member_id: str) -> None:
        racks = self._racks_of(place)
        before = self._owners.get(place)
        if before is not None:
            self._sizes[before] -= 1
            del self._held[self._rack_of(before)][racks][place]
        self._owners[place] = member_id
        self._sizes[member_id] += 1
        self._held.setdefault(self._rack_of(member_id), {}).setdefault(racks, {})[place] = None

    def _move(self, place: Place) -> bool:
        """Give a partition to the lightest member of a rack it is in, if that is lighter than its owner."""
        topic_id, _ = place
        lightest = min(
            (
                member_id
                for rack in self._racks_of(place)
                for member_id in self._in_rack.get(rack, ())
                if topic_id in self._group.members[member_id].topics
            ),
            key=lambda member_id: (self._sizes[member_id], member_id),
            default=None,
        )
        if lightest is None or self._sizes[lightest] >= self._sizes[self._owners[place]]:
            return False
        self._give(place, lightest)
        return True

    def _exchange(self, place: Place) -> bool:
        """Change places with a partition held in a rack it is in, if that brings more into their rack."""
        owner = self._owners[place]
        for other in self._candidates(place, self._rack_of(owner)):
            taker = self._owners[other]
            if (
                place[0] in self._group.members[taker].topics
                and other[0] in self._group.members[owner].topics
            ):
                self._give(place, taker)
                self._give(other, owner)
                return True
        return False

    def _candidates(self, place: Place, own_rack: str | None) -> Iterator[Place]:
        """What to change places with: first what comes into its rack by it, then what loses nothing."""
        held = [
            (rack, racks, places)
            for rack in sorted(self._racks_of(place))
            for racks, places in self._held.get(rack, {}).items()
            if places
        ]
        nearer = [places for rack, racks, places in held if rack not in racks and own_rack in racks]
        alike = [places for rack, racks, places in held if (rack in racks) == (own_rack in racks)]
        for places in (*nearer, *alike):
            yield from list(islice(places, MOST_TRIED))
