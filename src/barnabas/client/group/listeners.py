"""The caller's listeners, and taking partitions away from the caller."""

import inspect
from collections.abc import Sequence

from barnabas.client.subscription_state import Listener, SubscriptionState
from barnabas.core.ids import TopicPartition


async def call(listener: Listener | None, partitions: Sequence[TopicPartition]) -> Exception | None:
    """Calls the listener; returns what it raised, because a rebalance continues nevertheless."""
    if listener is None:
        return None
    try:
        outcome = listener(list(partitions))
        if inspect.isawaitable(outcome):
            await outcome
    except Exception as error:
        return error
    return None


async def revoke(
    subscriptions: SubscriptionState, partitions: Sequence[TopicPartition], *, lost: bool = False
) -> Exception | None:
    """Calls the listener, then gives the partitions up; what the listener raised
    (``invokePartitionsRevoked``, ``invokePartitionsLost``).
    """
    listener = subscriptions.on_revoked
    if lost:
        # As Java's default method: without a listener for lost partitions, they count as revoked.
        listener = subscriptions.on_lost or listener
    problem = await call(listener, partitions)
    kept = subscriptions.partitions.keys() - set(partitions)
    subscriptions.set_partitions(sorted(kept))
    return problem
