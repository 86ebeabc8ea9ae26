"""Method names of other libraries' consumers, and what to write instead."""

from __future__ import annotations

from typing import Final

# As in kafka-python, aiokafka and confluent-kafka, where the name differs from klamm's.
INSTEAD: Final = {
    "bootstrap_connected": "health().is_healthy",
    "consumer_group_metadata": "group_metadata()",
    "get_watermark_offsets": "beginning_offsets([partition]) and end_offsets([partition])",
    "highwater": "end_offsets([partition])",
    "last_stable_offset": "end_offsets([partition]), with isolation_level='read_committed'",
    "memberid": "group_metadata().member_id",
    "partitions_for_topic": "partitions_for(topic)",
}


def missing_method(name: str) -> str:
    """The message for an attribute that a consumer does not have."""
    message = f"'Consumer' object has no attribute {name!r}"
    return f"{message}: write {INSTEAD[name]}" if name in INSTEAD else message


def poll_in_ms(timeout_ms: float) -> TypeError:
    """The error for `poll(timeout_ms=...)`, as kafka-python has it."""
    return TypeError(
        f"poll() takes seconds and returns records: write poll({timeout_ms / 1000:g}), or "
        f"getmany(timeout_ms={timeout_ms:g}) for a dictionary of partitions"
    )
