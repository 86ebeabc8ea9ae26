"""The error of a change that is not made."""

from __future__ import annotations

from typing import NamedTuple

from klamm.protocol.errors import ErrorCode


class Refusal(NamedTuple):
    """An error code for the client, and a message for its user."""

    error_code: ErrorCode
    message: str


def no_such_topic(name: str) -> Refusal:
    return Refusal(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")


def disk_is_full(why: str) -> Refusal:
    return Refusal(ErrorCode.kafka_storage_error, f"Nothing can be created: {why}.")
