"""The options of the clients as types: what an editor offers, and a type checker refuses.

Written by docs/generate.py (`make docs`) out of the tables in `barnabas.client.config`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from barnabas.client.types import RecordMetadata

OnDelivery: TypeAlias = Callable[[Exception | None, RecordMetadata | None], object]
"""Gets why a record was not stored (None where it was), and where it was, as confluent-kafka has it."""

Partitioner: TypeAlias = Callable[[Any, Sequence[int], Sequence[int]], int | None]
"""Chooses a partition for a key (as bytes) out of all partitions and those that have a leader; None leaves it
to the producer.
"""


class SerializerObject(Protocol):
    """A serializer that wants to know the topic."""

    def serialize(self, topic: str, value: Any) -> bytes | str | None:
        """The bytes of a key or value."""


class DeserializerObject(Protocol):
    """A deserializer that wants to know the topic."""

    def deserialize(self, topic: str, value: bytes) -> Any:
        """The object of these bytes."""


Serializer: TypeAlias = Callable[[Any], bytes | str | None] | SerializerObject
Deserializer: TypeAlias = Callable[[bytes], Any] | DeserializerObject


class ProducerOptions(TypedDict, total=False):
    """The options of `Producer` and `AsyncProducer`."""

    acks: Literal["all", "0", "1", "-1", 0, 1, -1]
    """Which replicas must have a record: none (0), the leader (1), all in sync (all). Default: all."""
    batch_size: int
    """Bytes at which a batch is sent at once. Where this is set, no batch grows beyond it; where not, one
    takes records until the sender comes to it, up to 256 KB, except with acks=0. Default: 16384.
    """
    bootstrap_servers: str | Sequence[str]
    """Brokers to ask first, host:port each."""
    buffer_memory: int
    """Bytes of records that may wait. Default: 33554432."""
    client_id: str
    """A name for this client in the broker's logs and quotas. Default: empty."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """How batches are compressed. Default: none."""
    default_api_timeout_ms: int
    """How long a whole call may take. Default: 60000."""
    delivery_timeout_ms: int
    """How long a record may take in all. Default: 120000."""
    enable_idempotence: bool
    """No duplicates, and order kept, through retries. Default: true."""
    enable_metrics_push: bool
    """Whether this client pushes its metrics to a broker that asks for them (KIP-714). Default: true."""
    interceptors: Sequence[Any] | None
    """See and change records before they are sent, and see what became of them."""
    key_serializer: Serializer | None
    """Makes bytes of a record's key."""
    linger_ms: int
    """How long a batch may wait for more records. Default: 0."""
    max_block_ms: int
    """How long `send` may wait for room or metadata. Default: 60000."""
    max_in_flight_requests_per_connection: int
    """Unanswered requests a broker. Default: 5."""
    max_request_size: int
    """The largest request, in bytes. Default: 1048576."""
    metadata_max_age_ms: int
    """How old metadata may become. Default: 300000."""
    metadata_max_idle_ms: int
    """How long a topic that nothing is sent to stays in the metadata; a record for it has it asked for
    again. Default: 300000.
    """
    metadata_recovery_rebootstrap_trigger_ms: int
    """How long no broker may answer before that. Default: 300000."""
    metadata_recovery_strategy: Literal["none", "rebootstrap"]
    """Where no known broker answers: start again from bootstrap.servers, or not (KIP-899). Default:
    rebootstrap.
    """
    on_delivery: OnDelivery | None
    """on_delivery(error, metadata) is called for every record."""
    partitioner: Partitioner | None
    """Chooses partitions: partitioner(key, partitions, available); None leaves it to the producer."""
    partitioner_adaptive_partitioning_enable: bool
    """Whether a partition for which less waits gets more of the records without a key (KIP-794). Default:
    true.
    """
    partitioner_availability_timeout_ms: int
    """How long a broker may take nothing before those records avoid it; 0: it is never avoided. Default: 0.
    """
    partitioner_ignore_keys: bool
    """Whether records with a key are spread as those without one. Default: false."""
    request_timeout_ms: int
    """How long to wait for one answer. Default: 30000."""
    retry_backoff_max_ms: int
    """The longest pause before trying again. Default: 1000."""
    retry_backoff_ms: int
    """The first pause before trying again. Default: 100."""
    sasl_jaas_config: str | None
    """The login module with its options, as Java's clients have it."""
    sasl_kerberos_service_name: str | None
    """The service that brokers are to Kerberos."""
    sasl_login_callback_handler_class: Any | None
    """Where tokens come from: OAuthBearerLoginCallbackHandler asks a server or reads a file; without it
    they are made of the line of JAAS, and have no signature.
    """
    sasl_login_connect_timeout_ms: int | None
    """How long to wait for a connection to that server."""
    sasl_login_read_timeout_ms: int | None
    """How long to wait for its answer."""
    sasl_login_refresh_buffer_seconds: int
    """How long before its end it is replaced at the latest. Default: 300."""
    sasl_login_refresh_min_period_seconds: int
    """How long a token is kept at least. Default: 60."""
    sasl_login_refresh_window_factor: float
    """At which part of a token's life another is got. Default: 0.8."""
    sasl_login_refresh_window_jitter: float
    """How much later at most, at random. Default: 0.05."""
    sasl_login_retry_backoff_max_ms: int
    """For how long it is asked again. Default: 10000."""
    sasl_login_retry_backoff_ms: int
    """The first pause before that server is asked again. Default: 100."""
    sasl_mechanism: str
    """How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI. Default: GSSAPI."""
    sasl_oauthbearer_sub_claim_name: str
    """The claim that says whose a token is. Default: sub."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """The server, http or https, that gives tokens for clientId and clientSecret of the line of JAAS, or a
    file with one (file:).
    """
    security_protocol: str
    """How to talk to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL. Default: PLAINTEXT."""
    ssl_cipher_suites: str | Sequence[str] | None
    """The suites of TLS by Java's names."""
    ssl_enabled_protocols: str | Sequence[str]
    """The versions of TLS to speak. Default: TLSv1.2,TLSv1.3."""
    ssl_endpoint_identification_algorithm: str
    """https compares the broker's name with its certificate; empty does not. Default: https."""
    ssl_key_password: str | None
    """The password of the private key, where it has one."""
    ssl_keystore_certificate_chain: str | None
    """Its certificate as a text in PEM."""
    ssl_keystore_key: str | None
    """The private key as a text in PEM."""
    ssl_keystore_location: str | None
    """A private key with its certificate: PEM, PKCS12 or JKS."""
    ssl_keystore_password: str | None
    """The password of that file."""
    ssl_keystore_type: str
    """As ssl.truststore.type. Default: JKS."""
    ssl_truststore_certificates: str | None
    """The same as a text in PEM."""
    ssl_truststore_location: str | None
    """Certificates that are trusted: PEM, PKCS12 or JKS."""
    ssl_truststore_password: str | None
    """The password of that file."""
    ssl_truststore_type: str
    """PEM, PKCS12 or JKS; it is seen where it is not said. Default: JKS."""
    transaction_timeout_ms: int
    """How long a transaction may be open before the coordinator aborts it. Default: 60000."""
    transactional_id: str | None
    """A name under which a producer's transactions are known; a newer producer of the name fences it."""
    value_serializer: Serializer | None
    """Makes bytes of a record's value."""


