"""What `commit` takes for an offset."""

from __future__ import annotations

import pytest

from klamm.client.admin.model import CommittedOffset
from klamm.client.committed import Committed
from klamm.client.consumer.arguments import committable
from klamm.protocol.types import TopicPartition

PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize("value", [Committed(5, 2, "note"), (5, 2, "note"), CommittedOffset(5, 2, "note")])
def test_an_offset_may_be_what_a_consumer_or_an_admin_has_read(value: object) -> None:
    assert committable({PLACE: value}) == {PLACE: Committed(5, 2, "note")}


def test_a_number_alone_is_an_offset_and_text_is_none() -> None:
    assert committable({PLACE: 5}) == {PLACE: Committed(5)}
    with pytest.raises(TypeError, match="OffsetAndMetadata"):
        committable({PLACE: "5"})
