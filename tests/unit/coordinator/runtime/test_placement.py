"""Where groups live."""

from __future__ import annotations

import pytest

from klamm.coordinator.runtime.placement import java_hash, partition_for


@pytest.mark.parametrize(
    ("group_id", "expected_hash", "partition"),
    [
        ("testgroup", -1172783827, 27),
        ("consumerGroupId", -437965020, 20),
        ("group", 98629247, 47),
        ("my-group", -1906497762, 12),
        ("connect-cluster", 1440343063, 13),
        ("", 0, 0),
        ("polygenelubricants", -2147483648, 0),
        ("消费者组", 871131088, 38),
        ("g😀", 1871882, 32),
    ],
)
def test_a_group_lives_where_java_says(group_id: str, expected_hash: int, partition: int) -> None:
    assert java_hash(group_id) == expected_hash
    assert partition_for(group_id, 50) == partition
