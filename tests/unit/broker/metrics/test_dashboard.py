"""The Grafana dashboard: every expression uses metrics and labels that a broker exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from internals.jar import Jar
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.api_versions import ApiVersionsRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.testing.requests import a_produce

ROOT = Path(__file__).parents[4]
DASHBOARD = json.loads((ROOT / "docs" / "grafana" / "klamm.json").read_text())
METRIC = re.compile(r"\b(?:kafka|klamm)_[a-z_]+")
SELECTOR = re.compile(r"\b((?:kafka|klamm)_[a-z_]+)\{([^}]*)\}")
GROUPING = re.compile(r"\b(?:by|without) ?\(([^)]*)\)")


def expressions(panels: list[dict[str, Any]]) -> Iterator[str]:
    for panel in panels:
        yield from expressions(panel.get("panels", []))
        yield from (target["expr"] for target in panel.get("targets", []))


def variables() -> Iterator[str]:
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            query = variable["query"]
            yield query["query"] if isinstance(query, dict) else query


def alerts() -> Iterator[str]:
    """Those of the page on metrics."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    for block, line in re.findall(r"^  expr: (?:\|\n((?:    .+\n)+)|(.+))", text, re.MULTILINE):
        yield block or line


EXPRESSIONS = [*expressions(DASHBOARD["panels"]), *variables(), *alerts()]


@pytest.fixture(scope="module")
def exported() -> Iterator[dict[str, set[str]]]:
    """The metrics of a broker that has done a bit of everything, with their labels."""
    jar = Jar({"offsets.topic.num.partitions": "1"})
    jar.create_topic("t")
    jar.create_topic("u")
    metrics = jar.broker.measure()
    client = jar.connect()
    client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("a-client", "1.2"))
    client.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest("g", 0))
    jar.pass_ms(10)
    client.ask(ApiKey.PRODUCE, 9, a_produce(jar))
    for topic, offset in (("t", 0), ("u", 9)):  # the latter is beyond the end
        row = OffsetCommitRequestPartition(0, offset, -1, "")
        client.ask(
            ApiKey.OFFSET_COMMIT,
            7,
            OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(bytes(16), topic, [row])]),
        )
    jar.connect().send_bytes(b"GET / HTTP/1.1\r\n")
    jar.pass_ms(2_000)
    found: dict[str, set[str]] = {}
    for line in "".join(metrics.page()).splitlines():
        if not line.startswith("#"):
            name = re.split(r"[{ ]", line)[0]
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', line))
    yield found
    jar.close()


def test_the_dashboard_has_panels() -> None:
    assert len(EXPRESSIONS) >= 15
    assert len(list(alerts())) >= 3
    assert DASHBOARD["uid"] == "klamm"


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_expression_names_metrics_and_labels_that_exist(
    expression: str, exported: dict[str, set[str]]
) -> None:
    without_strings = re.sub(r'"[^"]*"', '""', expression)
    # klamm_event... in metric names only: the label names of selectors are checked below
    names = set(METRIC.findall(re.sub(r"\{[^}]*\}", "", without_strings)))
    assert names, expression
    assert names - exported.keys() == set(), expression
    for name, selector in SELECTOR.findall(without_strings):
        used = set(re.findall(r"(\w+)\s*[=!]", selector)) - {"instance", "job"}
        assert used - exported[name] == set(), expression
    grouped = {label.strip() for group in GROUPING.findall(without_strings) for label in group.split(",")}
    known = set().union(*(exported[name] for name in names)) | {"instance", "job", ""}
    assert grouped - known == set(), expression


def test_the_page_of_metrics_names_every_metric_of_groups(exported: dict[str, set[str]]) -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    wanted = {
        name for name in exported if name.startswith(("kafka_consumergroup_", "kafka_topic_", "klamm_"))
    }
    # A summary is named once, without the suffixes of its samples
    assert {
        name for name in wanted if re.sub(r"_(sum|count)$", "", name) not in text and name not in text
    } == set()
