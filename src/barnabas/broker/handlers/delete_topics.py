"""DeleteTopics (20), v1-6.

Behaviour: the controller's broker asks for the deletion in the store and answers when the topic is gone from
this broker's metadata, or when the time is over. Any other broker answers NOT_CONTROLLER.
Versions:  v3 TOPIC_DELETION_DISABLED · v4 flexible · v5 quotas and messages (KIP-599) · v6 topics by id.
Not implemented: v0 (KIP-896).
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID
from barnabas.core.pending import Pending, Steps, gather, steps
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_log = EventLog("broker.delete_topics")

DISABLED_SINCE: Final = 3


def _states(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    return request.topics or [DeleteTopicState(name=name) for name in request.topic_names]


def _failed(request: DeleteTopicsRequest, error: KafkaError, _version: int) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_code=error.code)
            for state in _states(request)
        ]
    )


@handles(ApiKey.DELETE_TOPICS, versions=(1, 6), failed=_failed)
def delete_topics(
    context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | Pending[DeleteTopicsResponse]:
    """Deletes topics."""
    if not context.broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if not context.broker.config["delete.topic.enable"]:
        old = context.version < DISABLED_SINCE
        raise KafkaError(ErrorCode.INVALID_REQUEST if old else ErrorCode.TOPIC_DELETION_DISABLED)
    results = [_result(context, state) for state in _states(request)]
    _check(context, results)
    return _delete(context, request, results)


def _result(context: RequestContext, state: DeleteTopicState) -> DeletableTopicResult:
    if state.topic_id == ZERO_UUID:
        return DeletableTopicResult(name=state.name)
    if state.name is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified.")
    name = context.broker.metadata_cache.topic_name(state.topic_id)
    return DeletableTopicResult(name=name, topic_id=state.topic_id)


def _check(context: RequestContext, results: list[DeletableTopicResult]) -> None:
    names = [result.name for result in results if result.name is not None]
    describable = context.authorized(Operation.DESCRIBE, names)
    deletable = context.authorized(Operation.DELETE, names)
    for result in results:
        if result.name is None:
            # Without name and id there is nothing that anyone could be allowed to delete.
            nothing = result.topic_id == ZERO_UUID
            result.error_code = (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED if nothing else ErrorCode.UNKNOWN_TOPIC_ID
            )
        elif result.topic_id != ZERO_UUID and result.name not in describable:
            # The id is no secret, but the name is to whoever may not describe the topic.
            result.name = None
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif result.name not in deletable:
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif result.name not in context.broker.metadata_cache:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@steps
def _delete(
    context: RequestContext, request: DeleteTopicsRequest, results: list[DeletableTopicResult]
) -> Steps[DeleteTopicsResponse]:
    names = dict.fromkeys(result.name for result in results if result.name and not result.error_code)
    started = {name: context.broker.topics.delete(name) for name in names}
    yield gather(started.values())
    codes = {name: _code(name, done.error) for name, done in started.items()}
    asked = [name for name, code in codes.items() if not code]
    late = set(asked)
    if asked and request.timeout_ms > 0:
        late = yield context.broker.topic_changes.deleted(asked, request.timeout_ms)
    codes |= dict.fromkeys(late, ErrorCode.REQUEST_TIMED_OUT)
    for result in results:
        if result.name and not result.error_code:
            result.error_code = codes[result.name]
    return DeleteTopicsResponse(responses=results)


def _code(name: str, error: BaseException | None) -> ErrorCode:
    if error is None:
        return ErrorCode.NONE
    if isinstance(error, KafkaError):
        return error.code
    _log.error("topic.deletion_failed", topic=name, exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR
