"""Brokers whose log directories are all cordoned (KIP-1066): nothing new is placed on them.

A broker says so in its registration. The controller knows all registrations; another broker, which creates a
topic because a client asked for it, reads them.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from barnabas.cluster.metadata.registration import registered_brokers
from barnabas.cluster.store.contract import MetadataStore
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending, Steps, steps

CordonedBrokers: TypeAlias = Callable[[], Pending[Collection[int]]]
"""Answers the ids of the brokers that get no new replicas."""


def none_cordoned() -> Pending[Collection[int]]:
    """All brokers get replicas."""
    return Pending.of(())


def cordoned_brokers(store: MetadataStore, known: Callable[[], Collection[int] | None]) -> CordonedBrokers:
    """Those that the controller knows, or where it is elsewhere (None) those whose registrations say so."""

    def ask() -> Pending[Collection[int]]:
        cordoned = known()
        return _read(store) if cordoned is None else Pending.of(cordoned)

    return ask


@steps
def _read(store: MetadataStore) -> Steps[Collection[int]]:
    return frozenset(broker.id for broker in (yield registered_brokers(store)) if broker.cordoned)


def cordoned_error(replicas: Iterable[int], cordoned: Collection[int]) -> KafkaError | None:
    """The error, in the words of Kafka 4.4, of an assignment that names a cordoned broker."""
    for broker_id in replicas:
        if broker_id in cordoned:
            return KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker_id}, but all its log directories "
                "are cordoned.",
            )
    return None


def all_cordoned(replication_factor: int) -> KafkaError:
    """The error, in the words of Kafka 4.4, where no broker is left to place replicas on."""
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced, "
        "or have all their log directories cordoned.",
    )
