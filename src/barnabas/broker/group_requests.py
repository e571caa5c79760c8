"""What the handlers of groups share: the client, its rights, and requests that name many groups."""

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.cluster.metadata.features import GROUP_VERSION
from barnabas.coordinator.group import Client
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced

D = TypeVar("D", bound="_GroupAnswer")


class _GroupAnswer(Protocol):
    """A group in an answer."""

    error_code: int
    authorized_operations: int


OF_KAFKA_3_9: Final = 0
"""The version of the consumer protocol's APIs that a Kafka 3.9 shows, and refuses."""


def client_of(context: RequestContext) -> Client:
    """The sender, as members of a group are described."""
    return Client(context.client_id, java_host(context.client_host))


def java_host(address: str) -> str:
    """An address as ``InetAddress.toString`` prints an address without a host name:
    ``/127.0.0.1``, ``/0:0:0:0:0:0:0:1``.
    """
    if ":" not in address:
        return f"/{address}"
    plain, mark, scope = address.partition("%")
    parsed = ipaddress.IPv6Address(plain)
    if parsed.ipv4_mapped is not None:
        return f"/{parsed.ipv4_mapped}"
    groups = parsed.exploded.split(":")
    return f"/{':'.join(f'{int(group, 16):x}' for group in groups)}{mark}{scope}"


def require_group(context: RequestContext, operation: Operation, group_id: str) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED unless the client may do this to the group."""
    if not context.authorize(operation, Resource.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def once(group_ids: Iterable[str]) -> Iterator[str | None]:
    """Each group once, and None in place of each repetition, so that none is passed over without a step.

    Kafka describes a group as often as it is named. A small request that names a big one ten thousand times
    would so fill the memory.
    """
    seen: set[str] = set()
    for group_id in group_ids:
        yield None if group_id in seen else group_id
        seen.add(group_id)


def describe_each(
    context: RequestContext,
    group_ids: Iterable[str],
    describe: Callable[[str], Sliced[D]],
    refused: Callable[[str, ErrorCode], D],
    *,
    operations: bool,
) -> Sliced[list[D]]:
    """Each group once, as the coordinator describes it;
    before them those that the client may not see, refused.
    """
    described: list[D] = []
    hidden: list[D] = []
    for group_id in once(group_ids):
        yield
        if group_id is None:
            continue
        if not context.authorize(Operation.DESCRIBE, Resource.GROUP, group_id):
            hidden.append(refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        try:
            group = yield from describe(group_id)
        except KafkaError as error:
            group = refused(group_id, error.code)
        if operations and not group.error_code:
            group.authorized_operations = context.authorized_operations(Resource.GROUP, group_id)
        described.append(group)
    return hidden + described


def require_consumer_protocol(context: RequestContext) -> None:
    """Raises UNSUPPORTED_VERSION unless the broker serves the consumer protocol of groups (KIP-848).

    A client with a later version than a Kafka 3.9 has was told of it before the profile changed, and goes on.
    """
    broker = context.broker
    is_off = GROUP_VERSION in broker.features.supported and broker.features.level(GROUP_VERSION) < 1
    is_served = "consumer" in broker.config["group.coordinator.rebalance.protocols"]
    if is_off or not (is_served or context.version > OF_KAFKA_3_9):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
