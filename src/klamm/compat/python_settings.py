"""What becomes of the settings of kafka-python and aiokafka, which have much in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from klamm.compat.security import NAMES as SECURITY
from klamm.compat.security import security_settings, settings_without_security
from klamm.compat.settings import NOT_OF_SECURITY, ClientKind, Rules, with_ports

_SOCKETS: Final = "klamm leaves this to the operating system"
_WINDOW: Final = frozenset({"metrics_num_samples", "metrics_sample_window_ms"})
_METRICS: Final = "klamm counts from the beginning: see metrics()"
_VERSIONS: Final = "klamm asks every broker for its versions"
_PROXY: Final = "klamm's client has no proxies: connect to the brokers, or to a proxy that speaks Kafka"

_RULES: Final = Rules(
    library="kafka-python",
    own=dict.fromkeys(ClientKind, SECURITY),
    refused_prefixes=dict.fromkeys(("ssl_", "sasl_"), NOT_OF_SECURITY),
    refused={
        "client_dns_lookup": "klamm uses all addresses of a name; write the canonical names of the servers",
        "enable_incremental_fetch_sessions": "klamm always uses fetch sessions where the broker has them",
        "kafka_client": "klamm has a network client of its own",
        "metric_reporters": "read metrics() and report them yourself",
        "proxy_url": _PROXY,
        "rebalance_timeout_ms": "a member has max_poll_interval_ms to rejoin: set that one",
        "socks5_proxy": _PROXY,
    },
    without_meaning={
        "api_version": _VERSIONS,
        "api_version_auto_timeout_ms": _VERSIONS,
        "loop": "klamm uses the loop that is running",
        "metric_group_prefix": _METRICS,
        "metrics_enabled": _METRICS,
        "metrics_num_samples": _METRICS,
        "metrics_sample_window_ms": _METRICS,
        "receive_buffer_bytes": _SOCKETS,
        "receive_message_max_bytes": "klamm accepts answers of up to 256 MiB",
        "selector": "klamm takes the best selector that Python has",
        "send_buffer_bytes": _SOCKETS,
        "sock_chunk_buffer_count": _SOCKETS,
        "sock_chunk_bytes": _SOCKETS,
        "socket_options": _SOCKETS,
    },
    defaults={
        "client_dns_lookup": "use_all_dns_ips",
        "enable_incremental_fetch_sessions": True,
        "metric_reporters": [],
        "sasl_kerberos_service_name": "kafka",
    },
)
KAFKA_PYTHON: Final = replace(
    _RULES,
    own={
        ClientKind.CONSUMER: frozenset(
            {
                "bootstrap_timeout_ms",
                "consumer_timeout_ms",
                "default_offset_commit_callback",
                "key_deserializer",
                "partition_assignment_strategy",
                "value_deserializer",
                *_WINDOW,
                *SECURITY,
            }
        ),
        ClientKind.PRODUCER: frozenset(
            {
                "allow_auto_create_topics",
                "bootstrap_timeout_ms",
                "key_serializer",
                "partitioner",
                "retries",
                "value_serializer",
                *_WINDOW,
                *SECURITY,
            }
        ),
        ClientKind.ADMIN: frozenset({"bootstrap_timeout_ms", *SECURITY}),
    },
)
AIOKAFKA: Final = replace(
    _RULES,
    library="aiokafka",
    own={
        ClientKind.CONSUMER: frozenset(
            {"key_deserializer", "partition_assignment_strategy", "value_deserializer", *SECURITY}
        ),
        ClientKind.PRODUCER: frozenset(
            {"key_serializer", "max_batch_size", "partitioner", "value_serializer", *SECURITY}
        ),
        ClientKind.ADMIN: SECURITY,
    },
    without_meaning={
        **_RULES.without_meaning,
        "consumer_timeout_ms": "klamm's client fetches as soon as there is room",
    },
)


def own_settings(rules: Rules, given: Mapping[str, Any], kind: ClientKind) -> dict[str, Any]:
    """klamm's settings, and those of `rules.own`, made of another library's."""
    settings = rules.applied(given, kind)
    if not str(settings.get("security_protocol", "")).upper().startswith("SASL"):
        settings.pop("sasl_mechanism", None)  # aiokafka's default has a value
    settings = {**settings_without_security(settings), **security_settings(settings)}
    servers = settings.get("bootstrap_servers")  # an empty list is no default: klamm's client refuses it
    settings["bootstrap_servers"] = with_ports("localhost:9092" if servers is None else servers)
    if kind is ClientKind.CONSUMER and settings.get("group_id") is None:
        settings.pop("enable_auto_commit", None)  # nothing to commit to
    return settings


def assignor_names(strategies: Any) -> list[Any]:
    """Assignors by name: their classes have klamm's names in `name`."""
    return [getattr(item, "name", item) if not isinstance(item, str) else item for item in strategies]
