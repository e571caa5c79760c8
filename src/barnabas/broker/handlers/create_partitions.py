"""CreatePartitions (37), v0-3.

Behaviour: the controller's broker writes the new partitions of each topic to the store and answers when all
its partitions have leaders, or when the time is over. Any other broker answers NOT_CONTROLLER.
Versions:  v2 flexible · v3 quotas (KIP-599).
Limit:     a request for more than `barnabas.create.topics.max.partitions` new partitions is POLICY_VIOLATION,
           as with CreateTopics.
Not implemented: nothing.
"""

from collections import Counter

from barnabas.broker.api_error import api_error
from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.broker.throttling import recorder
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import gather
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_log = EventLog("broker.create_partitions")

STRICT_SINCE = 3
"""The version from which on partitions beyond the client's quota are refused."""


def _failed(
    request: CreatePartitionsRequest, error: KafkaError, _version: int
) -> Sliced[CreatePartitionsResponse]:
    response = CreatePartitionsResponse()
    for topic in request.topics:
        response.results.append(
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=str(error))
        )
        yield
    return response


@handles(ApiKey.CREATE_PARTITIONS, versions=(0, 3), failed=_failed)
@sliced
def create_partitions(
    context: RequestContext, request: CreatePartitionsRequest
) -> Sliced[CreatePartitionsResponse]:
    results: dict[str, CreatePartitionsTopicResult] = {}
    if not context.broker.controller.is_active:
        for topic in request.topics:
            code = ErrorCode.NOT_CONTROLLER
            results[topic.name] = CreatePartitionsTopicResult(name=topic.name, error_code=code)
            yield
        return CreatePartitionsResponse(results=list(results.values()))
    creatable = yield from _check(context, request, results)
    yield from _create(context, request, results, creatable)
    return CreatePartitionsResponse(results=list(results.values()))


def _check(
    context: RequestContext,
    request: CreatePartitionsRequest,
    results: dict[str, CreatePartitionsTopicResult],
) -> Sliced[list[CreatePartitionsTopic]]:
    """Notes in the results what is wrong with the request itself; the topics with which nothing is."""
    may_alter = context.may(Operation.ALTER)
    named = Counter(topic.name for topic in request.topics)
    creatable = []
    partitions = 0
    for topic in request.topics:
        yield
        name = topic.name
        result = results[name] = CreatePartitionsTopicResult(name=name)
        if named[name] > 1:
            _fail(result, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request."))
        elif not may_alter[name]:
            _fail(
                result,
                KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The topic authorization is failed."),
            )
        elif context.broker.controller.is_topic_queued_for_deletion(name):
            _fail(result, KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion."))
        else:
            creatable.append(topic)
            partitions += max(0, topic.count - len(context.broker.metadata_cache.partitions(name)))
    if partitions <= context.broker.config["barnabas.create.topics.max.partitions"]:
        return creatable
    problem = KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    for topic in creatable:
        _fail(results[topic.name], problem)
        yield
    return []


def _create(
    context: RequestContext,
    request: CreatePartitionsRequest,
    results: dict[str, CreatePartitionsTopicResult],
    creatable: list[CreatePartitionsTopic],
) -> Sliced[None]:
    """Fills in what becomes of the topics."""
    count = recorder(context, strict_since=STRICT_SINCE)
    started = {}
    for topic in creatable:
        placed = topic.assignments
        assignments = None if placed is None else [each.broker_ids for each in placed]
        started[topic.name] = context.broker.topics.create_partitions(
            topic.name, topic.count, assignments, validate_only=request.validate_only, count=count
        )
        yield
    yield from alone(context, gather(started.values()))
    created: dict[str, int] = {}
    for name, done in started.items():
        if done.error is not None:
            _fail(results[name], done.error)
        else:
            created[name] = done.result()
        yield
    if not created or request.validate_only:
        return
    late = yield from alone(context, context.broker.topic_changes.created(created, request.timeout_ms))
    for name in late:
        results[name].error_code = ErrorCode.REQUEST_TIMED_OUT


def _fail(result: CreatePartitionsTopicResult, error: BaseException) -> None:
    error = api_error(_log, "partitions.creation_failed", error, topic=result.name)
    result.error_code = error.code
    throttled = error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    result.error_message = None if throttled else str(error)
