"""The settings of clients as keyword arguments, for editors and type checkers.

Made by tools/make_settings.py: change the table in klamm.client.config, not this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from ssl import SSLContext
from typing import Any, Literal, TypeAlias, TypedDict

from klamm.assignors.registry import Strategy
from klamm.client.consumer.offsets.stores import OffsetStore
from klamm.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from klamm.client.producer.partitioner import Partitioner
from klamm.errors import RecordDeserializationError
from klamm.protocol.types import TopicPartition

Start: TypeAlias = Literal["earliest", "latest"] | int | datetime


class CommonKeywords(TypedDict, total=False):
    """What all clients take."""

    bootstrap_servers: str | Sequence[str]
    """Addresses to start from: host:port, separated by commas."""
    client_id: str
    """A name for this client in logs, metrics and group descriptions."""
    client_rack: str
    """The client's rack, for rack-aware assignors and reads from the nearest replica."""
    request_timeout_ms: int
    """How long a request waits for its response."""
    retry_backoff_ms: int
    """The first pause before a retry; doubles with each retry."""
    retry_backoff_max_ms: int
    """The longest pause before a retry."""
    reconnect_backoff_ms: int
    """The first pause before a broker is connected to again."""
    reconnect_backoff_max_ms: int
    """The longest pause before a broker is connected to again."""
    metadata_max_age_ms: int
    """The age at which metadata is requested again."""
    connections_max_idle_ms: int
    """Closes connections that were idle for this long."""
    statistics_interval_ms: int
    """The time between calls of stats.callback; 0: never."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """What the listener of the brokers speaks."""
    ssl_truststore_location: str | None
    """A file of the CA certificates to trust: PEM or PKCS12. Default: the system's."""
    ssl_truststore_type: Literal["PEM", "PKCS12", "JKS"] | None
    """PEM or PKCS12. Default: what the file is. Files of type JKS have to be converted to PKCS12."""
    ssl_truststore_password: str | None
    """The password of a truststore in PKCS12."""
    ssl_truststore_certificates: str | None
    """The CA certificates to trust, as PEM text."""
    ssl_ca_location: str | None
    """As ssl.truststore.location: librdkafka's name."""
    ssl_ca_pem: str | None
    """As ssl.truststore.certificates: librdkafka's name."""
    ssl_keystore_location: str | None
    """A file of the client's key and certificates: PEM or PKCS12."""
    ssl_keystore_type: Literal["PEM", "PKCS12", "JKS"] | None
    """PEM or PKCS12. Default: what the file is. Files of type JKS have to be converted to PKCS12."""
    ssl_keystore_password: str | None
    """The password of a keystore in PKCS12."""
    ssl_keystore_key: str | None
    """The client's private key, as PEM text."""
    ssl_keystore_certificate_chain: str | None
    """The client's certificates, as PEM text."""
    ssl_certificate_location: str | None
    """A PEM file of the client's certificates: librdkafka's name."""
    ssl_certificate_pem: str | None
    """As ssl.keystore.certificate.chain: librdkafka's name."""
    ssl_key_location: str | None
    """A PEM file of the client's private key: librdkafka's name."""
    ssl_key_pem: str | None
    """As ssl.keystore.key: librdkafka's name."""
    ssl_key_password: str | None
    """The password of the client's private key, if it is encrypted."""
    ssl_endpoint_identification_algorithm: Literal["https", "none", ""]
    """https: a broker's certificate must have the name that is connected to; none or empty: any."""
    enable_ssl_certificate_verification: bool
    """false: accept any certificate of a broker, also that of somebody in between. For tests only."""
    ssl_enabled_protocols: str | Sequence[str]
    """The versions of TLS that may be used."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None
    """How the client logs in; required with SASL_SSL and SASL_PLAINTEXT."""
    sasl_mechanisms: str | None
    """As sasl.mechanism: librdkafka's name."""
    sasl_username: str | None
    """The user, for PLAIN and SCRAM."""
    sasl_password: str | None
    """The user's password, for PLAIN and SCRAM."""
    sasl_jaas_config: str | None
    """User and password, or client id and secret, as Java's clients take them."""
    sasl_login_callback_handler_class: str | None
    """Java's OAuthBearerLoginCallbackHandler: tokens of a token endpoint."""
    sasl_oauthbearer_method: str | None
    """oidc: tokens of a token endpoint; default: tokens of oauth_cb."""
    sasl_oauthbearer_config: str | None
    """A text that oauth_cb is called with."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """The OIDC token endpoint, for client credentials."""
    sasl_oauthbearer_client_id: str | None
    """The client id for the token endpoint."""
    sasl_oauthbearer_client_secret: str | None
    """The client's secret for the token endpoint."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """As sasl.oauthbearer.client.id: Java's name."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """As sasl.oauthbearer.client.secret: Java's name."""
    sasl_oauthbearer_scope: str | None
    """The scope to ask the token endpoint for."""
    sasl_oauthbearer_extensions: str | None
    """SASL extensions: name=value, separated by commas."""
    https_ca_location: str | None
    """A PEM file of the CA certificates that the token endpoint's must come from."""
    oauth_cb: Callable[[str], tuple[str, float] | tuple[str, float, str, Mapping[str, str]]]
    """Returns a token and when it expires, in seconds since 1970."""
    ssl_context: SSLContext
    """The TLS context to use, in place of the other ssl settings."""


