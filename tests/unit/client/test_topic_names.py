"""Names that no topic can have are refused before a broker is asked."""

from __future__ import annotations

import pytest

import klamm
from klamm.client.topic_names import check_topic_name
from klamm.errors import InvalidTopicError, KlammError

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "x" * 249, "...", "__consumer_offsets"])
def test_a_valid_name_passes(name: str) -> None:
    check_topic_name(name)
    with klamm.Consumer(bootstrap_servers=NOWHERE) as consumer:
        consumer.assign([klamm.TopicPartition(name, 0)])
        assert consumer.assignment() == {klamm.TopicPartition(name, 0)}


@pytest.mark.parametrize("name", ["", " ", ".", "..", "my topic", "orders/eu", "naïve", "x" * 250, "a\n"])
def test_an_invalid_name_is_refused_at_once_everywhere(name: str) -> None:
    with pytest.raises(InvalidTopicError) as raised:
        check_topic_name(name)
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, KlammError)
    assert not raised.value.retriable
    with klamm.Producer(bootstrap_servers=NOWHERE) as producer, pytest.raises(InvalidTopicError):
        producer.send(name, b"x")
    with klamm.Consumer(bootstrap_servers=NOWHERE, group_id="g") as consumer:
        for call in (
            lambda: consumer.subscribe([name]),
            lambda: consumer.partitions_for(name),
            lambda: consumer.assign([klamm.TopicPartition(name, 0)]),
        ):
            with pytest.raises(InvalidTopicError):
                call()
