"""Valid names of topics, and internal topics."""

from __future__ import annotations

import re
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
EVENTS_TOPIC: Final = "__klamm_events"
COORDINATED_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})  # the leader is a coordinator
INTERNAL_TOPICS: Final = COORDINATED_TOPICS | {EVENTS_TOPIC}
ADMIN_CLIENT_ID: Final = "__admin_client"  # as in Kafka, only this client id may write to internal topics
# Kafka's metadata log has this name; klamm has no such topic.
FORBIDDEN_TOPIC: Final = "__cluster_metadata"

LONGEST_NAME: Final = 249  # leaves room for the partition and a suffix in the name of a directory
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(topic: str) -> bool:
    """Whether a topic is internal: clients may read it, and only the broker may write it."""
    return topic in INTERNAL_TOPICS


def name_problem(topic: str) -> str | None:
    """Why a name is invalid, worded as Kafka does; None when it is valid."""
    if not topic:
        return "Topic name is invalid: the empty string is not allowed"
    if topic in {".", ".."}:
        return f"Topic name is invalid: '{topic}' is not allowed"
    if len(topic) > LONGEST_NAME:
        return (
            f"Topic name is invalid: the length of '{topic}' is longer than the max allowed length "
            f"{LONGEST_NAME}"
        )
    if not _LEGAL.fullmatch(topic):
        return (
            f"Topic name is invalid: '{topic}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_key(topic: str) -> str:
    """Topics with the same key are indistinguishable in metric names, which have no dots."""
    return topic.replace(".", "_")
