"""What members offer: which assignor a generation uses, which topics it reads, what its leader is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from klamm.coordinator.group.classic.membership import CONSUMER, Member, metadata_of
from klamm.protocol.consumer_protocol import subscribed_topics
from klamm.protocol.messages.join_group import JoinGroupRequestProtocol


def vote(members: Sequence[Member], leader: Member) -> str:
    """The protocol that most members prefer, of those that all support.

    Ties go to the one that the leader names first; Kafka leaves them to chance. Joins are checked so that
    there always is a candidate.
    """
    first, seen = leader.protocols[0].name, leader.protocols
    for member in members:
        if member.protocols is not seen:  # those of one application mostly share one object
            seen = member.protocols
            if seen[0].name != first:
                break
    else:
        return first  # all members prefer it
    offers: Counter[tuple[str, ...]] = Counter()
    for protocols, count in _offers(members):
        offers[tuple(protocol.name for protocol in protocols)] += count
    candidates = set.intersection(*(set(names) for names in offers))
    votes: Counter[str] = Counter()
    for names, count in offers.items():
        votes[next(name for name in names if name in candidates)] += count
    most = max(votes.values())
    return next(protocol.name for protocol in leader.protocols if votes[protocol.name] == most)


def topics_of(
    protocol_type: str | None, protocol_name: str, members: Sequence[Member]
) -> frozenset[str] | None:
    """The topics that a group reads; None if unknown."""
    if protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for metadata in {metadata for _, metadata in with_metadata(members, protocol_name)}:
        found = subscribed_topics(metadata)
        if found is None:
            return None
        topics |= found
    return frozenset(topics)


def with_metadata(members: Iterable[Member], protocol_name: str | None) -> Iterator[tuple[Member, bytes]]:
    """Each member with what it tells the leader in this protocol."""
    protocols: Sequence[JoinGroupRequestProtocol] | None = None
    metadata = b""
    for member in members:
        if member.protocols is not protocols:  # those of the member before
            protocols = member.protocols
            metadata = metadata_of(protocols, protocol_name)
        yield member, metadata


def _offers(members: Sequence[Member]) -> list[tuple[Sequence[JoinGroupRequestProtocol], int]]:
    """What the members offer, with their number."""
    known = {id(member.protocols): member.protocols for member in members}
    counts = Counter([id(member.protocols) for member in members])
    return [(known[each], count) for each, count in counts.items()]
