"""Requests of every API that asks for rights, sent as somebody who has none and is then given what was
denied, one right after the other: what a broker answers and what its audit says, step by step.

The client comes from 127.0.0.2. Rules for that address leave the brokers' own requests alone, which come from
127.0.0.1.
"""

import re
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.admin import Admin
from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    Permission,
    Resource,
    ResourcePattern,
    of_name,
)
from barnabas.core.chunks import materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.message import Request
from barnabas.protocol.messages import alter_configs, incremental_alter_configs
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

CLIENT = "127.0.0.2"
ROUNDS_MAX = 8
WORDS = re.compile(r"(?<=error_message=)(Request Request.* is not authorized\.|None)$", re.DOTALL)
"""Where Kafka prints the request as the message, and we say nothing beyond the code."""
WHO = f"User:ANONYMOUS is Denied Operation = (\\w+) from host = {re.escape(CLIENT)} on resource = "
DENIAL = re.compile(
    f"Principal = ({WHO}(\\w+):(\\w+):(\\S+) for request = (\\w+) .*?resourceRefCount = \\d+)"
)
EVERY = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}


def requests(batch: bytes) -> list[tuple[str, Request, int]]:
    """A name, the request and its version; `batch` is one that a producer may send."""
    fetch = FetchTopic(
        topic="orders", partitions=[FetchPartition(partition=p, partition_max_bytes=9) for p in (0, 1)]
    )
    epochs = OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition(partition=0)])
    producing = TopicProduceData(
        name="orders", partition_data=[PartitionProduceData(index=p, records=batch) for p in (0, 1)]
    )
    ids = {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0}
    member = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    return [
        ("produce", ProduceRequest(acks=1, timeout_ms=1000, topic_data=[producing]), 9),
        (
            "produce in a transaction",
            ProduceRequest(transactional_id="t", acks=-1, timeout_ms=1000, topic_data=[producing]),
            9,
        ),
        ("fetch", FetchRequest(max_wait_ms=0, min_bytes=0, topics=[fetch]), 12),
        ("fetch of a follower", FetchRequest(replica_id=0, max_wait_ms=0, min_bytes=0, topics=[fetch]), 12),
        (
            "list offsets",
            ListOffsetsRequest(
                topics=[ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=-1)])]
            ),
            7,
        ),
        (
            "metadata",
            MetadataRequest(
                topics=[MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="absent")]
            ),
            9,
        ),
        ("metadata of all", MetadataRequest(topics=None), 9),
        (
            "metadata that creates",
            MetadataRequest(topics=[MetadataRequestTopic(name="made")], allow_auto_topic_creation=True),
            9,
        ),
        (
            "offset commit",
            OffsetCommitRequest(
                group_id="g",
                topics=[OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition()])],
            ),
            8,
        ),
        (
            "offset fetch",
            OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(
                        group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
                    )
                ]
            ),
            8,
        ),
        (
            "offset fetch of all",
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]),
            8,
        ),
        ("find group", FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4),
        ("find transaction", FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 4),
        ("join", JoinGroupRequest(group_id="g", session_timeout_ms=6000, protocol_type="consumer"), 9),
        ("sync", SyncGroupRequest(**member), 5),
        ("heartbeat", HeartbeatRequest(**member), 4),
        ("leave", LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 5),
        ("describe groups", DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True), 5),
        ("list groups", ListGroupsRequest(), 4),
        ("delete groups", DeleteGroupsRequest(groups_names=["g"]), 2),
        (
            "delete offsets",
            OffsetDeleteRequest(
                group_id="g",
                topics=[OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition()])],
            ),
            0,
        ),
        (
            "create topics",
            CreateTopicsRequest(
                timeout_ms=3000, topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
            ),
            7,
        ),
        ("delete topics", DeleteTopicsRequest(timeout_ms=3000, topics=[DeleteTopicState(name="absent")]), 6),
        (
            "delete records",
            DeleteRecordsRequest(
                timeout_ms=3000,
                topics=[DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition()])],
            ),
            2,
        ),
        (
            "create partitions",
            CreatePartitionsRequest(
                timeout_ms=3000,
                validate_only=True,
                topics=[CreatePartitionsTopic(name="orders", count=3, assignments=None)],
            ),
            3,
        ),
        ("init producer id", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4),
        (
            "init transactional id",
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000),
            4,
        ),
        ("leader epochs", OffsetForLeaderEpochRequest(replica_id=-1, topics=[epochs]), 4),
        ("leader epochs of a follower", OffsetForLeaderEpochRequest(replica_id=5, topics=[epochs]), 4),
        (
            "add partitions",
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="t",
                v3_and_below_producer_id=7,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])],
            ),
            3,
        ),
        ("add offsets", AddOffsetsToTxnRequest(**ids, group_id="g"), 3),
        ("end transaction", EndTxnRequest(**ids), 3),
        (
            "transaction's offsets",
            TxnOffsetCommitRequest(
                **ids,
                group_id="g",
                topics=[
                    TxnOffsetCommitRequestTopic(name="orders", partitions=[TxnOffsetCommitRequestPartition()])
                ],
            ),
            3,
        ),
        (
            "markers",
            WriteTxnMarkersRequest(
                markers=[
                    WritableTxnMarker(
                        producer_id=7, topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0])]
                    )
                ]
            ),
            1,
        ),
        ("describe rules", DescribeAclsRequest(**EVERY), 3),
        ("create rules", CreateAclsRequest(), 3),
        ("delete rules", DeleteAclsRequest(), 3),
        (
            "describe configs",
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[])
                    for kind, name in ((2, "orders"), (4, "0"))
                ]
            ),
            4,
        ),
        (
            "alter configs",
            alter_configs.AlterConfigsRequest(
                validate_only=True,
                resources=[
                    alter_configs.AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configs=[alter_configs.AlterableConfig(name="retention.ms", value="1")]
                        if kind == 2
                        else [],
                    )
                    for kind, name in ((2, "orders"), (4, "0"))
                ],
            ),
            2,
        ),
        (
            "incremental alter configs",
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                validate_only=True,
                resources=[
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configs=[incremental_alter_configs.AlterableConfig(name="retention.ms", value="1")]
                        if kind == 2
                        else [],
                    )
                    for kind, name in ((2, "orders"), (4, "0"))
                ],
            ),
            1,
        ),
        ("alter log dirs", AlterReplicaLogDirsRequest(), 2),
        ("describe log dirs", DescribeLogDirsRequest(topics=[]), 4),
        ("elect leaders", ElectLeadersRequest(topic_partitions=[], timeout_ms=1000), 2),
        (
            "reassign",
            AlterPartitionReassignmentsRequest(
                timeout_ms=1000,
                topics=[ReassignableTopic(name="absent", partitions=[ReassignablePartition(replicas=[0])])],
            ),
            0,
        ),
        ("list reassignments", ListPartitionReassignmentsRequest(timeout_ms=1000, topics=[]), 0),
        ("update features", UpdateFeaturesRequest(timeout_ms=1000), 1),
        (
            "alter client quotas",
            AlterClientQuotasRequest(
                entries=[
                    AlterClientQuotasRequestEntryData(
                        entity=[EntityData(entity_type="client-id", entity_name="denied")],
                        ops=[OpData(key="producer_byte_rate", value=1e9, remove=False)],
                    )
                ]
            ),
            1,
        ),
        ("describe client quotas", DescribeClientQuotasRequest(), 1),
        ("describe cluster", DescribeClusterRequest(include_cluster_authorized_operations=True), 1),
        (
            "describe producers",
            DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0])]),
            0,
        ),
        ("describe transactions", DescribeTransactionsRequest(transactional_ids=["t"]), 0),
        ("list transactions", ListTransactionsRequest(), 0),
    ]


