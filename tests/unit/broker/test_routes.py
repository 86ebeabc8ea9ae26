"""The route table: every API is served, has a rule that authorizes it, and finds its handler."""

from __future__ import annotations

from pathlib import Path

import pytest

import klamm.broker.apis
from klamm.broker.routes import ROUTES, SASL_ROUTES, Route, RouteTable
from klamm.broker.security.table import RULES
from klamm.protocol.api import ApiKey

# Whoever is connected may ask these; what they tell of a resource follows the rights of who asks.
BEFORE_A_LOGIN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
OPEN_TO_EVERYBODY = {*BEFORE_A_LOGIN, ApiKey.DESCRIBE_CLUSTER}
# Their handlers ask the authorizer: a rule does not know what a fetch session holds.
ASKED_BY_HANDLER = {ApiKey.FETCH}


@pytest.mark.parametrize("route", [*ROUTES, *SASL_ROUTES], ids=lambda route: route.api_key.name)
def test_every_route_has_a_handler_and_a_rule(route: Route) -> None:
    assert callable(RouteTable().handler(route))
    rule = RULES.get(route.api_key)
    assert rule is not None, f"{route.api_key.name} is not authorized: add its rule to security/table.py"
    assert (rule.screen is None) == (route.api_key in OPEN_TO_EVERYBODY | ASKED_BY_HANDLER)
    assert bool(rule.needs) != (route.api_key in BEFORE_A_LOGIN)


def test_a_route_without_a_rule_is_not_served_where_requests_are_authorized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("klamm.broker.security.table.RULES", {})
    table = RouteTable(is_open=False)
    with pytest.raises(KeyError):
        table.handler(table.get(ApiKey.HEARTBEAT))


def test_every_handler_has_a_route() -> None:
    modules = {path.stem for path in Path(klamm.broker.apis.__path__[0]).glob("*.py")} - {"__init__"}
    routes = (*ROUTES, *SASL_ROUTES)
    assert modules == {route.api_key.name.lower() for route in routes if route.coordinator is None}


def test_only_requests_whose_responses_stay_small_overlap() -> None:
    overlapping = {route.api_key for route in ROUTES if route.overlaps}
    assert ApiKey.PRODUCE in overlapping
    assert not overlapping & {ApiKey.FETCH, ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS}
    assert RouteTable().overlapping == {int(key).to_bytes(2, "big") for key in overlapping}
