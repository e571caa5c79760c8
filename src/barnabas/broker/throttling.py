"""Who waits, and for how long: a request is held to the quotas of its client (``RequestHandlerHelper``).

A response leaves at once and says how long the client is to wait; its connection is muted meanwhile, for
clients that do not (KIP-219). What a request is counted as:

    ======================= ==================================================== ==========================
    request                 counted                                              not counted
    ======================= ==================================================== ==========================
    any                     its time, in per cent of a second of the loop
    Produce                 bytes of the request as well                         with acks=0: its time
    Fetch of a consumer     bytes of the response as well, unless one of the     a response that is held
                            two makes it wait: it then gets an empty one         back
    a follower's, a broker's                                                     all of it
    CreateTopics and others partitions that are made or removed as well
    ======================= ==================================================== ==========================

Where a request breaks two quotas the longer time counts. A request's time is that until its handler returned:
what is done later, for others as well, is nobody's (docs/decisions/0041).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.cluster.metadata.topics import not_counted
from barnabas.network.peer import ANONYMOUS, Peer
from barnabas.protocol.api import ApiKey
from barnabas.security.client_quota_manager import ClientQuotaManager, HeldTo

if TYPE_CHECKING:
    from barnabas.broker.context import RequestContext

# What is yet to be counted of a request when its response is made.
TIME: Final = 0
"""Its time, as of nearly every request."""
NO_TIME: Final = 1
"""Not its time, which is exempt: of a producer that waits for no answer, of a follower."""
NOTHING: Final = 2
"""Its handler has counted it (Fetch)."""
REFUSED: Final = 3
"""Its time, also of an API that is exempt because only brokers use it: this one came from no broker."""

_PER_CENT_OF_MS: Final = 0.1
"""A millisecond in per cent of a second."""
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_PRODUCE: Final = int(ApiKey.PRODUCE)


def throttle_ms(context: "RequestContext", now_ms: float, *, exempt: bool) -> int:
    """Counts a request whose response is about to leave; how long its client is to wait
    (``sendResponseMaybeThrottle``). The quotas of clients are enabled.
    """
    counted = context.counted
    if counted == NOTHING:
        return context.throttle_ms
    api_key = context.header.api_key
    if api_key == _API_VERSIONS and _logs_in(context.peer):
        return 0
    held_to = _held_to(context)
    time_ms = own_ms = 0
    own: ClientQuotaManager | None = None
    if held_to.request is not None:
        used = ((context.handled_ms or now_ms) - context.arrived_ms) * _PER_CENT_OF_MS
        if (exempt and counted != REFUSED) or counted == NO_TIME:
            context.broker.quotas.exempt.record(used)
        else:
            time_ms = held_to.request.charge(used, now_ms)
    if api_key == _PRODUCE:
        if held_to.produce is not None:
            own_ms = held_to.produce.charge(context.size, now_ms)
            own = context.broker.quotas.produce if own_ms else None
    elif context.mutations is not None:
        own, own_ms = context.broker.quotas.mutations, context.mutations.throttle_ms
    return _longer(context, own, own_ms, time_ms) if own_ms or time_ms else 0


def fetch_throttle_ms(context: "RequestContext", response_bytes: int) -> int:
    """Counts a consumer's fetch before it is answered; more than 0 where it gets nothing, and how long it is
    to wait. The quotas of clients are enabled.
    """
    context.counted = NOTHING
    held_to, now_ms = _held_to(context), context.broker.clock.monotonic_ms()
    time_ms = bytes_ms = 0
    if held_to.request is not None:
        used = ((context.handled_ms or now_ms) - context.arrived_ms) * _PER_CENT_OF_MS
        time_ms = held_to.request.charge(used, now_ms)
    if held_to.fetch is not None:
        bytes_ms = held_to.fetch.charge(response_bytes, now_ms)
        if time_ms or bytes_ms:
            held_to.fetch.take_back(response_bytes)
    if time_ms or bytes_ms:
        context.throttle_ms = _longer(context, context.broker.quotas.fetch, bytes_ms, time_ms)
    return context.throttle_ms


def recorder(context: "RequestContext", *, strict_since: int | None) -> Callable[[int], None]:
    """What counts the partitions that a request makes or removes. From version `strict_since` on it raises
    KafkaError THROTTLING_QUOTA_EXCEEDED where the client has no more; in earlier ones the client waits. With
    None, for topics that are made by the way, they are counted, and nobody is refused or waits.
    """
    manager = context.broker.quotas.mutations
    if not manager.enabled:
        return not_counted
    strict = strict_since is not None and context.version >= strict_since
    quota = manager.mutations(context.principal, context.client_id, strict=strict)
    if strict_since is not None:
        context.mutations = quota
    return quota.record


def _logs_in(peer: Peer) -> bool:
    """Whether the peer is yet to log in. The versions that it asks for are part of that, and no quota is for
    them: strangers would use up one that everybody needs (``SaslServerAuthenticator`` answers in Kafka).
    """
    return bool(peer.principal == ANONYMOUS) and peer.listener.security_protocol.startswith("SASL")


def _held_to(context: "RequestContext") -> HeldTo:
    """What the request is held to: mostly what the one before it on this connection was."""
    peer, client_id = context.peer, context.header.client_id
    found: HeldTo | None = peer.held_to
    if found is None or not found.is_of(peer.principal, client_id):
        found = peer.held_to = context.broker.quotas.held_to(peer.principal, client_id)
    return found


def _longer(context: "RequestContext", own: ClientQuotaManager | None, own_ms: int, time_ms: int) -> int:
    """The longer of two times; the quota that it is of has throttled its client."""
    longer = max(own_ms, time_ms)
    if longer > 0:
        manager = own if own is not None and own_ms > time_ms else context.broker.quotas.request
        manager.throttled(context.principal, context.client_id, longer)
    return longer