class ConsumerOptions(TypedDict, total=False):
    """The options of `Consumer` and `AsyncConsumer`."""

    auto_commit_interval_ms: int
    """How often they are. Default: 5000."""
    auto_offset_reset: Literal["latest", "earliest", "none"]
    """Where to begin when there is no valid position. Default: latest."""
    bootstrap_servers: str | Sequence[str]
    """Brokers to ask first, host:port each."""
    check_crcs: bool
    """Whether each batch's checksum is verified. Default: true."""
    client_id: str
    """A name for this client in the broker's logs and quotas. Default: empty."""
    client_rack: str
    """Where this client is, for assignments and replicas near to it. Default: empty."""
    default_api_timeout_ms: int
    """How long a whole call may take. Default: 60000."""
    deserialization_errors: Literal["raise", "skip", "keep"]
    """What becomes of a record that does not parse: poll raises, it is left out with a line in the log, or
    the error stands in it. Default: raise.
    """
    enable_auto_commit: bool
    """Whether positions are committed now and then. Default: true."""
    enable_metrics_push: bool
    """Whether this client pushes its metrics to a broker that asks for them (KIP-714). Default: true."""
    fetch_max_bytes: int
    """Bytes in one fetch. Default: 52428800."""
    fetch_max_wait_ms: int
    """How long a broker may wait for them. Default: 500."""
    fetch_min_bytes: int
    """Bytes that make a fetch worth answering. Default: 1."""
    group_id: str | None
    """The group to read as a member of."""
    group_instance_id: str | None
    """A name that makes the member a static one."""
    group_protocol: Literal["classic", "consumer"]
    """Who divides the partitions: a member (classic), or the coordinator (consumer, KIP-848). Default:
    classic.
    """
    group_remote_assignor: str | None
    """How the coordinator is to divide partitions."""
    heartbeat_interval_ms: int
    """How often a member says that it lives. Default: 3000."""
    interceptors: Sequence[Any] | None
    """See and change what polls give, and see what is committed."""
    isolation_level: Literal["read_uncommitted", "read_committed"]
    """Whether records of open and aborted transactions are seen. Default: read_uncommitted."""
    key_deserializer: Deserializer | None
    """Makes an object of a record's key."""
    max_partition_fetch_bytes: int
    """Bytes of one partition. Default: 1048576."""
    max_poll_interval_ms: int
    """The longest time between two polls. Default: 300000."""
    max_poll_records: int
    """Records in one `poll`. Default: 500."""
    metadata_max_age_ms: int
    """How old metadata may become. Default: 300000."""
    metadata_recovery_rebootstrap_trigger_ms: int
    """How long no broker may answer before that. Default: 300000."""
    metadata_recovery_strategy: Literal["none", "rebootstrap"]
    """Where no known broker answers: start again from bootstrap.servers, or not (KIP-899). Default:
    rebootstrap.
    """
    partition_assignment_strategy: str | Sequence[str]
    """How a group may divide partitions, the preferred way first. Default: range,cooperative-sticky."""
    request_timeout_ms: int
    """How long to wait for one answer. Default: 30000."""
    retry_backoff_max_ms: int
    """The longest pause before trying again. Default: 1000."""
    retry_backoff_ms: int
    """The first pause before trying again. Default: 100."""
    sasl_jaas_config: str | None
    """The login module with its options, as Java's clients have it."""
    sasl_kerberos_service_name: str | None
    """The service that brokers are to Kerberos."""
    sasl_login_callback_handler_class: Any | None
    """Where tokens come from: OAuthBearerLoginCallbackHandler asks a server or reads a file; without it
    they are made of the line of JAAS, and have no signature.
    """
    sasl_login_connect_timeout_ms: int | None
    """How long to wait for a connection to that server."""
    sasl_login_read_timeout_ms: int | None
    """How long to wait for its answer."""
    sasl_login_refresh_buffer_seconds: int
    """How long before its end it is replaced at the latest. Default: 300."""
    sasl_login_refresh_min_period_seconds: int
    """How long a token is kept at least. Default: 60."""
    sasl_login_refresh_window_factor: float
    """At which part of a token's life another is got. Default: 0.8."""
    sasl_login_refresh_window_jitter: float
    """How much later at most, at random. Default: 0.05."""
    sasl_login_retry_backoff_max_ms: int
    """For how long it is asked again. Default: 10000."""
    sasl_login_retry_backoff_ms: int
    """The first pause before that server is asked again. Default: 100."""
    sasl_mechanism: str
    """How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI. Default: GSSAPI."""
    sasl_oauthbearer_sub_claim_name: str
    """The claim that says whose a token is. Default: sub."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """The server, http or https, that gives tokens for clientId and clientSecret of the line of JAAS, or a
    file with one (file:).
    """
    security_protocol: str
    """How to talk to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL. Default: PLAINTEXT."""
    session_timeout_ms: int
    """Silence after which a member is given up. Default: 45000."""
    ssl_cipher_suites: str | Sequence[str] | None
    """The suites of TLS by Java's names."""
    ssl_enabled_protocols: str | Sequence[str]
    """The versions of TLS to speak. Default: TLSv1.2,TLSv1.3."""
    ssl_endpoint_identification_algorithm: str
    """https compares the broker's name with its certificate; empty does not. Default: https."""
    ssl_key_password: str | None
    """The password of the private key, where it has one."""
    ssl_keystore_certificate_chain: str | None
    """Its certificate as a text in PEM."""
    ssl_keystore_key: str | None
    """The private key as a text in PEM."""
    ssl_keystore_location: str | None
    """A private key with its certificate: PEM, PKCS12 or JKS."""
    ssl_keystore_password: str | None
    """The password of that file."""
    ssl_keystore_type: str
    """As ssl.truststore.type. Default: JKS."""
    ssl_truststore_certificates: str | None
    """The same as a text in PEM."""
    ssl_truststore_location: str | None
    """Certificates that are trusted: PEM, PKCS12 or JKS."""
    ssl_truststore_password: str | None
    """The password of that file."""
    ssl_truststore_type: str
    """PEM, PKCS12 or JKS; it is seen where it is not said. Default: JKS."""
    value_deserializer: Deserializer | None
    """Makes an object of a record's value."""


