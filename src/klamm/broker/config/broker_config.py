"""A broker's configuration, typed, with the source of each value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from os.path import abspath
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.config.consumer_groups import check_consumer_groups
from klamm.broker.config.http_ports import http_ports
from klamm.broker.config.security_settings import ListenerValues, listener_values
from klamm.broker.config.settings import BROKER_SETTINGS, MIB
from klamm.broker.net.listeners import (
    Listener,
    advertised_listeners,
    bound_listeners,
    inter_broker_listener,
    is_address,
    listener_protocols,
)
from klamm.config import (
    DOUBLE_MAX,
    INT_MAX,
    ConfigError,
    Password,
    RawValue,
    Values,
    from_environment,
    from_flags,
    load_file,
    merge,
)
from klamm.references import resolved
from klamm.storage.topic_config import TopicConfig

if TYPE_CHECKING:
    from pathlib import Path  # slow to import


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Broker settings as text, by source; dynamic settings take precedence over static ones."""

    static: Mapping[str, str]  # file, environment, flags
    dynamic_default: Mapping[str, str]  # set on all brokers while running
    dynamic: Mapping[str, str]  # set on this broker while running

    @property
    def merged(self) -> dict[str, str]:
        return merge(self.static, self.dynamic_default, self.dynamic)


_NO_LAYERS: Final = Layers(static={}, dynamic_default={}, dynamic={})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The configuration of a broker; `BrokerConfig()` has the defaults."""

    layers: Layers = _NO_LAYERS
    hostname: str = "localhost"  # advertised where a listener names no host

    node_id: int = 1
    broker_rack: str | None = None
    listeners: tuple[Listener, ...] = (Listener("PLAINTEXT", "localhost", 9092),)
    advertised_listeners: tuple[Listener, ...] = (Listener("PLAINTEXT", "localhost", 9092),)
    inter_broker_listener_name: str = "PLAINTEXT"
    listener_values: Mapping[str, ListenerValues] = field(
        default_factory=lambda: {"PLAINTEXT": ListenerValues("PLAINTEXT")}
    )
    sasl_mechanism_inter_broker_protocol: str | None = None
    klamm_login_timeout_ms: int = 10_000
    klamm_max_unauthenticated_connections: int = 1000
    klamm_max_unauthenticated_connections_per_ip: int = 100
    klamm_allow_plaintext_passwords: bool = False
    klamm_scram_close_on_delete: bool = False
    log_dirs: tuple[str, ...] = ("klamm-data",)

    num_partitions: int = 1
    default_replication_factor: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    socket_request_max_bytes: int = 104_857_600
    queued_max_request_bytes: int = -1
    connections_max_idle_ms: int = 600_000
    max_connections: int = INT_MAX
    max_connections_per_ip: int = INT_MAX
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = INT_MAX
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1000
    max_request_partition_size_limit: int = 2000
    transaction_version: int = 2
    klamm_store: Password | None = None
    klamm_flush: str = "commit"
    klamm_journal_file_bytes: int = 16 * MIB
    klamm_journal_round_bytes: int = 128 * 1024
    klamm_disk_reserve_bytes: int = 16 * MIB
    klamm_record_validation: str = "header"
    klamm_decompress_max_bytes: int = 64 * MIB
    klamm_metrics_listener: Listener | None = None
    klamm_metrics_token: Password | None = None
    klamm_control_listener: Listener | None = None
    klamm_control_token: Password | None = None
    klamm_clock: str = "system"

    broker_heartbeat_interval_ms: int = 1000
    broker_session_timeout_ms: int = 9000
    klamm_broker_serve_window_ms: int = 3000
    klamm_fence: str = "kill"
    klamm_shutdown_timeout_ms: int = 30_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 30

    log_retention_check_interval_ms: int = 300_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_cleaner_enable: bool = True
    log_cleaner_threads: int = 1
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_cleaner_io_max_bytes_per_second: float = DOUBLE_MAX

    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3000
    group_max_size: int = INT_MAX
    group_consumer_session_timeout_ms: int = 45000
    group_consumer_min_session_timeout_ms: int = 45000
    group_consumer_max_session_timeout_ms: int = 60000
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_min_heartbeat_interval_ms: int = 5000
    group_consumer_max_heartbeat_interval_ms: int = 15000
    group_consumer_assignment_interval_ms: int = 0
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15000
    group_consumer_max_size: int = INT_MAX
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_regex_refresh_interval_ms: int = 600000
    offset_metadata_max_bytes: int = 4096
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 104_857_600
    offsets_topic_compression_codec: int = 0
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5000

    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    transaction_state_log_segment_bytes: int = 104_857_600
    transaction_max_timeout_ms: int = 900_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_partition_verification_enable: bool = True
    transaction_two_phase_commit_enable: bool = False
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100

    klamm_authorizer: str = ""
    authorizer_class_name: str = ""
    super_users: Password | None = None
    allow_everyone_if_no_acl_found: bool = False

    @property
    def has_acls(self) -> bool:
        """Whether requests are authorized by access control lists."""
        return bool(self.klamm_authorizer or self.authorizer_class_name)

    @classmethod
    def load(
        cls,
        file: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        flags: Iterable[str] = (),
        *,
        hostname: str = "localhost",
    ) -> BrokerConfig:
        """Defaults, then a file, then `KLAMM_...` variables, then `name=value` flags. Raises ConfigError."""
        return cls.from_settings(
            merge(
                load_file(file) if file is not None else {},
                from_environment(environ or {}, BROKER_SETTINGS),
                from_flags(flags),
            ),
            hostname=hostname,
        )

    @classmethod
    def from_settings(
        cls,
        static: Mapping[str, RawValue],
        *,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic: Mapping[str, str] | None = None,
        hostname: str = "localhost",
    ) -> BrokerConfig:
        """The configuration from static and dynamic settings. Raises ConfigError.

        References are resolved in static settings only: others come from programs elsewhere.
        """
        return cls._from_layers(
            Layers(
                static=resolved(merge(static), os.environ),
                dynamic_default=dynamic_default or {},
                dynamic=dynamic or {},
            ),
            hostname,
        )

    @classmethod
    def _from_layers(cls, layers: Layers, hostname: str) -> BrokerConfig:
        values = BROKER_SETTINGS.parse(layers.merged)
        _check_together(values)
        plain: dict[str, Any] = {field: values[name] for field, name in _NAMES_BY_FIELD.items()}
        controllers = values.words("controller.listener.names")
        bound = bound_listeners(values.words("listeners"), controllers)
        protocols = listener_protocols(values.text("listener.security.protocol.map"), bound)
        advertised = values["advertised.listeners"]
        http = http_ports(values, protocols)
        between = values["inter.broker.listener.name"]
        config = cls(
            **plain,
            layers=layers,
            hostname=hostname,
            node_id=_node_id(layers.static, values),
            listeners=bound,
            advertised_listeners=advertised_listeners(
                None if advertised is None else values.words("advertised.listeners"),
                bound,
                controllers,
                hostname,
            ),
            log_dirs=_log_dirs(values),
            inter_broker_listener_name=inter_broker_listener(
                None if between is None else str(between),
                values.optional_text("security.inter.broker.protocol"),
                bound,
                protocols,
            ),
            listener_values=listener_values({**protocols, **http.protocols}, layers.merged),
            max_connections_per_ip_overrides=_overrides(values),
            klamm_metrics_listener=http.metrics,
            klamm_control_listener=http.control,
        )
        config.topic_config({})  # the defaults of topics must be consistent too
        _check_assignors(values)
        return config

    def changed(self, *, dynamic_default: Mapping[str, str], dynamic: Mapping[str, str]) -> BrokerConfig:
        """This configuration with other dynamic settings. Raises ConfigError."""
        layers = replace(self.layers, dynamic_default=dynamic_default, dynamic=dynamic)
        return BrokerConfig._from_layers(layers, self.hostname)

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The configuration of a topic with these overrides on this broker. Raises ConfigError."""
        return TopicConfig.from_settings(self.layers.merged, overrides)