class AdminKeywords(CommonKeywords, total=False):
    """What an admin takes."""

    default_api_timeout_ms: int
    """The timeout of calls that have no timeout argument."""


class SerializerKeywords(TypedDict, total=False):
    """What serializers by name take."""

    schema_registry_url: str
    """The schema registry, as http://host:port."""
    schema_registry_basic_auth_user_info: str
    """user:password for the schema registry."""
    schema_registry_bearer_auth_token: str
    """A token for the schema registry."""
    schema_registry_ssl_ca_location: str
    """A PEM file of the CA certificates of the schema registry."""
    serializer_schema: Any
    """The schema to write with."""
    serializer_reader_schema: Any
    """The schema to read as."""
    serializer_message_type: Any
    """The class of Protobuf messages."""
    serializer_auto_register: bool
    """Whether an unknown schema is registered."""
    serializer_use_latest: bool
    """Whether the latest schema of the subject is written with."""
    serializer_subject: str
    """The subject in the registry."""
    serializer_key_schema: Any
    """The schema to write with. Of keys."""
    serializer_key_reader_schema: Any
    """The schema to read as. Of keys."""
    serializer_key_message_type: Any
    """The class of Protobuf messages. Of keys."""
    serializer_key_auto_register: bool
    """Whether an unknown schema is registered. Of keys."""
    serializer_key_use_latest: bool
    """Whether the latest schema of the subject is written with. Of keys."""
    serializer_key_subject: str
    """The subject in the registry. Of keys."""
    serializer_value_schema: Any
    """The schema to write with."""
    serializer_value_reader_schema: Any
    """The schema to read as."""
    serializer_value_message_type: Any
    """The class of Protobuf messages."""
    serializer_value_auto_register: bool
    """Whether an unknown schema is registered."""
    serializer_value_use_latest: bool
    """Whether the latest schema of the subject is written with."""
    serializer_value_subject: str
    """The subject in the registry."""