class AdminOptions(TypedDict, total=False):
    """The options of `Admin` and `AsyncAdmin`."""

    bootstrap_servers: str | Sequence[str]
    """Brokers to ask first, host:port each."""
    client_id: str
    """A name for this client in the broker's logs and quotas. Default: empty."""
    default_api_timeout_ms: int
    """How long a whole call may take. Default: 60000."""
    enable_metrics_push: bool
    """Whether this client pushes its metrics to a broker that asks for them (KIP-714). Default: true."""
    metadata_max_age_ms: int
    """How old metadata may become. Default: 300000."""
    metadata_recovery_rebootstrap_trigger_ms: int
    """How long no broker may answer before that. Default: 300000."""
    metadata_recovery_strategy: Literal["none", "rebootstrap"]
    """Where no known broker answers: start again from bootstrap.servers, or not (KIP-899). Default:
    rebootstrap.
    """
    request_timeout_ms: int
    """How long to wait for one answer. Default: 30000."""
    retry_backoff_max_ms: int
    """The longest pause before trying again. Default: 1000."""
    retry_backoff_ms: int
    """The first pause before trying again. Default: 100."""
    sasl_jaas_config: str | None
    """The login module with its options, as Java's clients have it."""
    sasl_kerberos_service_name: str | None
    """The service that brokers are to Kerberos."""
    sasl_login_callback_handler_class: Any | None
    """Where tokens come from: OAuthBearerLoginCallbackHandler asks a server or reads a file; without it
    they are made of the line of JAAS, and have no signature.
    """
    sasl_login_connect_timeout_ms: int | None
    """How long to wait for a connection to that server."""
    sasl_login_read_timeout_ms: int | None
    """How long to wait for its answer."""
    sasl_login_refresh_buffer_seconds: int
    """How long before its end it is replaced at the latest. Default: 300."""
    sasl_login_refresh_min_period_seconds: int
    """How long a token is kept at least. Default: 60."""
    sasl_login_refresh_window_factor: float
    """At which part of a token's life another is got. Default: 0.8."""
    sasl_login_refresh_window_jitter: float
    """How much later at most, at random. Default: 0.05."""
    sasl_login_retry_backoff_max_ms: int
    """For how long it is asked again. Default: 10000."""
    sasl_login_retry_backoff_ms: int
    """The first pause before that server is asked again. Default: 100."""
    sasl_mechanism: str
    """How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI. Default: GSSAPI."""
    sasl_oauthbearer_sub_claim_name: str
    """The claim that says whose a token is. Default: sub."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """The server, http or https, that gives tokens for clientId and clientSecret of the line of JAAS, or a
    file with one (file:).
    """
    security_protocol: str
    """How to talk to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL. Default: PLAINTEXT."""
    ssl_cipher_suites: str | Sequence[str] | None
    """The suites of TLS by Java's names."""
    ssl_enabled_protocols: str | Sequence[str]
    """The versions of TLS to speak. Default: TLSv1.2,TLSv1.3."""
    ssl_endpoint_identification_algorithm: str
    """https compares the broker's name with its certificate; empty does not. Default: https."""
    ssl_key_password: str | None
    """The password of the private key, where it has one."""
    ssl_keystore_certificate_chain: str | None
    """Its certificate as a text in PEM."""
    ssl_keystore_key: str | None
    """The private key as a text in PEM."""
    ssl_keystore_location: str | None
    """A private key with its certificate: PEM, PKCS12 or JKS."""
    ssl_keystore_password: str | None
    """The password of that file."""
    ssl_keystore_type: str
    """As ssl.truststore.type. Default: JKS."""
    ssl_truststore_certificates: str | None
    """The same as a text in PEM."""
    ssl_truststore_location: str | None
    """Certificates that are trusted: PEM, PKCS12 or JKS."""
    ssl_truststore_password: str | None
    """The password of that file."""
    ssl_truststore_type: str
    """PEM, PKCS12 or JKS; it is seen where it is not said. Default: JKS."""
