"""Settings that do not go together are told at construction."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from klamm.client.producer.settings import ProducerSettings, parse
from klamm.config import ConfigError
from klamm.records.compression import Codec


def settings(**given: Any) -> ProducerSettings:
    return parse({"bootstrap.servers": "127.0.0.1:9092"}, given)[1]


def test_nothing_set_is_idempotent_with_all_acks() -> None:
    made = settings()
    assert (made.is_idempotent, made.acks, made.max_in_flight, made.retries) == (True, -1, 5, 2**31 - 1)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"acks": "1"}, "acks"),
        ({"retries": 0}, "retries"),
        ({"max_in_flight_requests_per_connection": 6}, "max.in.flight"),
    ],
)
def test_idempotence_asked_for_insists_on_what_it_needs(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        settings(enable_idempotence=True, **given)


@pytest.mark.parametrize("given", [{"acks": "1"}, {"acks": 0}, {"retries": 0}])
def test_idempotence_by_default_gives_way_and_says_so(
    given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert not settings(**given).is_idempotent
    assert "idempotence is disabled" in caplog.text


def test_more_than_five_in_flight_is_an_error_even_by_default() -> None:
    with pytest.raises(ConfigError, match=r"max\.in\.flight"):
        settings(max_in_flight_requests_per_connection=6)
    assert not settings(max_in_flight_requests_per_connection=6, enable_idempotence=False).is_idempotent


def test_a_delivery_timeout_must_leave_room_for_linger_and_one_request() -> None:
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms"):
        settings(delivery_timeout_ms=1000)
    assert settings(linger_ms=200_000).delivery_timeout_ms == 230_000


@pytest.mark.parametrize(("name", "codec"), [("none", Codec.NONE), ("zstd", Codec.ZSTD), ("lz4", Codec.LZ4)])
def test_a_compression_has_its_level(name: str, codec: Codec) -> None:
    assert settings(compression_type=name).codec is codec


@pytest.mark.parametrize(
    ("given", "hint"),
    [({"acks": "2"}, "one of all"), ({"bach_size": 1}, "batch.size"), ({"linger_ms": -1}, "not below 0")],
)
def test_a_wrong_value_or_name_says_what_to_write(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        settings(**given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"enable_idempotence": False}, "enable.idempotence"),
        ({"acks": "1"}, "acks"),
        ({"retries": 0}, "retries"),
    ],
)
def test_transactions_need_idempotence(given: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=rf"transactional.id=t needs idempotence, and {named}="):
        settings(transactional_id="t", **given)


def test_a_transactional_id_must_not_be_empty() -> None:
    with pytest.raises(ConfigError, match=r"transactional.id is empty"):
        settings(transactional_id="")
    assert settings().transactional_id is None


def test_a_prepared_transaction_has_no_time_out_to_set() -> None:
    with pytest.raises(ConfigError, match=r"transaction.timeout.ms cannot be set"):
        settings(transactional_id="t", transaction_two_phase_commit_enable=True, transaction_timeout_ms=1000)
    with pytest.raises(ConfigError, match=r"requires transactional.id"):
        settings(transaction_two_phase_commit_enable=True)
    assert settings(transactional_id="t", transaction_two_phase_commit_enable=True).is_two_phase
