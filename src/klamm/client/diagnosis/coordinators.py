"""Which partition of an internal topic has a group or a transactional id: its leader is the coordinator."""

from __future__ import annotations

from klamm.client.admin.admin import Admin
from klamm.protocol.placement import partition_for


def partition_of(admin: Admin, topic: str, key: str) -> str | None:
    """As `__consumer_offsets-12`, by Java's hashCode as Kafka has it; None if the topic is not known here."""
    known = admin.describe_topics([topic], raise_errors=False).successes.get(topic)
    return None if known is None else f"{topic}-{partition_for(key, len(known.partitions))}"