# Each of these is made of several settings.
_COMPOSED: Final = frozenset(
    {
        "layers",
        "hostname",
        "node_id",
        "listeners",
        "advertised_listeners",
        "log_dirs",
        "inter_broker_listener_name",
        "listener_values",
        "max_connections_per_ip_overrides",
        "klamm_metrics_listener",
        "klamm_control_listener",
    }
)
_NAMES_BY_FIELD: Final[Mapping[str, str]] = {
    each.name: each.name.replace("_", ".") for each in fields(BrokerConfig) if each.name not in _COMPOSED
}


def _node_id(static: Mapping[str, str], values: Values) -> int:
    node_id, broker_id = values.integer("node.id"), values.integer("broker.id")
    if broker_id == -1:
        return node_id
    if "node.id" in static and node_id != broker_id:
        raise ConfigError(
            "broker.id", f"broker.id={broker_id} contradicts node.id={node_id}: set only node.id"
        )
    return broker_id


def _log_dirs(values: Values) -> tuple[str, ...]:
    dirs = values.words("log.dir") if values["log.dirs"] is None else values.words("log.dirs")
    if "" in dirs or len({abspath(path) for path in dirs}) < len(dirs):
        raise ConfigError("log.dirs", f"log.dirs={','.join(dirs)} repeats a folder: name each once")
    return dirs


