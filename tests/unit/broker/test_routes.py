"""The route table: every API is served, needs something, and finds its handler."""

from __future__ import annotations

from pathlib import Path

import pytest

import klamm.broker.apis
from klamm.broker.routes import ROUTES, Route, RouteTable
from klamm.protocol.api import ApiKey

OPEN_TO_EVERYBODY = {ApiKey.API_VERSIONS}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.api_key.name)
def test_every_route_has_a_handler_and_names_its_permissions(route: Route) -> None:
    assert callable(RouteTable().handler(route))
    assert bool(route.needs) != (route.api_key in OPEN_TO_EVERYBODY)


def test_every_handler_has_a_route() -> None:
    modules = {path.stem for path in Path(klamm.broker.apis.__path__[0]).glob("*.py")} - {"__init__"}
    assert modules == {route.api_key.name.lower() for route in ROUTES if not route.coordinator}


def test_only_requests_whose_responses_stay_small_overlap() -> None:
    overlapping = {route.api_key for route in ROUTES if route.overlaps}
    assert ApiKey.PRODUCE in overlapping
    assert not overlapping & {ApiKey.FETCH, ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS}
    assert RouteTable().overlapping == {int(key).to_bytes(2, "big") for key in overlapping}
