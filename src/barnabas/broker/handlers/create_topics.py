"""CreateTopics (19), v2-7.

Behaviour: the controller's broker writes each topic to the store and answers when all its partitions have
leaders, or when the time is over. Any other broker answers NOT_CONTROLLER.
Versions:  v4 -1 takes the broker's defaults · v5 flexible, the answer describes the topic (KIP-525) ·
           v6 quotas (KIP-599) · v7 topic ids.
Limit:     a request for more partitions than `barnabas.create.topics.max.partitions` is POLICY_VIOLATION, as
           Kafka 4 answers it (KAFKA-17870): a partition is files, memory and znodes.
Not implemented: v0-1 (KIP-896); create.topic.policy.class.name.
"""

from barnabas.broker.api_error import api_error
from barnabas.broker.authorizer import Operation
from barnabas.broker.config_entries import in_order, topic_entries
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.broker.throttling import recorder
from barnabas.cluster.metadata.topics import CreatedTopic, NewTopic
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import gather
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_log = EventLog("broker.create_topics")

STRICT_SINCE = 6
"""The version from which on a topic beyond the client's quota is refused; else it is made, and the client
waits.
"""
DESCRIBED_SINCE = 5
"""The version from which on the answer says what the topic is like."""
METADATA_TOPIC = "__cluster_metadata"
"""KRaft's own topic; no client may have one of that name."""


def _failed(request: CreateTopicsRequest, error: KafkaError, _version: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=str(error))
            for topic in request.topics
        ]
    )


@handles(ApiKey.CREATE_TOPICS, versions=(2, 7), failed=_failed)
@sliced
def create_topics(context: RequestContext, request: CreateTopicsRequest) -> Sliced[CreateTopicsResponse]:
    answers = []
    if not context.broker.controller.is_active:
        code = ErrorCode.NOT_CONTROLLER
        for topic in request.topics:
            answers.append(CreatableTopicResult(name=topic.name, error_code=code, error_message=""))
            yield
        return CreateTopicsResponse(topics=answers)
    results = yield from _check(context, request)
    creatable = yield from _creatable(context, request, results)
    yield from _create(context, request, results, creatable)
    for topic in request.topics:
        # A name that was asked for twice is answered twice, as in Kafka.
        answers.append(results[topic.name])
        yield
    return CreateTopicsResponse(topics=answers)


def _check(context: RequestContext, request: CreateTopicsRequest) -> Sliced[dict[str, CreatableTopicResult]]:
    """The results so far, by name: what is wrong with the request itself."""
    anything = context.authorize_cluster(Operation.CREATE, log_if_denied=False)
    may_create = context.may(Operation.CREATE)
    may_describe = context.may(Operation.DESCRIBE_CONFIGS, log_if_denied=False)
    results: dict[str, CreatableTopicResult] = {}
    for topic in request.topics:
        yield
        name = topic.name
        twice = name in results
        result = results[name] = CreatableTopicResult(name=name, error_message=None)
        if name == METADATA_TOPIC:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        elif twice:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "Found multiple entries for this topic."
        elif not (anything or may_create[name]):
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.error_message = "Authorization failed."
        if name != METADATA_TOPIC and not may_describe[name]:
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return results


def _creatable(
    context: RequestContext, request: CreateTopicsRequest, results: dict[str, CreatableTopicResult]
) -> Sliced[list[CreatableTopic]]:
    """The topics that may be created, none where they would have too many partitions between them."""
    creatable = []
    partitions = 0
    for topic in request.topics:
        if not results[topic.name].error_code:
            creatable.append(topic)
            partitions += max(topic.num_partitions, len(topic.assignments), 1)
        yield
    if partitions <= context.broker.config["barnabas.create.topics.max.partitions"]:
        return creatable
    problem = KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    for topic in creatable:
        _fail(results[topic.name], problem)
        yield
    return []


def _create(
    context: RequestContext,
    request: CreateTopicsRequest,
    results: dict[str, CreatableTopicResult],
    creatable: list[CreatableTopic],
) -> Sliced[None]:
    """Fills in what becomes of the topics."""
    count = recorder(context, strict_since=STRICT_SINCE)
    started = {}
    for topic in creatable:
        new_topic = yield from _new_topic(topic)
        started[topic.name] = context.broker.topics.create(
            new_topic, validate_only=request.validate_only, count=count
        )
        yield
    yield from alone(context, gather(started.values()))
    created: dict[str, int] = {}
    for name, done in started.items():
        yield
        if done.error is not None:
            _fail(results[name], done.error)
            continue
        found = done.result()
        _describe(context, results[name], found)
        created[name] = found.num_partitions
    if created and not request.validate_only:
        late = yield from alone(context, context.broker.topic_changes.created(created, request.timeout_ms))
        for name in late:
            _fail(results[name], KafkaError(ErrorCode.REQUEST_TIMED_OUT))
            results[name].error_message = None


def _new_topic(topic: CreatableTopic) -> Sliced[NewTopic]:
    configs: dict[str, str | None] = {}
    for config in topic.configs:
        configs[config.name] = config.value
        yield
    assignments: dict[int, list[int]] = {}
    for assignment in topic.assignments:
        assignments[assignment.partition_index] = assignment.broker_ids
        yield
    return NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignments, configs)


def _fail(result: CreatableTopicResult, error: BaseException) -> None:
    """What a topic that failed says of itself is only why."""
    error = api_error(_log, "topic.creation_failed", error, topic=result.name)
    result.error_code = error.code
    throttled = error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    result.error_message = None if throttled else str(error)
    result.configs = []
    result.num_partitions = result.replication_factor = -1
    result.topic_config_error_code = ErrorCode.NONE


def _describe(context: RequestContext, result: CreatableTopicResult, topic: CreatedTopic) -> None:
    result.topic_id = topic.topic_id
    if result.topic_config_error_code or context.version < DESCRIBED_SINCE:
        return
    result.num_partitions = topic.num_partitions
    result.replication_factor = topic.replication_factor
    result.configs = [
        CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.config_source)
        for entry in in_order(topic_entries(context.broker.config, topic.config))
    ]
