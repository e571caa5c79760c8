"""Metadata (3), v0-13.

Behaviour: brokers, controller and topics as of the last UpdateMetadata, with endpoints of the
listener that the request came in on. Topics that do not exist are created if both sides want it.
Limit:     topics that would have more partitions than `barnabas.create.topics.max.partitions` between them
           are not created: POLICY_VIOLATION, as in CreateTopics.
Versions:  v0 an empty list asks for all topics, later null does · v4 the client may forbid creation ·
           v5 offline replicas · v6 LISTENER_NOT_FOUND · v7 leader epochs · v8 authorized operations (KIP-430)
           · v9 flexible · v10 topic ids in answers · v11 no operations on the cluster · v12 topic ids in
           requests · v13 an error of the whole answer (KIP-1102), which is for a client of another cluster.
Not implemented: nothing.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final, cast

from barnabas.broker.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.broker.throttling import recorder
from barnabas.cluster.metadata.cache import PartitionAnswer, Snapshot
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import INTERNAL_TOPICS, ZERO_UUID, Uuid, missing_topic
from barnabas.core.pending import Pending, gather
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

LISTENER_ERRORS_SINCE: Final = 6
OPERATIONS_SINCE: Final = 8
CLUSTER_OPERATIONS_UNTIL: Final = 10
TOPIC_IDS_SINCE: Final = 12
PORTION: Final = 100
"""Partitions that are described in one piece."""


def _failed(request: MetadataRequest, error: KafkaError, _version: int) -> Sliced[MetadataResponse]:
    response = MetadataResponse()
    for topic in request.topics or ():
        response.topics.append(
            MetadataResponseTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=error.code)
        )
        yield
    return response


@handles(ApiKey.METADATA, versions=(0, 13), failed=_failed)
@sliced
def metadata(context: RequestContext, request: MetadataRequest) -> Sliced[MetadataResponse]:
    """Describes topics and brokers, all as they are at the beginning: a snapshot never changes."""
    snapshot = context.broker.metadata_cache.snapshot
    with_operations = request.include_topic_authorized_operations and context.version >= OPERATIONS_SINCE
    # An answer within this process stays as it is, and one with operations differs from client to client.
    found = _Found(context, snapshot, in_bytes=context.on_wire and not with_operations)
    topics = request.topics
    if topics is None or (context.version == 0 and not topics):
        # A client hears nothing of topics that it may not describe, and has not asked for them either.
        may_describe = context.may(Operation.DESCRIBE, log_if_denied=False)
        for name in snapshot.partitions:
            if may_describe[name]:
                yield from found.describe(name)
            yield
    else:
        names: dict[str, None] = {}
        ids: dict[Uuid, None] = {}
        for topic in topics:
            _check(topic, context.version)
            names[topic.name or ""] = None
            if topic.topic_id != ZERO_UUID:
                ids[topic.topic_id] = None
            yield
        yield from found.by_id(ids) if ids else found.by_name(names, create=request.allow_auto_topic_creation)
    if with_operations:
        for answer in found.topics:
            name = answer.name or ""
            answer.topic_authorized_operations = context.authorized_operations(Resource.TOPIC, name)
            yield
    response = MetadataResponse(
        brokers=_brokers(context, snapshot),
        cluster_id=context.broker.cluster_id,
        controller_id=snapshot.controller_id,
        topics=found.topics + found.hidden,
    )
    if (
        request.include_cluster_authorized_operations
        and OPERATIONS_SINCE <= context.version <= CLUSTER_OPERATIONS_UNTIL
    ):
        response.cluster_authorized_operations = _cluster_operations(context)
    return response


def _check(topic: MetadataRequestTopic, version: int) -> None:
    if version >= TOPIC_IDS_SINCE:
        return
    if topic.name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
    if topic.topic_id != ZERO_UUID:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}"
        )


class _Found:
    """The answer's topics: those that the client may describe, and behind them those that it may not.

    With `in_bytes` those that exist are `DescribedTopics`.
    """

    __slots__ = ("_context", "_in_bytes", "_snapshot", "hidden", "may_describe", "topics")

    def __init__(self, context: RequestContext, snapshot: Snapshot, *, in_bytes: bool) -> None:
        self._context = context
        self._snapshot = snapshot
        self._in_bytes = in_bytes
        self.may_describe = context.may(Operation.DESCRIBE)
        self.topics: list[MetadataResponseTopic] = []
        self.hidden: list[MetadataResponseTopic] = []

    def by_id(self, ids: Iterable[Uuid]) -> Sliced[None]:
        denied = []
        for topic_id in ids:
            name = self._snapshot.topic_names.get(topic_id)
            if name is None:
                self._hide(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
            elif self.may_describe[name]:
                yield from self.describe(name)
            else:
                denied.append(topic_id)
            yield
        for topic_id in denied:
            # The id is no secret, the name is.
            self._hide(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id)
            yield

    def by_name(self, names: Iterable[str], *, create: bool) -> Sliced[None]:
        """The topics of these names; those that do not exist are created where client and broker allow it."""
        missing = []
        for name in names:
            if not self.may_describe[name]:
                # Whether the topic exists is not even looked at: the answer must not tell.
                self._hide(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif name in self._snapshot.partitions:
                yield from self.describe(name)
            else:
                missing.append(name)
            yield
        if create and missing and self._context.broker.config["auto.create.topics.enable"]:
            yield from self._create(missing)
            return
        for name in missing:
            self._answer(name, missing_topic(name))
            yield

    def _create(self, names: list[str]) -> Sliced[None]:
        context = self._context
        anything = context.authorize_cluster(Operation.CREATE, log_if_denied=False)
        may_create = context.may(Operation.CREATE)
        allowed = []
        for name in names:
            if anything or may_create[name]:
                allowed.append(name)
            else:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                self._hide(name, code, is_internal=name in INTERNAL_TOPICS)
            yield
        # A topic that is missing has as many partitions here as CreateTopics would give it, and so the same
        # limit.
        config = context.broker.config
        if len(allowed) * config["num.partitions"] > config["barnabas.create.topics.max.partitions"]:
            for name in allowed:
                self._answer(name, missing_topic(name, ErrorCode.POLICY_VIOLATION))
                yield
            return
        started: dict[str, Pending[ErrorCode]] = {}
        count = recorder(context, strict_since=None)
        for name in allowed:
            started[name] = context.broker.auto_topics.create(name, count)
            yield
        yield gather(started.values())
        for name, done in started.items():
            self._answer(name, done.result())
            yield

    def describe(self, name: str) -> Sliced[None]:
        """A topic that exists, with its partitions."""
        snapshot, version, listener = self._snapshot, self._context.version, self._context.listener
        known = self._context.broker.described_topics
        if self._in_bytes and (data := known.find(snapshot, listener, version, name)) is not None:
            self.topics.append(cast("MetadataResponseTopic", data))
            return
        answer = MetadataResponseTopic(
            name=name,
            topic_id=snapshot.topic_ids.get(name, ZERO_UUID),
            is_internal=name in INTERNAL_TOPICS,
        )
        described = snapshot.describe(
            name,
            listener,
            endpoints_as_errors=version == 0,
            listeners_as_errors=version >= LISTENER_ERRORS_SINCE,
        )
        while portion := [_partition(found) for found in islice(described, PORTION)]:
            answer.partitions += portion
            yield
        if self._in_bytes:
            kept = known.keep(snapshot, listener, version, name, answer)
            answer = cast("MetadataResponseTopic", kept)
        self.topics.append(answer)

    def _answer(self, name: str, code: ErrorCode) -> None:
        self.topics.append(
            MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)
        )

    def _hide(
        self,
        name: str | None,
        code: ErrorCode,
        topic_id: Uuid = ZERO_UUID,
        *,
        is_internal: bool = False,
    ) -> None:
        self.hidden.append(
            MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, is_internal=is_internal)
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
