"""DeleteTopics (20), v1-6.

Behaviour: the controller's broker asks for the deletion in the store and answers when the topic is no longer
in this broker's metadata, or when the time is over. Any other broker answers NOT_CONTROLLER.
Versions:  v3 TOPIC_DELETION_DISABLED · v4 flexible · v5 quotas and messages (KIP-599) · v6 topics by id.
Not implemented: v0 (KIP-896).
"""

from collections.abc import Iterable
from typing import Final

from barnabas.broker.api_error import api_error
from barnabas.broker.authorizer import Operation
from barnabas.broker.context import Permissions, RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.broker.throttling import recorder
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID
from barnabas.core.pending import gather
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_log = EventLog("broker.delete_topics")

DISABLED_SINCE: Final = 3
STRICT_SINCE: Final = 5
"""The version from which on a deletion beyond the client's quota is refused."""


def _states(request: DeleteTopicsRequest) -> Iterable[DeleteTopicState]:
    return request.topics or (DeleteTopicState(name=name) for name in request.topic_names)


def _failed(request: DeleteTopicsRequest, error: KafkaError, _version: int) -> Sliced[DeleteTopicsResponse]:
    response = DeleteTopicsResponse()
    for state in _states(request):
        response.responses.append(
            DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_code=error.code)
        )
        yield
    return response


@handles(ApiKey.DELETE_TOPICS, versions=(1, 6), failed=_failed)
@sliced
def delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> Sliced[DeleteTopicsResponse]:
    if not context.broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if not context.broker.config["delete.topic.enable"]:
        old = context.version < DISABLED_SINCE
        raise KafkaError(ErrorCode.INVALID_REQUEST if old else ErrorCode.TOPIC_DELETION_DISABLED)
    may_describe, may_delete = context.may(Operation.DESCRIBE), context.may(Operation.DELETE)
    results = []
    for state in _states(request):
        results.append(_result(context, state))
        yield
    deletable: dict[str, None] = {}
    for result in results:
        result.error_code = _refusal(context, result, may_describe, may_delete)
        if not result.error_code and result.name:
            deletable[result.name] = None
        yield
    codes = yield from _delete(context, request, deletable)
    for result in results:
        if not result.error_code and result.name:
            result.error_code = codes[result.name]
        yield
    return DeleteTopicsResponse(responses=results)


def _result(context: RequestContext, state: DeleteTopicState) -> DeletableTopicResult:
    if state.topic_id == ZERO_UUID:
        return DeletableTopicResult(name=state.name)
    if state.name is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified.")
    name = context.broker.metadata_cache.topic_name(state.topic_id)
    return DeletableTopicResult(name=name, topic_id=state.topic_id)


def _refusal(
    context: RequestContext,
    result: DeletableTopicResult,
    may_describe: Permissions,
    may_delete: Permissions,
) -> ErrorCode:
    """Why the topic may not be deleted, if so; takes a name away that the client may not hear."""
    if result.name is None:
        # Without name and id there is nothing that anyone could be allowed to delete.
        nothing = result.topic_id == ZERO_UUID
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED if nothing else ErrorCode.UNKNOWN_TOPIC_ID
    describable, deletable = may_describe[result.name], may_delete[result.name]
    if result.topic_id != ZERO_UUID and not describable:
        # The id is no secret, but the name is one to a client that may not describe the topic.
        result.name = None
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not deletable:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if result.name not in context.broker.metadata_cache:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _delete(
    context: RequestContext, request: DeleteTopicsRequest, names: Iterable[str]
) -> Sliced[dict[str, ErrorCode]]:
    """What became of each topic, once all are deleted or the time is over."""
    count = recorder(context, strict_since=STRICT_SINCE)
    started = {}
    for name in names:
        started[name] = context.broker.topics.delete(name, count=count)
        yield
    yield from alone(context, gather(started.values()))
    codes = {name: _code(name, done.error) for name, done in started.items()}
    asked = [name for name, code in codes.items() if not code]
    late = set(asked)
    if asked and request.timeout_ms > 0:
        changes = context.broker.topic_changes
        late = yield from alone(context, changes.deleted(asked, request.timeout_ms))
    return codes | dict.fromkeys(late, ErrorCode.REQUEST_TIMED_OUT)


def _code(name: str, error: BaseException | None) -> ErrorCode:
    if error is None:
        return ErrorCode.NONE
    return api_error(_log, "topic.deletion_failed", error, topic=name).code
