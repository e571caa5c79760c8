"""`Admin`, and `AsyncAdmin`, its asynchronous twin: verbs by noun.

::

    with Admin("127.0.0.1:9092") as admin:
        admin.topics.create(NewTopic("orders", partitions=3))
        offsets = admin.offsets.list({TopicPartition("orders", 0): LATEST_TIMESTAMP})
"""

from typing import Any, Self, Unpack

from barnabas.admin.acls import Acls
from barnabas.admin.cluster import ClusterInfo
from barnabas.admin.configs import Configs
from barnabas.admin.context import AdminContext
from barnabas.admin.coordinators import Coordinators
from barnabas.admin.delegation_tokens import DelegationTokens
from barnabas.admin.features import Features
from barnabas.admin.groups import Groups
from barnabas.admin.log_dirs import LogDirs
from barnabas.admin.offsets import Offsets
from barnabas.admin.partitions import Partitions
from barnabas.admin.quotas import Quotas
from barnabas.admin.topics import Topics
from barnabas.admin.transactions import Transactions
from barnabas.client.cluster import Cluster
from barnabas.client.config import ADMIN_CONFIG, Given, client_config, given_options
from barnabas.client.habits import OF_ADMINS
from barnabas.client.options import AdminOptions
from barnabas.client.sync import ClientFace, Face, made_in_thread, mirrored
from barnabas.core.config import Config, Source
from barnabas.core.errors import ConfigError
from barnabas.core.instead import knows

_IN_FLIGHT_MAX = 1


@knows(OF_ADMINS)
class AsyncAdmin:
    """Manages a cluster. Options are the keys of Kafka's admin client with underscores.

    Use it as an async context manager. Raises ConfigError for a bad option.
    """

    def __init__(self, bootstrap_servers: Given | None = None, /, **options: Unpack[AdminOptions]) -> None:
        config = _admin_config(given_options("admin", bootstrap_servers, options))
        self._cluster = Cluster(config, in_flight_max=_IN_FLIGHT_MAX)
        self._context = AdminContext(config, self._cluster)
        self.topics = Topics(self._context)
        self.partitions = Partitions(self._context)
        self.log_dirs = LogDirs(self._context)
        self.offsets = Offsets(self._context)
        self.configs = Configs(self._context)
        self.groups = Groups(self._context)
        self.coordinators = Coordinators(self._context)
        self.transactions = Transactions(self._context)
        self.features = Features(self._context)
        self.quotas = Quotas(self._context)
        self.acls = Acls(self._context)
        self.delegation_tokens = DelegationTokens(self._context)
        self.cluster = ClusterInfo(self._context)

    async def start(self, *, timeout_ms: float | None = None) -> Self:
        """Connects; raises `ClientTimeoutError` when no broker answers."""
        await self._cluster.connect(self._context.deadline(timeout_ms))
        return self

    def silent_brokers(self, longer_than_ms: float) -> list[str]:
        """Whom a call that goes on waits for: brokers that have owed an answer for longer than this."""
        return self._cluster.silent_brokers(longer_than_ms)

    async def close(self) -> None:
        """Closes the connections; harmless when repeated."""
        await self._cluster.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncAdmin {self._cluster.bootstrap}>"


def _admin_config(options: dict[str, Any]) -> Config:
    """A request must fit into a call: ``default.api.timeout.ms`` below ``request.timeout.ms`` is refused when
    it was asked for, raised when it was not (``KafkaAdminClient.configureDefaultApiTimeoutMs``).
    """
    config = client_config(ADMIN_CONFIG, options)
    whole, one = config["default.api.timeout.ms"], config["request.timeout.ms"]
    if whole >= one:
        return config
    if config.source("default.api.timeout.ms") is not Source.DEFAULT:
        raise ConfigError(
            f"The specified value of default.api.timeout.ms must be no smaller than the value of"
            f" request.timeout.ms ({whole} < {one})"
        )
    return config.with_values({"default.api.timeout.ms": one}, Source.DEFAULT)


class _SyncTopics(Face[Topics]):
    create = mirrored(Topics.create)
    try_create = mirrored(Topics.try_create)
    list = mirrored(Topics.list)
    describe = mirrored(Topics.describe)
    try_describe = mirrored(Topics.try_describe)
    describe_all = mirrored(Topics.describe_all)
    views = mirrored(Topics.views)
    create_partitions = mirrored(Topics.create_partitions)
    try_create_partitions = mirrored(Topics.try_create_partitions)
    delete = mirrored(Topics.delete)
    try_delete = mirrored(Topics.try_delete)


class _SyncPartitions(Face[Partitions]):
    elect_leaders = mirrored(Partitions.elect_leaders)
    try_elect_leaders = mirrored(Partitions.try_elect_leaders)
    reassign = mirrored(Partitions.reassign)
    try_reassign = mirrored(Partitions.try_reassign)
    reassignments = mirrored(Partitions.reassignments)
    delete_records = mirrored(Partitions.delete_records)
    try_delete_records = mirrored(Partitions.try_delete_records)


