"""A topic that is to be written: one that is missing is created where that is asked for, else an error.

Brokers create a topic when a client asks for it; then a name that is misspelt is a topic that nobody reads.
"""

from __future__ import annotations

import difflib

from klamm.client.admin.admin import Admin
from klamm.client.admin.model import NewTopic
from klamm.errors import BrokerError, TopicAlreadyExistsError, UnknownTopicError
from klamm.protocol.errors import ErrorCode


def require_topic(
    admin: Admin, topic: str, *, partitions: int | None, advice: str, timeout: float | None = None
) -> None:
    """Check that a topic exists, or create it with `partitions` (-1: the broker's default).

    Raises UnknownTopicError with the name that was probably meant, and KlammError. `advice` tells how to have
    the topic created. Who may not look at the topic is left to the answer to the first record.
    """
    error = admin.describe_topics([topic], raise_errors=False, timeout=timeout).errors.get(topic)
    if not isinstance(error, BrokerError):
        if error is not None:
            raise error
        return
    if error.error_code != ErrorCode.unknown_topic_or_partition:
        return
    if partitions is None:
        near = difflib.get_close_matches(topic, admin.list_topics(), n=1, cutoff=0.7)
        hint = f"did you mean {near[0]}? Else " if near else ""
        raise UnknownTopicError(f"topic {topic} does not exist: {hint}{advice}")
    try:
        admin.create_topics([NewTopic(topic, partitions)], timeout=timeout).unwrap()
    except TopicAlreadyExistsError:
        return  # by another process meanwhile
