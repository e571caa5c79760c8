"""What the handlers of groups share: who asks, whether he may, and which topics the coordinator gets to see."""

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.coordinator.group import Client
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending

T = TypeVar("T")
U = TypeVar("U")


def client_of(context: RequestContext) -> Client:
    """The sender, as members of a group are described."""
    return Client(context.client_id, java_host(context.client_host))


def java_host(address: str) -> str:
    """An address as ``InetAddress.toString`` prints one that nobody gave a name: ``/127.0.0.1``, ``/0:0:0:0:0:0:0:1``."""
    if ":" not in address:
        return f"/{address}"
    plain, mark, scope = address.partition("%")
    parsed = ipaddress.IPv6Address(plain)
    if parsed.ipv4_mapped is not None:
        return f"/{parsed.ipv4_mapped}"
    groups = parsed.exploded.split(":")
    return f"/{':'.join(f'{int(group, 16):x}' for group in groups)}{mark}{scope}"


def may(context: RequestContext, operation: Operation, group_id: str) -> bool:
    """Whether the client may do this to a group."""
    return context.authorize(operation, Resource.GROUP, group_id)


def require_group(context: RequestContext, operation: Operation, group_id: str) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED unless the client may do this to the group."""
    if not context.authorize(operation, Resource.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def told_apart(
    context: RequestContext, operation: Operation, group_ids: Iterable[str]
) -> tuple[list[str], list[str]]:
    """The groups to which the client may do this, and those to which it may not; each once.

    Kafka describes a group as often as it is named. A small request that names a big one ten thousand times
    would so fill the memory.
    """
    allowed: list[str] = []
    denied: list[str] = []
    for group_id in dict.fromkeys(group_ids):
        (allowed if may(context, operation, group_id) else denied).append(group_id)
    return allowed, denied


def require_consumer_protocol(context: RequestContext) -> None:
    """Raises UNSUPPORTED_VERSION unless the broker serves the consumer protocol of groups (KIP-848)."""
    if "consumer" not in context.broker.config["group.coordinator.rebalance.protocols"]:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def afterwards(answer: T | Pending[T], function: Callable[[T], U]) -> U | Pending[U]:
    """The function's value of an answer that is there or comes later."""
    return answer.then(function) if isinstance(answer, Pending) else function(answer)


class _Partition(Protocol):
    partition_index: int


class _CodedPartition(_Partition, Protocol):
    error_code: int


class _CodedTopic(Protocol):
    name: str

    @property
    def partitions(self) -> Sequence[_CodedPartition]: ...


P = TypeVar("P", bound=_Partition)


class PartitionCodes:
    """A code for each partition, topics in the order in which they were first spoken of."""

    __slots__ = ("topics",)

    def __init__(self) -> None:
        self.topics: dict[str, list[tuple[int, int]]] = {}

    def add(self, topic: str, partitions: Iterable[tuple[int, int]]) -> None:
        """Partitions of a topic with their codes; they follow those that are there."""
        self.topics.setdefault(topic, []).extend(partitions)

    def refuse(self, topic: str, partitions: Iterable[_Partition], code: ErrorCode) -> None:
        """The same code for several partitions of a topic."""
        self.add(topic, [(each.partition_index, code) for each in partitions])

    def take_in(self, topics: Iterable[_CodedTopic]) -> None:
        """What the coordinator says of the partitions that it got to see."""
        for topic in topics:
            self.add(topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])

    def topics_of(self, topic: Callable[..., T], partition: Callable[..., object]) -> list[T]:
        """The topics of a response, of its own classes."""
        return [
            topic(
                name=name,
                partitions=[partition(partition_index=index, error_code=code) for index, code in codes],
            )
            for name, codes in self.topics.items()
        ]

    def __repr__(self) -> str:
        return f"<PartitionCodes {self.topics}>"


def known_partitions(
    context: RequestContext, topics: Iterable[tuple[str, Sequence[P]]], codes: PartitionCodes
) -> list[tuple[str, list[P]]]:
    """The partitions that exist, of topics that the client may read; `codes` gets why the others are refused."""
    topics = list(topics)
    readable = context.authorized(Operation.READ, (name for name, _ in topics))
    existing = context.broker.metadata_cache.snapshot.partitions
    found = []
    for name, partitions in topics:
        if name not in readable:
            codes.refuse(name, partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            continue
        known = existing.get(name, ())
        if name not in existing:
            codes.refuse(name, partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        kept = [each for each in partitions if each.partition_index in known]
        unknown = [each for each in partitions if each.partition_index not in known]
        if unknown:
            codes.refuse(name, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if kept:
            found.append((name, kept))
    return found
