"""klamm's own APIs tell nothing of topics that the asker may not describe."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.broker.security.inspected import visible


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        (
            {"partitions": ["a-b-0", "c-1"], "awaiting_marker": ["c-1"]},
            {"partitions": ["a-b-0"], "awaiting_marker": []},
        ),
        (
            {"offsets": [{"topic": "c", "offset": 7}, {"topic": "a-b", "offset": 8}]},
            {"offsets": [{"topic": "a-b", "offset": 8}]},
        ),
        ({"pending_offsets": [{"topic": "c", "producer_id": 1}]}, {"pending_offsets": []}),
        ({"subscribed_topics": ["a-b", "c"]}, {"subscribed_topics": ["a-b"]}),
        (
            {
                "members": [
                    {
                        "member_id": "m-c",
                        "assignment": ["c-0"],
                        "protocols": [{"topics": ["c"], "owned": ["c-0"]}],
                    }
                ]
            },
            {"members": [{"member_id": "m-c", "assignment": [], "protocols": [{"topics": [], "owned": []}]}]},
        ),
        (
            {"entries": [{"facts": {"offsets": {"c-0": 5, "a-b-1": 6}}}]},
            {"entries": [{"facts": {"offsets": {"a-b-1": 6}}}]},
        ),
        (
            {"facts": {"assignments": {"m": ["a-b-0", "c-0"], "n": "12 bytes"}}},
            {"facts": {"assignments": {"m": ["a-b-0"], "n": "12 bytes"}}},
        ),
        (
            {"group": "c", "generation": 1, "assignment": None, "votes": {"c-0": 1}},
            {"group": "c", "generation": 1, "assignment": None, "votes": {"c-0": 1}},
        ),
    ],
)
def test_topics_are_left_out_wherever_they_are_named(told: Any, seen: Any) -> None:
    assert visible(told, lambda name: name != "c") == seen
    assert visible(told, lambda name: True) == told