def _overrides(values: Values) -> dict[str, int]:
    """Limits of connections by address."""
    name = "max.connections.per.ip.overrides"
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in values.text(name).split(","))):
        address, _, count = part.rpartition(":")
        address = address.strip().strip("[]")
        if not is_address(address) or not count.strip().isdecimal():
            raise ConfigError(name, f"invalid value {part} for {name}: expected ADDRESS:NUMBER")
        found[address] = int(count)
    if not found and values.integer("max.connections.per.ip") == 0:
        raise ConfigError(
            "max.connections.per.ip",
            f"max.connections.per.ip=0 refuses all clients: set {name} for those that may connect",
        )
    return found


def _check_assignors(values: Values) -> None:
    """Refuse assignors that cannot be loaded when a broker starts, not when its first group does."""
    name = "group.consumer.assignors"
    if values[name] != BROKER_SETTINGS.settings[name].default:
        # Imported here: a broker with Kafka's assignors starts without them.
        from klamm.assignors.server.registry import load_group_assignors  # noqa: PLC0415

        load_group_assignors(values.words(name))


def _check_together(values: Values) -> None:
    """Refuse settings that contradict each other."""
    threads = max(1, values.integer("log.cleaner.threads"))
    if values.integer("log.cleaner.dedupe.buffer.size") // threads <= MIB:
        raise ConfigError(
            "log.cleaner.dedupe.buffer.size",
            f"log.cleaner.dedupe.buffer.size must be above {MIB} for each of {threads} cleaner threads",
        )
    if values.integer("group.min.session.timeout.ms") > values.integer("group.max.session.timeout.ms"):
        raise ConfigError(
            "group.min.session.timeout.ms",
            "group.min.session.timeout.ms is above group.max.session.timeout.ms: lower it or raise that",
        )
    check_consumer_groups(values)
    session_ms = values.integer("broker.session.timeout.ms")
    window_ms = values.integer("klamm.broker.serve.window.ms")
    if session_ms < 3 * window_ms:
        raise ConfigError(
            "broker.session.timeout.ms",
            f"broker.session.timeout.ms={session_ms} is below three times "
            f"klamm.broker.serve.window.ms={window_ms}: raise it or lower that",
        )
    if window_ms < values.integer("broker.heartbeat.interval.ms"):
        raise ConfigError(
            "klamm.broker.serve.window.ms",
            "klamm.broker.serve.window.ms is below broker.heartbeat.interval.ms: raise it or lower that",
        )
