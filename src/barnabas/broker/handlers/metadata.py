"""Metadata (3), v0-12.

Behaviour: brokers, controller and topics as the controller told this broker last, with endpoints of the
listener that the request came in on. Topics that do not exist are created if both sides want it.
Versions:  v0 an empty list asks for all topics, later null does · v4 the client may forbid creation ·
           v5 offline replicas · v6 LISTENER_NOT_FOUND · v7 leader epochs · v8 authorized operations (KIP-430) ·
           v9 flexible · v10 topic ids in answers · v11 no operations on the cluster · v12 topic ids in requests.
Not implemented: nothing.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.broker.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.cluster.metadata_cache import PartitionAnswer, Snapshot
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import INTERNAL_TOPICS, ZERO_UUID, Uuid, validate_topic_name
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

LISTENER_ERRORS_SINCE: Final = 6
OPERATIONS_SINCE: Final = 8
CLUSTER_OPERATIONS_UNTIL: Final = 10
TOPIC_IDS_SINCE: Final = 12


def _failed(request: MetadataRequest, error: KafkaError, _version: int) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=error.code)
            for topic in request.topics or ()
        ]
    )


@handles(ApiKey.METADATA, versions=(0, 12), failed=_failed)
def metadata(
    context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Pending[MetadataResponse]:
    """Describes topics and brokers."""
    wanted = _Wanted(context, request)
    if not wanted.to_create:
        return wanted.respond({})
    created = context.broker.auto_topics.create(wanted.to_create)
    return created.then(wanted.respond)


class _Wanted:
    """What a request asks for, sorted by what may be told."""

    __slots__ = ("_context", "_existing", "_hidden", "_missing", "_request", "_snapshot", "to_create")

    def __init__(self, context: RequestContext, request: MetadataRequest) -> None:
        self._context = context
        self._request = request
        self._snapshot = context.broker.metadata_cache.snapshot
        self._hidden: list[MetadataResponseTopic] = []
        self._existing: list[str] = []
        self._missing: list[str] = []
        self.to_create: list[str] = []
        self._sort()

    @property
    def _all_topics(self) -> bool:
        topics = self._request.topics
        return topics is None or (self._context.version == 0 and not topics)

    def _sort(self) -> None:
        if self._all_topics:
            # A client hears nothing of topics that it may not describe.
            self._existing = self._describable(self._snapshot.partitions)
            return
        _check_names(self._request, self._context.version)
        ids = {topic.topic_id: None for topic in self._request.topics or () if topic.topic_id != ZERO_UUID}
        if ids:
            self._sort_ids(ids)
        else:
            self._sort_names(dict.fromkeys(topic.name or "" for topic in self._request.topics or ()))

    def _describable(self, names: Iterable[str]) -> list[str]:
        allowed = self._context.authorized(Operation.DESCRIBE, names)
        return [name for name in names if name in allowed]

    def _sort_ids(self, ids: Iterable[Uuid]) -> None:
        names = {}
        for topic_id in ids:
            name = self._snapshot.topic_names.get(topic_id)
            if name is None:
                self._hide(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
            else:
                names[name] = topic_id
        self._existing = self._describable(names)
        for name in names.keys() - set(self._existing):
            self._hide(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, names[name])

    def _sort_names(self, names: Iterable[str]) -> None:
        describable = self._describable(names)
        for name in names:
            if name not in describable:
                # Whether the topic exists is not even looked at: the answer must not tell.
                self._hide(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO_UUID)
            elif name in self._snapshot.partitions:
                self._existing.append(name)
            else:
                self._missing.append(name)
        if (
            self._request.allow_auto_topic_creation
            and self._context.broker.config["auto.create.topics.enable"]
        ):
            self._sort_missing()

    def _sort_missing(self) -> None:
        context = self._context
        anything = bool(self._missing) and context.authorize_cluster(Operation.CREATE)
        allowed = set(self._missing) if anything else context.authorized(Operation.CREATE, self._missing)
        for name in self._missing:
            if name in allowed:
                self.to_create.append(name)
            else:
                self._hide(
                    name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO_UUID, is_internal=name in INTERNAL_TOPICS
                )
        self._missing = []

    def _hide(self, name: str | None, code: ErrorCode, topic_id: Uuid, *, is_internal: bool = False) -> None:
        self._hidden.append(
            MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, is_internal=is_internal)
        )

    def respond(self, created: dict[str, ErrorCode]) -> MetadataResponse:
        """The response; `created` says what became of the topics that were to be created."""
        context, snapshot = self._context, self._snapshot
        topics = [_existing(context, snapshot, name) for name in self._existing]
        codes = {name: _why_missing(name) for name in self._missing} | created
        topics += [
            MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)
            for name, code in codes.items()
        ]
        if self._request.include_topic_authorized_operations and context.version >= OPERATIONS_SINCE:
            for topic in topics:
                topic.topic_authorized_operations = context.authorized_operations(
                    Resource.TOPIC, topic.name or ""
                )
        response = MetadataResponse(
            brokers=_brokers(context, snapshot),
            cluster_id=context.broker.cluster_id,
            controller_id=snapshot.controller_id,
            topics=topics + self._hidden,
        )
        if (
            self._request.include_cluster_authorized_operations
            and OPERATIONS_SINCE <= context.version <= CLUSTER_OPERATIONS_UNTIL
        ):
            response.cluster_authorized_operations = _cluster_operations(context)
        return response


def _check_names(request: MetadataRequest, version: int) -> None:
    if version >= TOPIC_IDS_SINCE:
        return
    for topic in request.topics or ():
        if topic.name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if topic.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}"
            )


def _why_missing(name: str) -> ErrorCode:
    try:
        validate_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _existing(context: RequestContext, snapshot: Snapshot, name: str) -> MetadataResponseTopic:
    partitions = snapshot.describe(
        name,
        context.listener,
        endpoints_as_errors=context.version == 0,
        listeners_as_errors=context.version >= LISTENER_ERRORS_SINCE,
    )
    return MetadataResponseTopic(
        name=name,
        topic_id=snapshot.topic_ids.get(name, ZERO_UUID),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[_partition(answer) for answer in partitions or ()],
    )


def _partition(answer: PartitionAnswer) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=answer.error,
        partition_index=answer.partition,
        leader_id=answer.leader,
        leader_epoch=answer.leader_epoch,
        replica_nodes=list(answer.replicas),
        isr_nodes=list(answer.isr),
        offline_replicas=list(answer.offline_replicas),
    )


def _brokers(context: RequestContext, snapshot: Snapshot) -> list[MetadataResponseBroker]:
    found = []
    for broker in snapshot.brokers.values():
        endpoint = snapshot.endpoints[broker.id].get(context.listener)
        if endpoint is not None:
            found.append(
                MetadataResponseBroker(
                    node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    return found


def _cluster_operations(context: RequestContext) -> int:
    if not context.authorize_cluster(Operation.DESCRIBE):
        return 0
    return context.authorized_operations(Resource.CLUSTER, CLUSTER_NAME)
