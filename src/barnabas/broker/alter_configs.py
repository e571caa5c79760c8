"""What AlterConfigs and IncrementalAlterConfigs have in common (``ConfigAdminManager.preprocess``)."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.sliced import alone
from barnabas.cluster.metadata.config_admin import Change
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.slices import Sliced

_log = EventLog("broker.alter_configs")

TOPIC: Final = 2
BROKER: Final = 4
CLIENT_METRICS: Final = 16


class Alteration(NamedTuple):
    """What is to become of one resource."""

    resource_type: int
    resource_name: str
    keys: Sequence[str]
    nulls: Sequence[str]
    """The keys that have no value, and need one."""
    change: Change


def alter_resources(
    context: RequestContext, alterations: Sequence[Alteration], *, validate_only: bool
) -> Sliced[list[KafkaError | None]]:
    """The error of each resource, one after the other."""
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
        except KafkaError as error:
            errors.append(error)
        except Exception as error:
            _log.error("configs.not_altered", resource=each.resource_name, exc_info=error)
            errors.append(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
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
    if kind not in (TOPIC, BROKER, CLIENT_METRICS):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    _authorize(context, kind, name)
    if kind == CLIENT_METRICS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
        )
    admin = context.broker.config_admin
    alter = admin.alter_topic if kind == TOPIC else admin.alter_broker
    yield from alone(context, alter(name, alteration.change, validate_only=validate_only))


def _authorize(context: RequestContext, kind: int, name: str) -> None:
    if kind != TOPIC:
        context.require_cluster(Operation.ALTER_CONFIGS)
    elif not context.authorize(Operation.ALTER_CONFIGS, Resource.TOPIC, name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
