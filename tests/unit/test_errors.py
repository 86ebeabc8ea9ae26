"""Errors of the client: a class for each code of a broker."""

from __future__ import annotations

import pytest

from klamm import errors
from klamm.protocol.errors import ErrorCode


@pytest.mark.parametrize("code", list(ErrorCode))
def test_the_class_of_a_code_is_one_however_it_is_asked_for(code: ErrorCode) -> None:
    assert type(errors.broker_error(int(code), "x")) is errors.error_class(code)


def test_a_class_that_is_asked_for_by_its_name_is_that_of_the_error() -> None:
    with pytest.raises(errors.ClusterAuthorizationFailedError):
        raise errors.broker_error(31, "x")


def test_an_error_without_a_message_of_the_broker_says_what_it_means() -> None:
    refused = errors.broker_error(ErrorCode.policy_violation, "orders-0")
    assert "orders-0: POLICY_VIOLATION (" in str(refused)
    assert "cleanup.policy=compact" in str(refused)
    assert "no such policy" in str(errors.broker_error(ErrorCode.policy_violation, "x", "no such policy"))
