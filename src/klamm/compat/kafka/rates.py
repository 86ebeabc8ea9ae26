"""The metrics of kafka-python's clients, of which its programs read rates and averages over a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.clock import Clock

SAMPLES: Final = 2  # metrics_num_samples
SAMPLE_WINDOW_MS: Final = 30_000  # metrics_sample_window_ms
NOT_KNOWN: Final = float("nan")

Counters = Mapping[str, Any]


def window_of(settings: dict[str, Any]) -> float:
    """Take out the settings of the window; its length in milliseconds."""
    samples = settings.pop("metrics_num_samples", SAMPLES)
    return float(samples) * float(settings.pop("metrics_sample_window_ms", SAMPLE_WINDOW_MS))


def refuse_raw(raw: bool) -> None:
    if raw:
        raise ValueError("raw metrics are objects of kafka-python: klamm has the numbers, call metrics()")


class Meter:
    """Remembers counters as calls saw them. A while: since a call that is a window ago, or the beginning."""

    def __init__(self, clock: Clock, window_ms: float, read: Callable[[], Counters]) -> None:
        self._clock = clock
        self._window_ms = window_ms
        self._read = read
        self._seen = deque([(clock.now_ms(), read())])

    def look(self) -> tuple[Counters, Passed]:
        """The counters now, and what has passed."""
        now_ms, counters = self._clock.now_ms(), self._read()
        while len(self._seen) > 1 and self._seen[1][0] <= now_ms - self._window_ms:
            self._seen.popleft()
        since_ms, before = self._seen[0]
        self._seen.append((now_ms, counters))
        return counters, Passed(before, counters, now_ms - since_ms)


class Passed:
    """How much counters have grown, in how long."""

    def __init__(self, before: Counters, after: Counters, duration_ms: int) -> None:
        self._before = before
        self._after = after
        self._duration_ms = duration_ms

    def _grown(self, name: str) -> float:
        return float(self._after[name] - self._before[name])

    def rate(self, name: str) -> float:
        """Per second."""
        return self._grown(name) * 1000 / self._duration_ms if self._duration_ms else NOT_KNOWN

    def average(self, of: str, over: str) -> float:
        """How much of one thing there was for each of another; not known if there was none."""
        return self._grown(of) / self._grown(over) if self._grown(over) else NOT_KNOWN


def of_producer(counters: Counters, passed: Passed) -> dict[str, dict[str, float]]:
    """What `KafkaProducer.metrics()` returns: klamm's counters, and those of kafka-python."""
    return {
        "producer-metrics": {
            **counters,
            "record-send-rate": passed.rate("records_delivered"),
            "byte-rate": passed.rate("bytes_sent"),
            "request-rate": passed.rate("requests"),
            "request-latency-avg": passed.average("answers_ms", "answers"),
            "throttle-time-max": counters["throttle_ms_max"],
            "record-error-rate": passed.rate("records_failed"),
            "record-size-avg": passed.average("bytes_sent", "records_delivered"),
            "batch-size-avg": passed.average("bytes_sent", "batches_sent"),
            "records-per-request-avg": passed.average("records_delivered", "requests"),
        }
    }


def of_consumer(counters: Counters, passed: Passed) -> dict[str, dict[str, Any]]:
    """What `KafkaConsumer.metrics()` returns."""
    lag = counters["records_lag_max"]
    return {
        "consumer-metrics": dict(counters),
        "consumer-fetch-manager-metrics": {
            "records-consumed-rate": passed.rate("records_consumed"),
            "bytes-consumed-rate": passed.rate("bytes_fetched"),
            "fetch-rate": passed.rate("fetch_requests"),
            "fetch-latency-avg": passed.average("fetch_answers_ms", "fetch_answers"),
            "fetch-size-avg": passed.average("bytes_fetched", "fetch_answers"),
            "records-per-request-avg": passed.average("records_consumed", "fetch_answers"),
            "records-lag-max": NOT_KNOWN if lag is None else lag,
        },
    }
