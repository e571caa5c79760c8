"""The broker's parts as handlers see them: ports, and the one object that holds them (``KafkaApis``' fields).

Everything here is handed in by `barnabas.node`; a handler constructs nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.authorizer import AllowAll, Authorizer
from barnabas.broker.auto_topics import AutoTopics
from barnabas.broker.registry import ApiTable
from barnabas.broker.topic_changes import TopicChanges
from barnabas.broker.topics import Topics
from barnabas.cluster.metadata_cache import MetadataCache
from barnabas.cluster.producer_ids import ProducerIdBlock
from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.message import Response
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.replica.fetch_session import FetchManager
from barnabas.replica.manager import ReplicaManager

if TYPE_CHECKING:
    from barnabas.broker.context import RequestContext


class Quotas(Protocol):
    """Decides how long a client must wait after a response (``QuotaFactory``)."""

    def throttle_ms(self, context: "RequestContext", response: Response | None) -> int:
        """Milliseconds for which the client's connection is muted; 0 within its quota."""


class NoQuotas:
    """Everyone may ask as much as he likes."""

    __slots__ = ()

    def throttle_ms(self, context: "RequestContext", response: Response | None) -> int:
        """Never a wait."""
        del context, response
        return 0


class ProducerIds(Protocol):
    """Hands out ids for idempotent producers (``ProducerIdManager``)."""

    def generate(self) -> Pending[int]:
        """A producer id that nobody else got; fails with KafkaError while none can be had."""


class ControllerPort(Protocol):
    """The controller in this process (``KafkaController``); it refuses with NOT_CONTROLLER unless active."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller now."""

    def alter_partition(
        self, request: AlterPartitionRequest, version: int
    ) -> Pending[AlterPartitionResponse]:
        """Decides on ISR changes that a leader proposes."""

    def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> Pending[list[TopicPartition]]:
        """Moves leaderships away from a broker that is about to stop; those that are left."""

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Pending[ProducerIdBlock]:
        """Gives a broker its next block of producer ids."""


@dataclass(slots=True)
class BrokerServices:
    """All that handlers reach. Changes only while the broker starts."""

    broker_id: int
    cluster_id: str
    config: Config
    clock: Clock
    replica_manager: ReplicaManager
    metadata_cache: MetadataCache
    fetch_manager: FetchManager
    topics: Topics
    controller: ControllerPort
    producer_ids: ProducerIds
    topic_config: Callable[[str], Mapping[str, str]]
    """The values that were set on a topic, by key; empty where none were."""
    broker_epoch: Callable[[], int]
    """The epoch of this broker's registration; requests to an older one are refused."""
    api_table: ApiTable
    topic_changes: TopicChanges
    auto_topics: AutoTopics
    authorizer: Authorizer = field(default_factory=AllowAll)
    quotas: Quotas = field(default_factory=NoQuotas)
