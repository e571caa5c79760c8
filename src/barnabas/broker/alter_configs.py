"""What AlterConfigs and IncrementalAlterConfigs have in common (``ConfigAdminManager.preprocess``)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.broker.api_error import api_error
from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.config_entries import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from barnabas.broker.context import RequestContext
from barnabas.broker.sliced import alone
from barnabas.cluster.metadata.config_admin import Change, ConfigOp, OpType, check_broker_id
from barnabas.core import broker_loggers
from barnabas.core.api_profile import KAFKA_3_9, api_profile
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.slices import Sliced

_log = EventLog("broker.alter_configs")

_LEVELS: Final = ", ".join(broker_loggers.LEVELS)

Result = TypeVar("Result")


class Alteration(NamedTuple):
    """What is to become of one resource."""

    resource_type: int
    resource_name: str
    keys: Sequence[str]
    nulls: Sequence[str]
    """The keys that have no value, and need one."""
    change: Change


def alter_resources(
    context: RequestContext,
    request: Any,
    alteration: Callable[[Any], Alteration],
    result: Callable[..., Result],
) -> Sliced[list[Result]]:
    """Alters the resources of either request one after the other;
    `result` is the class of the response's entries.
    """
    alterations: list[Alteration] = []
    for each in request.resources:
        alterations.append(alteration(each))
        yield
    errors = yield from _errors(context, alterations, validate_only=request.validate_only)
    results = yield from results_with(errors, request, result)
    return results


def results_with(
    errors: Iterable[KafkaError | None], request: Any, result: Callable[..., Result]
) -> Sliced[list[Result]]:
    """The entries of the response, one for each resource of the request and its error."""
    results: list[Result] = []
    for error, each in zip(errors, request.resources, strict=False):
        results.append(
            result(
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.own_message if error else None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
        yield
    return results


def _errors(
    context: RequestContext, alterations: Sequence[Alteration], *, validate_only: bool
) -> Sliced[list[KafkaError | None]]:
    named: Counter[tuple[int, str]] = Counter()
    for each in alterations:
        named[each.resource_type, each.resource_name] += 1
        yield
    errors: list[KafkaError | None] = []
    for each in alterations:
        yield
        try:
            if named[each.resource_type, each.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            yield from _alter(context, each, validate_only=validate_only)
        except Exception as error:
            errors.append(api_error(_log, "configs.not_altered", error, resource=each.resource_name))
        else:
            errors.append(None)
    return errors


def _alter(context: RequestContext, alteration: Alteration, *, validate_only: bool) -> Sliced[None]:
    kind, name = alteration.resource_type, alteration.resource_name
    if len(set(alteration.keys)) < len(alteration.keys):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if alteration.nulls:
        nulls = ", ".join(alteration.nulls)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {nulls}")
    # AlterConfigs, which names all settings there are, knows no levels of loggers (KIP-412).
    if kind == BROKER_LOGGER and not isinstance(alteration.change, Mapping):
        _alter_loggers(context, name, alteration.change, validate_only=validate_only)
        return
    of_3_9 = api_profile(context.broker.config) == KAFKA_3_9
    if kind not in (TOPIC, BROKER, CLIENT_METRICS, GROUP) or (kind == GROUP and of_3_9):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    _authorize(context, kind, name, of_3_9=of_3_9)
    if kind == CLIENT_METRICS and of_3_9:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
        )
    admin = context.broker.config_admin
    alter = {
        TOPIC: admin.alter_topic,
        BROKER: admin.alter_broker,
        CLIENT_METRICS: admin.alter_client_metrics,
        GROUP: admin.alter_group,
    }[kind]
    yield from alone(context, alter(name, alteration.change, validate_only=validate_only))


def _alter_loggers(
    context: RequestContext, name: str, change: Sequence[ConfigOp], *, validate_only: bool
) -> None:
    """``RuntimeLoggerManager.applyChangesForResource``: all of the changes, or none where one is wrong."""
    context.require_cluster(Operation.ALTER_CONFIGS)
    check_broker_id(name, context.broker.broker_id)
    for operation in change:
        _check_logger(operation)
    if validate_only:
        return
    for operation in change:
        level = operation.value if operation.kind == OpType.SET else None
        broker_loggers.set_level(operation.name, level)
        _log.warning("logger.level_changed", logger=operation.name, level=level, client=context.client_id)


def _check_logger(operation: ConfigOp) -> None:
    name, kind = operation.name, operation.kind
    if kind in (OpType.APPEND, OpType.SUBTRACT):
        verb = OpType(kind).name
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{verb} operation is not allowed for the BROKER_LOGGER resource"
        )
    if kind not in (OpType.SET, OpType.DELETE):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka fails over it
    if not broker_loggers.exists(name):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if kind == OpType.SET and operation.value not in broker_loggers.LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {operation.value} as it is not a supported log level. "
            f"Valid log levels are {_LEVELS}",
        )
    if kind == OpType.DELETE and name == broker_loggers.ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )


def _authorize(context: RequestContext, kind: int, name: str, *, of_3_9: bool) -> None:
    if kind == CLIENT_METRICS and of_3_9:
        # Kafka with ZooKeeper has no words for who may not change what it does not have.
        if not context.authorize_cluster(Operation.ALTER_CONFIGS):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected resource type CLIENT_METRICS for resource {name}"
            )
    elif kind == GROUP:
        if not context.authorize(Operation.ALTER_CONFIGS, Resource.GROUP, name):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif kind != TOPIC:
        context.require_cluster(Operation.ALTER_CONFIGS)
    elif not context.authorize(Operation.ALTER_CONFIGS, Resource.TOPIC, name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
