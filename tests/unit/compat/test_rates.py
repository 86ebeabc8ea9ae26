"""The metrics that programs of kafka-python read: its own performance scripts, for one."""

from __future__ import annotations

import math

import pytest

import klamm
from klamm.clock import ManualClock
from klamm.compat.kafka import KafkaConsumer, KafkaProducer
from klamm.compat.kafka.rates import Meter

# As in kafka/benchmarks/producer_performance.py and consumer_performance.py.
OF_PRODUCER = (
    "{record-send-rate:.0f} {byte-rate:.0f} {request-rate:.0f} {request-latency-avg:.0f} "
    "{throttle-time-max:.0f} {record-size-avg:.0f} {batch-size-avg:.0f} {records-per-request-avg:.0f}"
)
OF_CONSUMER = (
    "{records-consumed-rate:.0f} {bytes-consumed-rate:.0f} {fetch-latency-avg:.0f} {fetch-rate:.0f} "
    "{fetch-size-avg:.0f} {records-lag-max:.0f} {records-per-request-avg:.0f}"
)


def test_a_rate_is_over_the_window_and_an_average_over_what_there_was() -> None:
    clock, counters = ManualClock(), {"records": 0, "requests": 0}
    meter = Meter(clock, 10_000, counters.copy)
    for _ in range(3):
        counters["records"] += 500
        clock.advance(5_000)
        passed = meter.look()[1]
        assert passed.rate("records") == 100
        assert math.isnan(passed.average("records", "requests"))
    counters["requests"] += 5
    clock.advance(20_000)
    passed = meter.look()[1]
    assert (passed.rate("records"), passed.rate("requests")) == (0, 0.25)
    assert passed.average("records", "requests") == 0


def test_what_kafka_pythons_performance_scripts_print_is_there() -> None:
    with klamm.Broker() as broker:
        settings = {"bootstrap_servers": broker.bootstrap, "metrics_sample_window_ms": 60_000}
        with KafkaProducer(**settings) as producer:
            for _ in range(10):
                producer.send("t", bytes(100))
            producer.flush()
            found = producer.metrics()["producer-metrics"]
            assert "nan" not in OF_PRODUCER.format(**found)
            assert (found["records_delivered"], found["record-size-avg"] > 100) == (10, True)
        consumer = KafkaConsumer("t", auto_offset_reset="earliest", consumer_timeout_ms=10_000, **settings)
        for _ in range(10):
            next(consumer)
        metrics = consumer.metrics()
        assert "nan" not in OF_CONSUMER.format(**metrics["consumer-fetch-manager-metrics"])
        assert metrics["consumer-fetch-manager-metrics"]["records-lag-max"] == 0
        assert metrics["consumer-metrics"]["records_consumed"] == 10
        with pytest.raises(ValueError, match="call metrics"):
            consumer.metrics(raw=True)
        consumer.close()
