"""How far a query is behind, from what Spark reports of it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from klamm.spark.read.progress import offsets_behind_latest

LATEST = {"orders": {"0": 10, "1": 6}}


@pytest.mark.parametrize("as_text", [False, True])
def test_metrics_have_the_names_of_the_official_connector(as_text: bool) -> None:
    end = {"$initial": {"orders": {"0": 0}}, "orders": {"0": 4, "1": 6}}
    source = {"latestOffset": LATEST, "endOffset": json.dumps(end) if as_text else end}
    tree = {"sources": [source, {"latestOffset": None, "endOffset": "5"}]}
    progress = SimpleNamespace(json=json.dumps(tree)) if as_text else tree
    first, other = offsets_behind_latest(progress)
    assert first == {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 6,
        "avgOffsetsBehindLatest": 3.0,
    }
    assert set(other.values()) == {None}


def test_a_partition_that_is_not_read_yet_makes_it_unknown() -> None:
    source = {"latestOffset": LATEST, "endOffset": {"orders": {"0": 4}}}
    assert set(offsets_behind_latest({"sources": [source]})[0].values()) == {None}
