"""Commits of offsets, given and at random."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from klamm.protocol.types import ZERO_ID
from unit.records.strategies import int64s

TOPIC_ID = bytes(range(16))


@dataclass(slots=True)
class Asked:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


def commits_of(core: ModuleType, *asked: Asked) -> Any:
    return core.TopicCommits(list(asked))


partitions = st.integers(-2, 40) | st.integers(-(2**31), 2**31 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
metadata = st.none() | st.sampled_from(["", "m", "host-1"]) | st.text("aé€😀", max_size=60)
topic_ids = st.sampled_from([ZERO_ID, TOPIC_ID])
asked_lists = st.lists(st.builds(Asked, partitions, int64s, int32s, metadata), max_size=30)
