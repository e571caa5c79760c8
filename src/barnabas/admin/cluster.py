"""``admin.cluster``: brokers, controller and cluster id, and what each broker serves."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from barnabas import __version__
from barnabas.admin.context import AdminContext, error_of
from barnabas.admin.quorum_types import QuorumInfo, QuorumReplica
from barnabas.admin.types import ApiVersions, ClusterDescription, Endpoint
from barnabas.client import named
from barnabas.client.metadata import Broker
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    ReplicaState,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

_SOFTWARE: Final = "barnabas"
_CONTROLLERS: Final = 2
"""The endpoint type of KRaft's controllers; brokers have 1."""
_METADATA_TOPIC: Final = "__cluster_metadata"


class ClusterInfo:
    """The cluster itself."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def describe(self, *, timeout_ms: float | None = None) -> ClusterDescription:
        """Brokers in order of their ids, the controller and the cluster's id, fresh from one broker."""
        response = await self._context.metadata([], self._context.deadline(timeout_ms))
        brokers = dict(sorted(self._context.cluster.metadata.brokers.items()))
        return ClusterDescription(
            cluster_id=response.cluster_id or "",
            controller=brokers.get(response.controller_id),
            brokers=list(brokers.values()),
        )

    async def endpoints(self, *, fenced: bool = False, timeout_ms: float | None = None) -> Sequence[Endpoint]:
        """What nodes of this kind the cluster has, in order of their ids; fenced ones only when asked for.

        Raises UnsupportedVersionError where the cluster does not know fenced brokers, KafkaError.
        """
        response = await self._context.cluster.send_to_any(
            DescribeClusterRequest(include_fenced_brokers=fenced),
            DescribeClusterResponse,
            self._context.deadline(timeout_ms),
        )
        error = error_of(response.error_code, response.error_message)
        if error is not None:
            raise error
        return [
            Endpoint(
                Broker(one.broker_id, one.host, one.port, one.rack),
                one.is_fenced,
                response.endpoint_type == _CONTROLLERS,
            )
            for one in sorted(response.brokers, key=lambda one: one.broker_id)
        ]

    async def describe_quorum(self, *, timeout_ms: float | None = None) -> QuorumInfo:
        """KRaft's quorum (``describeMetadataQuorum``). Raises UnsupportedVersionError where the metadata is
        in ZooKeeper or in a store of ours, KafkaError.
        """
        asked = DescribeQuorumRequestTopicData(
            topic_name=_METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
        )
        response = await self._context.cluster.send_to_any(
            DescribeQuorumRequest(topics=[asked]),
            DescribeQuorumResponse,
            self._context.deadline(timeout_ms),
        )
        if error := error_of(response.error_code, response.error_message):
            raise error
        found = [one for topic in response.topics for one in topic.partitions]
        if len(found) != 1:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer is about another quorum")
        quorum = found[0]
        if error := error_of(quorum.error_code, quorum.error_message):
            raise error
        return QuorumInfo(
            quorum.leader_id,
            quorum.leader_epoch,
            quorum.high_watermark,
            [_quorum_replica(one) for one in quorum.current_voters],
            [_quorum_replica(one) for one in quorum.observers],
        )

    async def try_api_versions(
        self, brokers: Iterable[int], *, timeout_ms: float | None = None
    ) -> dict[int, ApiVersions | BarnabasError]:
        """The lowest and the highest version of each API, by key, that each broker serves;
        an error per broker.
        """
        wanted = named.numbers(brokers, "brokers")
        deadline = self._context.deadline(timeout_ms)
        answers = await asyncio.gather(*(self._api_versions(broker, deadline.left_s) for broker in wanted))
        return dict(zip(wanted, answers, strict=True))

    async def _api_versions(self, broker: int, timeout_s: float) -> ApiVersions | BarnabasError:
        request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=__version__)
        try:
            response = await self._context.cluster.send(
                broker, request, ApiVersionsResponse, timeout_ms=timeout_s * 1000
            )
        except BarnabasError as error:
            return error
        return error_of(response.error_code) or {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }

    async def unregister_broker(self, broker: int, *, timeout_ms: float | None = None) -> None:
        """Takes a broker that no longer runs out of a KRaft cluster (KIP-500).

        Raises `network.errors.UnsupportedVersionError` where the cluster is one with ZooKeeper, KafkaError
        otherwise.
        """
        response = await self._context.cluster.send_to_any(
            UnregisterBrokerRequest(broker_id=broker),
            UnregisterBrokerResponse,
            self._context.deadline(timeout_ms),
        )
        error = error_of(response.error_code, response.error_message)
        if error is not None:
            raise error


def _quorum_replica(one: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        one.replica_id, one.log_end_offset, one.last_fetch_timestamp, one.last_caught_up_timestamp
    )
