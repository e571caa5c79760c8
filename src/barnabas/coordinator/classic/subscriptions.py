"""What a group of consumers subscribes to, read out of the bytes that its members tell each other.

The coordinator needs it for two things only: offsets of topics that nobody reads any more may expire (KIP-211),
and may be deleted while the group lives (KIP-496). The rest of the metadata is the members' business.
"""

from collections.abc import Collection
from typing import Final

from barnabas.coordinator.classic.member import ClassicMember
from barnabas.core.eventlog import EventLog
from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.versioned import read_prefix

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_log = EventLog("coordinator.classic")


def subscribed_topics(
    protocol_type: str, protocol_name: str | None, members: Collection[ClassicMember]
) -> frozenset[str] | None:
    """All topics that members subscribe to; None for no consumers, before the first generation, and where
    a member's metadata is not what consumers write.
    """
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if not members:
        return frozenset()
    if protocol_name is None:
        return None
    # Members mostly say the same, so each saying is read once.
    sayings = {member.metadata(protocol_name) for member in members}
    try:
        return frozenset(topic for saying in sayings for topic in _topics(saying))
    except ProtocolError as error:
        _log.warning("classic.subscription_unreadable", protocol=protocol_name, error=error)
        return None


def _topics(metadata: bytes) -> list[str]:
    # Every version begins with the fields of version 0, also those that are not written yet.
    read_prefix(metadata, ConsumerProtocolSubscription.__name__)
    return ConsumerProtocolSubscription.decode(metadata, 0, 2)[0].topics
