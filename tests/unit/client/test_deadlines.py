"""What an operation says that ran out of time."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

import klamm

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.list_group_offsets("g", timeout=0.2),
        lambda admin: admin.describe_groups(["g"], timeout=0.2).unwrap(),
        lambda admin: admin.list_topics(timeout=0.2),
    ],
)
def test_an_operation_that_times_out_says_so_once_and_why(call: Callable[[klamm.Admin], Any]) -> None:
    with klamm.Admin(bootstrap_servers=NOBODY) as admin, pytest.raises(klamm.KlammTimeoutError) as failed:
        call(admin)
    assert str(failed.value).count("timed out after") == 1
    assert str(failed.value).count("no bootstrap server can be reached") == 1


def test_an_operation_that_no_broker_answers_says_what_it_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            klamm.Admin(bootstrap_servers=bootstrap) as admin,
            pytest.raises(klamm.KlammTimeoutError, match="no broker answered a request for metadata"),
        ):
            admin.list_topics(timeout=0.2)
