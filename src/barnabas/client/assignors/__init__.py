"""How the leader of a classic group divides partitions among its members, as Kafka's Java client does it.

One file an assignor. They are pure: topics and subscriptions in, partitions by member out; what an assignor
remembers (the sticky ones) is only what it sends the next leader about itself.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.client.assignors.assignor import Assignor, RebalanceProtocol, Subscription, Topics
from barnabas.client.assignors.range_assignor import RangeAssignor
from barnabas.client.assignors.round_robin import RoundRobinAssignor
from barnabas.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from barnabas.core.errors import ConfigError

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "Topics",
    "assignors_named",
    "common_protocol",
]

_ASSIGNORS: Final[tuple[type[Assignor], ...]] = (
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
)
_JAVA_PACKAGE: Final = "org.apache.kafka.clients.consumer."
_BY_NAME: Final = {name: kind for kind in _ASSIGNORS for name in (kind.name, _JAVA_PACKAGE + kind.__name__)}


def assignors_named(chosen: Iterable[str | Assignor | type[Assignor]]) -> list[Assignor]:
    """Assignors by their protocol names (``range``) or Java class names, by class or as they are.

    Raises ConfigError.
    """
    return [_assignor(one) for one in chosen]


def _assignor(chosen: str | Assignor | type[Assignor]) -> Assignor:
    if isinstance(chosen, Assignor):
        return chosen
    kind = _BY_NAME.get(chosen) if isinstance(chosen, str) else chosen
    if kind is None:
        known = ", ".join(one.name for one in _ASSIGNORS)
        raise ConfigError(
            f"Invalid value {chosen} for configuration partition.assignment.strategy: one of {known}"
        )
    return kind()


def common_protocol(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """The most advanced protocol that all of them can follow (KIP-429); raises ConfigError without one."""
    listed = list(assignors)
    common = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in listed))
    if not listed or not common:
        raise ConfigError(
            "Invalid value for configuration partition.assignment.strategy:"
            " its assignors have no rebalance protocol in common"
        )
    return max(common)
