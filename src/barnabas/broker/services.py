"""The broker's parts as handlers see them: ports, and the one object that holds them (``KafkaApis``' fields).

Everything here is handed in by `barnabas.node`; a handler constructs nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.broker.authorizer import AclAdmin, AllowAll, Authorizer, NoAcls
from barnabas.broker.auto_topics import AutoTopics
from barnabas.broker.client_metrics.manager import ClientMetricsManager
from barnabas.broker.described_topics import DescribedTopics
from barnabas.broker.producer_ids import ProducerIdManager
from barnabas.broker.registry import ApiTable
from barnabas.broker.topic_changes import TopicChanges
from barnabas.broker.topics import Topics
from barnabas.cluster.controller.election_events import ElectionResult
from barnabas.cluster.controller.feature_updates import FeatureUpdateItem
from barnabas.cluster.controller.producer_ids import ProducerIdBlock
from barnabas.cluster.controller.reassignment import Target
from barnabas.cluster.leadership import IsrProposal, IsrVerdict, ReplicaAssignment
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.client_quota_admin import ClientQuotaAdmin
from barnabas.cluster.metadata.config_admin import Change
from barnabas.cluster.metadata.delegation_tokens import DelegationTokenManager
from barnabas.cluster.metadata.features import FeatureLevels
from barnabas.cluster.metadata.scram_admin import ScramAdmin
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.election_type import ElectionType
from barnabas.replica.fetch_session import FetchSessionCache
from barnabas.replica.manager import ReplicaManager
from barnabas.security.quota_managers import QuotaManagers


class ControllerPort(Protocol):
    """The controller in this process (``KafkaController``); it refuses with NOT_CONTROLLER unless active."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller now."""

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        """Whether the controller has yet to delete a topic."""

    def alter_partition(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> Pending[list[IsrVerdict]]:
        """Decides on ISR changes that a leader proposes; the verdict on each."""

    def elect_leaders(
        self, partitions: Iterable[TopicPartition], kind: ElectionType
    ) -> Pending[dict[TopicPartition, ElectionResult]]:
        """Elects leaders for partitions; what became of each."""

    def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Target], *, allow_replication_factor_change: bool = True
    ) -> Pending[dict[TopicPartition, KafkaError | None]]:
        """Begins and ends moves of partitions; the error of each. A move may be held to as many replicas as
        there are (KIP-860).
        """

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Pending[dict[TopicPartition, ReplicaAssignment]]:
        """Of these partitions or of all, the ones on the move."""

    def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> Pending[list[TopicPartition]]:
        """Moves leaderships away from a broker that is about to stop; what it still leads."""

    def update_features(self, updates: Sequence[FeatureUpdateItem], *, validate_only: bool) -> Pending[int]:
        """Sets the levels of features, or only checks whether they could be; their epoch."""

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Pending[ProducerIdBlock]:
        """Gives a broker its next block of producer ids."""


class TopicConfigs(Protocol):
    """The values that were set on topics (`cluster.metadata.configs.ConfigStore`)."""

    def topic(self, topic: str) -> Mapping[str, str]:
        """A topic's own values by key, as far as they were read."""

    def ensure(self, topics: Iterable[str]) -> Pending[None]:
        """Reads the values of topics that were not read before."""

    def forget(self, topics: Iterable[str]) -> None:
        """These topics are deleted: one of the same name is another topic."""

    @property
    def client_metrics(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of all subscriptions of client metrics, by name."""

    @property
    def groups(self) -> Mapping[str, Mapping[str, str]]:
        """The own settings of all groups that have some, by name."""

    @property
    def client_metrics_version(self) -> int:
        """Grows whenever one of them was changed."""


class ConfigAdminPort(Protocol):
    """Changes configurations (`cluster.metadata.config_admin.ConfigAdmin`)."""

    def alter_topic(self, topic: str, change: Change, *, validate_only: bool) -> Pending[None]:
        """Changes the settings of a topic; fails with KafkaError and Kafka's words."""

    def alter_broker(self, name: str, change: Change, *, validate_only: bool) -> Pending[None]:
        """Changes the settings of this broker, or of all with an empty name; fails with KafkaError."""

    def alter_client_metrics(self, name: str, change: Change, *, validate_only: bool) -> Pending[None]:
        """Changes a subscription of client metrics; fails with KafkaError."""

    def alter_group(self, name: str, change: Change, *, validate_only: bool) -> Pending[None]:
        """Changes the own settings of a group; fails with KafkaError."""


@dataclass(slots=True)
class BrokerServices:
    """All that handlers reach. Only `config` changes while the broker runs, and what a profile has."""

    broker_id: int
    cluster_id: str
    config: Config
    clock: Clock
    replica_manager: ReplicaManager
    metadata_cache: MetadataCache
    fetch_sessions: FetchSessionCache
    topics: Topics
    controller: ControllerPort
    producer_ids: ProducerIdManager
    topic_configs: TopicConfigs
    config_admin: ConfigAdminPort
    broker_epoch: Callable[[], int]
    """The epoch of this broker's registration; requests to an older one are refused."""
    api_table: ApiTable
    topic_changes: TopicChanges
    auto_topics: AutoTopics
    group_coordinator: GroupCoordinator
    transaction_coordinator: TransactionCoordinator
    scram_credentials: ScramAdmin
    client_quotas: ClientQuotaAdmin
    delegation_tokens: DelegationTokenManager
    authorizer: Authorizer = field(default_factory=AllowAll)
    acls: AclAdmin = field(default_factory=NoAcls)
    client_metrics: ClientMetricsManager | None = None
    """Takes what clients push; None where that is not advertised."""
    quotas: QuotaManagers = field(default_factory=lambda: QuotaManagers(lambda: 0.0))
    described_topics: DescribedTopics = field(default_factory=DescribedTopics)
    features: FeatureLevels = field(default_factory=FeatureLevels)
    """Which level of each feature is on."""
