"""ElectLeaders (43), v0-2.

Behaviour: the controller elects preferred leaders, or unclean ones for partitions that have none (KIP-183,
KIP-460). The answer comes when this broker's metadata name the new leaders, or when the time is over. Without
a list of partitions all are tried, and those that need no election are left out of the answer.
Versions:  v0 preferred leaders only · v1 unclean ones, an error for the whole · v2 flexible.
Not implemented: nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.cluster.controller.election_events import ElectionResult
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.election_type import ElectionType
from barnabas.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

TOP_LEVEL_ERROR_SINCE: Final = 1


def _failed(request: ElectLeadersRequest, error: KafkaError, version: int) -> Sliced[ElectLeadersResponse]:
    response = yield from _response(dict.fromkeys(_named(request), error))
    if version >= TOP_LEVEL_ERROR_SINCE:
        response.error_code = error.code
    return response


@handles(ApiKey.ELECT_LEADERS, versions=(0, 2), failed=_failed)
@sliced
def elect_leaders(context: RequestContext, request: ElectLeadersRequest) -> Sliced[ElectLeadersResponse]:
    context.require_cluster(Operation.ALTER)
    try:
        kind = ElectionType(request.election_type)
    except ValueError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error  # what Kafka answers
    deadline_ms = context.broker.clock.monotonic_ms() + request.timeout_ms
    everything = request.topic_partitions is None
    partitions = dict.fromkeys(_all(context) if everything else _named(request))
    results = yield from _elect(context, partitions, kind)
    elected = {tp: result for tp, result in results.items() if isinstance(result, int)}
    left_ms = int(deadline_ms - context.broker.clock.monotonic_ms())
    late = yield from alone(context, context.broker.topic_changes.elected(elected, max(0, left_ms)))
    outcome: dict[TopicPartition, KafkaError | None] = {}
    for tp, result in results.items():
        yield
        if tp in late:
            outcome[tp] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        elif isinstance(result, int):
            outcome[tp] = None
        elif not everything or result.code is not ErrorCode.ELECTION_NOT_NEEDED:
            outcome[tp] = result
    answer = yield from _response(outcome)
    return answer


def _elect(
    context: RequestContext, partitions: Iterable[TopicPartition], kind: ElectionType
) -> Sliced[Mapping[TopicPartition, ElectionResult]]:
    try:
        results = yield from alone(context, context.broker.controller.elect_leaders(partitions, kind))
    except KafkaError as error:
        return dict.fromkeys(partitions, error)  # NOT_CONTROLLER, for each
    return results


def _all(context: RequestContext) -> Iterable[TopicPartition]:
    for topic, partitions in context.broker.metadata_cache.snapshot.partitions.items():
        for partition in partitions:
            yield TopicPartition(topic, partition)


def _named(request: ElectLeadersRequest) -> Iterable[TopicPartition]:
    for topic in request.topic_partitions or ():
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition)


def _response(outcome: Mapping[TopicPartition, KafkaError | None]) -> Sliced[ElectLeadersResponse]:
    topics: dict[str, ReplicaElectionResult] = {}
    for tp, error in outcome.items():
        yield
        topic = topics.setdefault(tp.topic, ReplicaElectionResult(topic=tp.topic))
        result = PartitionResult(partition_id=tp.partition, error_message=None)
        if error is not None:
            result.error_code, result.error_message = error.code, _message(error)
        topic.partition_result.append(result)
    return ElectLeadersResponse(replica_election_results=list(topics.values()))


def _message(error: KafkaError) -> str | None:
    """``ApiError``: a code's own text is not sent, but with ELECTION_NOT_NEEDED it is."""
    return error.message if error.code is ErrorCode.ELECTION_NOT_NEEDED else error.own_message