class ConsumerKeywords(CommonKeywords, SerializerKeywords, total=False):
    """What a consumer takes."""

    default_api_timeout_ms: int
    """The timeout of calls that have no timeout argument."""
    group_id: str | None
    """The consumer group; required to subscribe and to commit."""
    group_instance_id: str | None
    """Makes the consumer a static member, which keeps its partitions through a restart."""
    group_protocol: Literal["classic", "consumer"]
    """`consumer`: the coordinator assigns, and members go on reading while partitions move."""
    group_remote_assignor: str | None
    """The assignor of the coordinator, with group.protocol=consumer."""
    session_timeout_ms: int
    """The group removes a member without heartbeats after this time."""
    heartbeat_interval_ms: int
    """The time between heartbeats; at most a third of the session timeout."""
    max_poll_interval_ms: int
    """The longest time between two polls before the consumer leaves the group."""
    max_poll_records: int
    """The most records that one poll returns."""
    partition_assignment_strategy: Strategy | Sequence[Strategy]
    """Assignors in order of preference: names, or your own."""
    enable_auto_commit: bool
    """Commits positions automatically during polls."""
    enable_auto_offset_store: bool
    """Positions are stored for the next commit when records are returned."""
    auto_commit_interval_ms: int
    """The time between automatic commits."""
    auto_offset_reset: Literal["earliest", "latest", "none"]
    """Where to begin without a committed offset, or with one that the log no longer has."""
    isolation_level: Literal["read_uncommitted", "read_committed"]
    """read_committed returns no records of open and aborted transactions."""
    fetch_min_bytes: int
    """The broker waits for this much data, up to fetch.max.wait.ms."""
    fetch_max_bytes: int
    """The most data in one response; a first batch that is larger is still returned."""
    max_partition_fetch_bytes: int
    """The most data of one partition in one response."""
    fetch_max_wait_ms: int
    """How long the broker waits for fetch.min.bytes."""
    check_crcs: bool
    """Checks the checksum of every batch."""
    exclude_internal_topics: bool
    """A pattern does not match internal topics."""
    allow_auto_create_topics: bool
    """Subscribing to a topic may create it, if the broker allows that."""
    consumer_timeout_ms: int
    """Iterating ends after this time without a record; -1: never."""
    random_seed: int | None
    """Makes the random assignor repeatable."""
    interceptors: ConsumerInterceptor | Sequence[ConsumerInterceptor]
    """What sees every record and its outcome."""
    offset_store: OffsetStore
    """Where offsets are kept in place of the group."""
    on_deserialize_error: Literal["raise", "skip"] | Callable[[RecordDeserializationError], object]
    """What happens to a record that cannot be deserialized."""
    start_at: Start | Mapping[TopicPartition, Start]
    """Where partitions without a position begin: an offset, a time, earliest or latest."""
    stats_callback: Callable[[dict[str, Any]], object]
    """A function of the metrics, called every statistics.interval.ms on the client's thread."""


class ProducerKeywords(CommonKeywords, SerializerKeywords, total=False):
    """What a producer takes."""

    acks: Literal["all", "-1", "0", "1", -1, 0, 1]
    """all: durable on the broker. 1: written by the broker. 0: no response."""
    enable_idempotence: bool
    """Retries write no duplicates and keep the order of each partition."""
    retries: int
    """The most retries of a batch, within delivery.timeout.ms."""
    max_in_flight_requests_per_connection: int
    """The most unanswered requests to one broker."""
    delivery_timeout_ms: int
    """A record that is not delivered within this time fails."""
    message_timeout_ms: int | None
    """As delivery.timeout.ms, but it may be shorter than a request; 0: no limit."""
    linger_ms: int
    """How long a batch waits for more records."""
    batch_size: int
    """The size at which a batch is sent without waiting."""
    buffer_memory: int
    """The memory for records that wait to be sent; send blocks when it is full."""
    max_request_size: int
    """The largest record and the largest request."""
    max_block_ms: int
    """How long send waits for memory and metadata, and transaction calls for a response."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """The compression of batches."""
    compression_gzip_level: int
    """The level of gzip; -1 is its default."""
    compression_lz4_level: int
    """The level of lz4."""
    compression_zstd_level: int
    """The level of zstd."""
    partitioner_ignore_keys: bool
    """Records with a key are spread like those without."""
    partitioner_adaptive_partitioning_enable: bool
    """Faster brokers get more of the records without a key."""
    partitioner_availability_timeout_ms: int
    """Only 0 is accepted: records without a key also go to brokers that are slow to accept requests."""
    metadata_max_idle_ms: int
    """Metadata of a topic that was not used for this long is dropped."""
    transactional_id: str | None
    """Enables transactions; fences older producers with the same id."""
    transaction_timeout_ms: int
    """The coordinator aborts a transaction that is open for longer."""
    transaction_two_phase_commit_enable: bool
    """An external coordinator ends the transaction (KIP-939)."""
    interceptors: ProducerInterceptor | Sequence[ProducerInterceptor]
    """What sees every record and its outcome."""
    partitioner_class: Partitioner | str
    """Chooses partitions: a function of (topic, key, value, number of partitions), or a name."""
    stats_callback: Callable[[dict[str, Any]], object]
    """A function of the metrics, called every statistics.interval.ms on the client's thread."""