class Step(NamedTuple):
    """One answer."""

    codes: list[str]
    denials: list[str]


class DeniedClient:
    """Asks one broker from the address that has no rights."""

    def __init__(self, bootstrap: str, audit: Callable[[], str]) -> None:
        self._bootstrap = bootstrap
        self._audit = audit
        self._seen = len(audit())

    def walk(self, request: Request, version: int) -> list[Step]:
        """The answers, from no rights at all to the first without a denial."""
        steps: list[Step] = []
        with Admin(self._bootstrap) as admin:
            try:
                for _ in range(ROUNDS_MAX):
                    step, missing = self._ask(request, version)
                    steps.append(step)
                    if not missing:
                        return steps
                    # The first that is denied is what is asked for first.
                    admin.acls.create([missing[0]])
                return steps
            finally:
                admin.acls.delete([AclFilter(host=CLIENT)])

    def is_allowed(self) -> bool:
        """Whether it may describe the cluster's log directories."""
        return not self._ask(DescribeLogDirsRequest(topics=[]), 4)[1]

    def _ask(self, request: Request, version: int) -> tuple[Step, list[AclBinding]]:
        host, _, port = self._bootstrap.rpartition(":")
        codes = ["closed"]
        with socket.create_connection((host, int(port)), 10, source_address=(CLIENT, 0)) as connection:
            assert request.api is not None
            connection.sendall(
                materialize(encode_request(RequestHeader(request.api, version, 1, "denied"), request))
            )
            size = _read(connection, 4)
            if size is not None:
                frame = _read(connection, int.from_bytes(size, "big"))
                _, response = decode_response(ApiKey(request.api), version, frame)
                codes = list(_codes(response, ""))
        denials = self._new_denials()
        # Kafka asks for the topics of a request in the order of a hash.
        denials.sort()
        shown = [WORDS.sub("", code) for code in codes]
        return Step(shown, [one[0] for one in denials]), [_binding(one) for one in denials]

    def _new_denials(self) -> list[tuple[str, ...]]:
        # Lines are written before the answer leaves; the file of the log may be a moment behind.
        time.sleep(0.15)
        text = self._audit()
        new, self._seen = text[self._seen :], len(text)
        return DENIAL.findall(new)


def _binding(denial: tuple[str, ...]) -> AclBinding:
    _, operation, resource, _, name, _ = denial
    return AclBinding(
        ResourcePattern(of_name(Resource, resource), "orders" if name == "NONE" else name),
        AccessControlEntry("User:ANONYMOUS", CLIENT, of_name(Operation, operation), Permission.ALLOW),
    )


def _codes(value: Any, path: str) -> Any:
    """All codes and sets of operations of an answer, with where they are."""
    if isinstance(value, list):
        for at, each in enumerate(value):
            yield from _codes(each, f"{path}[{at}]")
    elif hasattr(value, "__slots__") and not isinstance(value, (str, bytes, int)):
        for name in sorted({slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())}):
            if name.endswith(("error_code", "operations", "error_message")):
                yield f"{path}.{name}={getattr(value, name)}"
            elif not name.startswith("_"):
                yield from _codes(getattr(value, name, None), f"{path}.{name}")


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return data
