"""All metrics of a broker, named as the JMX exporter names Kafka's.

Counters are incremented by the parts that they measure; gauges are computed for each page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from klamm.broker.metrics.counters import TopicCounters
from klamm.broker.metrics.exposition import Family, Kind, lines
from klamm.broker.metrics.groups import group_families, waiting_families, waiting_in_groups
from klamm.broker.metrics.lag import LagMeter
from klamm.broker.metrics.partitions import partition_families
from klamm.broker.metrics.request_meter import RequestMeter, RequestStats
from klamm.broker.metrics.transactions import transaction_families
from klamm.broker.partitions.fetch_read import FetchWait
from klamm.broker.partitions.produce_wait import ProduceWait, SingleWait
from klamm.broker.security.permissions import Permission
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import BrokerState

if TYPE_CHECKING:
    from klamm.broker.net.server import Server
    from klamm.broker.services import Services

# Kafka's states of a broker.
_RUNNING: Final = 3
_PENDING_SHUTDOWN: Final = 6
_UNKNOWN: Final = 127  # its lease is not renewed: it may be that others have its partitions
_LAG_INTERVAL_S: Final = 1.0


class Metrics:
    """Collects the metrics of one broker."""

    def __init__(self, services: Services, server: Server, meter: RequestMeter) -> None:
        self._services = services
        self._server = server
        self._meter = meter
        self._lag = LagMeter(services)
        self._worst_lag_ms: int | None = None  # None: not measured since the last page
        self._timer = services.loop.call_later(_LAG_INTERVAL_S, self._look_at_the_clock)
        self._due_at_ms = services.clock.now_ms() + int(_LAG_INTERVAL_S * 1000)

    def page(self) -> Iterator[str]:
        """The page for Prometheus, line by line; an empty string where only time has passed."""
        return lines(self._families())

    def stop(self) -> None:
        self._timer.cancel()

    def _look_at_the_clock(self) -> None:
        now_ms = self._services.clock.now_ms()
        self._worst_lag_ms = max(self._worst_lag_ms or 0, now_ms - self._due_at_ms)
        self._due_at_ms = now_ms + int(_LAG_INTERVAL_S * 1000)
        self._timer = self._services.loop.call_later(_LAG_INTERVAL_S, self._look_at_the_clock)

    def _families(self) -> Iterator[Family]:
        says = "3: running, 6: handing its partitions over, 127: its lease is not renewed"
        yield _one("kafka_server_kafkaserver_brokerstate", self._state(), says)
        yield from self._topics()
        yield from self._requests()
        yield from partition_families(self._services)
        yield from self._verification()
        yield from self._logs()
        yield from self._waiting()
        yield from self._connections()
        yield from group_families(self._services.groups)
        yield from self._lag.families()
        yield from transaction_families(self._services.transactions)
        yield from self._own()

    def _state(self) -> int:
        window, image = self._services.serve_window, self._services.image
        if window is not None and not window.is_open():
            return _UNKNOWN
        own = image.brokers.get(image.broker_id)
        return _PENDING_SHUTDOWN if own is not None and own.state is BrokerState.DRAINING else _RUNNING

    def _topics(self) -> Iterator[Family]:
        tallies = self._services.partitions.tallies
        total = tallies.total()
        for counted in (each.name for each in fields(TopicCounters)):
            name = f"kafka_server_brokertopicmetrics_{counted.replace('_', '')}_total"
            family = Family(name, "counter", f"{counted.replace('_', ' ')}, of all topics and of each")
            family.add(getattr(total, counted))
            for topic, counters in tallies.by_topic.items():
                family.add(getattr(counters, counted), topic=topic)
            yield family

    def _requests(self) -> Iterator[Family]:
        prefix = "kafka_network_requestmetrics_"
        by_name = _by_request_name(self._meter)
        requests = Family(f"{prefix}requests_total", "counter", "requests, by API and version")
        errors = Family(f"{prefix}errors_total", "counter", "error codes in answers, NONE too")
        for name, stats in by_name:
            for version, count in stats.by_version.items():
                requests.add(count, request=name, version=str(version))
            for code, count in stats.errors.items():
                errors.add(count, request=name, error=ErrorCode(code).name.upper())
        yield requests
        yield errors
        yield self._requests_by_permission()
        for suffix, says in (
            ("total", "from a request's arrival to its answer"),
            ("local", "deciding a request"),
            ("remote", "an answer's wait for something to happen, or for the disk"),
        ):
            family = Family(f"{prefix}{suffix}timems", "summary", f"{says}, milliseconds")
            for name, stats in by_name:
                family.add(getattr(stats, f"{suffix}_ms"), "_sum", request=name)
                family.add(stats.answers, "_count", request=name)
            yield family
        sizes = Family(f"{prefix}requestbytes", "summary", "bytes of requests")
        for name, stats in by_name:
            sizes.add(stats.request_bytes, "_sum", request=name)
            sizes.add(sum(stats.by_version.values()), "_count", request=name)
        yield sizes

    def _requests_by_permission(self) -> Family:
        """Requests by resource type and operation, as access control names them."""
        # Imported here: a broker whose metrics are not read starts without it.
        from klamm.broker.security.table import RULES  # noqa: PLC0415

        counts: Counter[Permission] = Counter()
        for api_key, stats in self._meter.by_api.items():
            for permission in RULES[api_key].needs[:1]:  # the first is that of the API's main resource
                counts[permission] += sum(stats.by_version.values())
        family = Family(
            "klamm_requests_by_permission_total", "counter", "requests, by the permission that they need"
        )
        for permission, count in counts.items():
            family.add(count, resourceType=permission.resource_type.name, operation=permission.operation.name)
        return family

    def _verification(self) -> Iterator[Family]:
        verification, manager = self._services.verification, "kafka_server_addpartitionstotxnmanager_"
        times = Family(
            f"{manager}verificationtimems", "summary", "asking whether a transaction has a partition"
        )
        yield times.add(verification.total_ms, "_sum").add(verification.count, "_count")
        failures = f"{manager}verificationfailurerate_total"
        yield _one(failures, verification.failures, "partitions that were not confirmed", "counter")

    def _logs(self) -> Iterator[Family]:
        flusher = self._services.flusher
        flushes = Family("kafka_log_logflushstats_logflushrateandtimems", "summary", "flushes of logs")
        yield flushes.add(flusher.flush_ms, "_sum").add(flusher.flushes, "_count")
        offline = sum(status.is_offline for status in self._services.logs.status())
        yield _one("kafka_log_logmanager_offlinelogdirectorycount", offline, "data folders that fail")
        cleaning = self._services.cleaning
        if cleaning is None:
            return  # there is nothing to compact, or others do it
        prefix, cleaner = "kafka_log_logcleaner_", cleaning.cleaner
        dirt = 100 * cleaner.dirtiest_ratio()
        yield _one(f"{prefix}max_dirty_percent", dirt, "the dirtiest log's share of what is not compacted")
        if cleaning.last_round_ms is not None:
            longest_s = cleaning.last_round_ms / 1000
            yield _one(f"{prefix}max_clean_time_secs", longest_s, "the longest pass of the last round")
        given_up = len(cleaner.uncleanable)
        yield _one(f"{prefix}uncleanable_partitions_count", given_up, "logs that are no longer compacted")

    def _waiting(self) -> Iterator[Family]:
        purgatory = Family(
            "kafka_server_delayedoperationpurgatory_purgatorysize", "gauge", "requests that wait"
        )
        waiting = Counter(type(each) for each in self._services.deadlines)
        purgatory.add(waiting[FetchWait], delayedOperation="Fetch")
        purgatory.add(waiting[SingleWait] + waiting[ProduceWait], delayedOperation="Produce")
        of_groups = waiting_in_groups(self._services.groups)
        purgatory.add(of_groups.rebalances, delayedOperation="Rebalance")
        yield purgatory.add(of_groups.sessions, delayedOperation="Heartbeat")
        yield from waiting_families(of_groups)
        sessions = self._services.fetch_sessions
        prefix = "kafka_server_fetchsessioncache_"
        yield _one(f"{prefix}numincrementalfetchsessions", len(sessions), "fetch sessions")
        yield _one(
            f"{prefix}numincrementalfetchpartitionscached", sessions.target_count, "partitions in them"
        )
        evictions = f"{prefix}incrementalfetchsessionevictions_total"
        yield _one(evictions, sessions.evictions, "sessions that made room for others", "counter")

    def _connections(self) -> Iterator[Family]:
        prefix = "kafka_server_socket_server_metrics_"
        by_listener: Counter[str] = Counter()
        by_software: Counter[tuple[str, str]] = Counter()
        for connection in self._server.connections:
            by_listener[connection.listener] += 1
            by_software[connection.client_software] += 1
        count = Family(f"{prefix}connection_count", "gauge", "open connections")
        for listener, connections in by_listener.items():
            count.add(connections, listener=listener)
        yield count
        software = Family(f"{prefix}connections", "gauge", "open connections by what clients are")
        for (name, version), connections in by_software.most_common(100):
            software.add(
                connections, clientSoftwareName=name or "unknown", clientSoftwareVersion=version or "unknown"
            )
        yield software

    def _own(self) -> Iterator[Family]:
        failures = Family("klamm_decode_failures_total", "counter", "connections closed for bad input")
        for reason, count in self._server.decode_failures.items():
            failures.add(count, reason=reason)
        yield failures
        flusher = self._services.flusher
        batches = Family("klamm_flush_batch_size", "summary", "logs that go to the disk together")
        yield batches.add(flusher.flushes, "_sum").add(flusher.rounds, "_count")
        worst_ms, self._worst_lag_ms = self._worst_lag_ms, None
        if worst_ms is not None:
            says = "the longest delay since the last page"
            yield _one("klamm_event_loop_lag_seconds", worst_ms / 1000, says)


def _one(name: str, value: float, says: str, kind: Kind = "gauge") -> Family:
    return Family(name, kind, says).add(value)


def _by_request_name(meter: RequestMeter) -> list[tuple[str, RequestStats]]:
    named: list[tuple[str, RequestStats]] = []
    for api_key, stats in meter.by_api.items():
        named.append((api_key.name.title().replace("_", ""), stats))
        if api_key is ApiKey.FETCH:
            named.append(("FetchConsumer", stats))
    return named