class _SyncLogDirs(Face[LogDirs]):
    describe = mirrored(LogDirs.describe)
    try_describe = mirrored(LogDirs.try_describe)
    alter_replicas = mirrored(LogDirs.alter_replicas)
    try_alter_replicas = mirrored(LogDirs.try_alter_replicas)
    describe_replicas = mirrored(LogDirs.describe_replicas)
    try_describe_replicas = mirrored(LogDirs.try_describe_replicas)


class _SyncOffsets(Face[Offsets]):
    list = mirrored(Offsets.list)
    try_list = mirrored(Offsets.try_list)


class _SyncConfigs(Face[Configs]):
    describe = mirrored(Configs.describe)
    try_describe = mirrored(Configs.try_describe)
    alter = mirrored(Configs.alter)
    try_alter = mirrored(Configs.try_alter)
    list_resources = mirrored(Configs.list_resources)


class _SyncGroups(Face[Groups]):
    list = mirrored(Groups.list)
    try_list = mirrored(Groups.try_list)
    describe = mirrored(Groups.describe)
    try_describe = mirrored(Groups.try_describe)
    delete = mirrored(Groups.delete)
    try_delete = mirrored(Groups.try_delete)
    remove_members = mirrored(Groups.remove_members)
    try_remove_members = mirrored(Groups.try_remove_members)
    offsets = mirrored(Groups.offsets)
    try_offsets = mirrored(Groups.try_offsets)
    alter_offsets = mirrored(Groups.alter_offsets)
    try_alter_offsets = mirrored(Groups.try_alter_offsets)
    delete_offsets = mirrored(Groups.delete_offsets)
    try_delete_offsets = mirrored(Groups.try_delete_offsets)


class _SyncCoordinators(Face[Coordinators]):
    find = mirrored(Coordinators.find)


class _SyncTransactions(Face[Transactions]):
    list = mirrored(Transactions.list)
    describe = mirrored(Transactions.describe)
    try_describe = mirrored(Transactions.try_describe)
    abort = mirrored(Transactions.abort)
    fence = mirrored(Transactions.fence)
    try_fence = mirrored(Transactions.try_fence)
    describe_producers = mirrored(Transactions.describe_producers)
    try_describe_producers = mirrored(Transactions.try_describe_producers)


class _SyncQuotas(Face[Quotas]):
    describe = mirrored(Quotas.describe)
    alter = mirrored(Quotas.alter)
    try_alter = mirrored(Quotas.try_alter)
    alter_scram_credentials = mirrored(Quotas.alter_scram_credentials)
    try_alter_scram_credentials = mirrored(Quotas.try_alter_scram_credentials)
    scram_credentials = mirrored(Quotas.scram_credentials)


class _SyncAcls(Face[Acls]):
    describe = mirrored(Acls.describe)
    create = mirrored(Acls.create)
    try_create = mirrored(Acls.try_create)
    delete = mirrored(Acls.delete)


class _SyncDelegationTokens(Face[DelegationTokens]):
    create = mirrored(DelegationTokens.create)
    renew = mirrored(DelegationTokens.renew)
    expire = mirrored(DelegationTokens.expire)
    describe = mirrored(DelegationTokens.describe)


class _SyncFeatures(Face[Features]):
    describe = mirrored(Features.describe)
    update = mirrored(Features.update)
    try_update = mirrored(Features.try_update)


class _SyncClusterInfo(Face[ClusterInfo]):
    describe = mirrored(ClusterInfo.describe)
    endpoints = mirrored(ClusterInfo.endpoints)
    describe_quorum = mirrored(ClusterInfo.describe_quorum)
    try_api_versions = mirrored(ClusterInfo.try_api_versions)
    unregister_broker = mirrored(ClusterInfo.unregister_broker)


@knows(OF_ADMINS)
class Admin(ClientFace[AsyncAdmin]):
    """`AsyncAdmin` without ``await``."""

    def __init__(self, bootstrap_servers: Given | None = None, /, **options: Unpack[AdminOptions]) -> None:
        admin, thread = made_in_thread(lambda: AsyncAdmin(bootstrap_servers, **options), "barnabas-admin")
        super().__init__(admin, thread)
        self.topics = _SyncTopics(admin.topics, thread)
        self.partitions = _SyncPartitions(admin.partitions, thread)
        self.log_dirs = _SyncLogDirs(admin.log_dirs, thread)
        self.offsets = _SyncOffsets(admin.offsets, thread)
        self.configs = _SyncConfigs(admin.configs, thread)
        self.groups = _SyncGroups(admin.groups, thread)
        self.coordinators = _SyncCoordinators(admin.coordinators, thread)
        self.transactions = _SyncTransactions(admin.transactions, thread)
        self.features = _SyncFeatures(admin.features, thread)
        self.quotas = _SyncQuotas(admin.quotas, thread)
        self.acls = _SyncAcls(admin.acls, thread)
        self.delegation_tokens = _SyncDelegationTokens(admin.delegation_tokens, thread)
        self.cluster = _SyncClusterInfo(admin.cluster, thread)


BlockingAdmin = Admin
"""The name of `Admin` until the blocking face got the short name, as `Producer` and `Consumer` have it."""
