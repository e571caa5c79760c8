"""What stands between the table of APIs and the handlers of a broker in a test: the faults that are
planted.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import Api, ApiTable
from barnabas.core.chunks import materialize
from barnabas.core.errors import KafkaError
from barnabas.core.ids import Uuid
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import in_one_piece
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.message import Request
from barnabas.testing.kafka.fault import Fault
from barnabas.testing.kafka.planted import PlantedFaults
from barnabas.testing.kafka.portions import (
    Cut,
    cut,
    failed_fetch,
    hit_of_fetch,
    hit_of_metadata,
    join,
)

_OF_BROKERS: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ENVELOPE,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
"""What only brokers ask: a fault that names one of these needs no `brokers`."""


class FaultyApis:
    """The APIs of one broker with the faults in front of them; `Environment.apis`."""

    def __init__(self, faults: PlantedFaults, broker_id: int) -> None:
        self._faults = faults
        self.broker_id = broker_id

    def __call__(self, table: ApiTable) -> ApiTable:
        return {key: replace(api, handler=_Faulty(api, self._hit)) for key, api in table.items()}

    def _hit(self, api: Api, context: RequestContext, request: Request) -> tuple[Fault, Cut] | None:
        """The first planted fault that hits the request, and how it cuts it."""
        faults = self._faults
        if not faults.planted:
            return None
        with faults.changed:
            for planted in faults.planted:
                fault = planted.fault
                if not self._concerns(fault, api, context, request):
                    continue
                found = _cut(fault, api, context, request)
                if found is not None and planted.take():
                    return fault, found
        return None

    def _concerns(self, fault: Fault, api: Api, context: RequestContext, request: Request) -> bool:
        return (
            (not fault.apis or api.key in fault.apis)
            and fault.node in (None, self.broker_id)
            and fault.client_id in (None, context.client_id)
            and (fault.brokers or not _is_of_broker(fault, api, context, request))
        )


def _is_of_broker(fault: Fault, api: Api, context: RequestContext, request: Request) -> bool:
    if api.key in fault.apis and api.key in _OF_BROKERS:
        return False
    replica_state = getattr(request, "replica_state", None)
    follower: int = getattr(request, "replica_id", -1) if replica_state is None else replica_state.replica_id
    return api.key in _OF_BROKERS or follower >= 0 or not context.on_wire


def _cut(fault: Fault, api: Api, context: RequestContext, request: Any) -> Cut | None:
    def name_of(topic_id: Uuid) -> str | None:
        return context.broker.metadata_cache.topic_name(topic_id)

    if api.key is ApiKey.FETCH:
        hit = hit_of_fetch(request, fault, name_of, _session(context, request))
        return None if hit is None else Cut(hit, request)
    if api.key is ApiKey.METADATA:
        asked = hit_of_metadata(request, fault, name_of)
        return None if asked is None else Cut(asked, request)
    return cut(request, fault, name_of)


def _session(context: RequestContext, request: Any) -> Iterable[tuple[str | None, Uuid, int]]:
    session = context.broker.fetch_sessions.get(request.session_id)
    if session is None or request.session_epoch <= 0:
        return ()
    return [(each.topic, each.topic_id, each.partition) for each in session.partitions.values()]


class _Faulty:
    """A handler behind the faults."""

    def __init__(self, api: Api, hit: Any) -> None:
        self._api = api
        self._hit = hit

    def __call__(self, context: RequestContext, request: Request) -> Any:
        found = self._hit(self._api, context, request)
        if found is None:
            return self._api.handler(context, request)
        return _answer(self._api, context, request, *found)


@steps
def _answer(api: Api, context: RequestContext, request: Any, fault: Fault, found: Cut) -> Steps[Any]:
    """What becomes of a request that is hit."""
    if fault.when == "before":
        yield from _hold_back(context, fault)
        if fault.cut:
            raise CloseConnection("cut by a fault of a test")
    if fault.when == "after" or fault.error is None:
        answer = yield _served(api, context, request)
    elif found.rest is None:
        answer = None
    else:
        if api.key is ApiKey.FETCH:
            request.max_wait_ms = 0  # there is something to say at once
        answer = yield _served(api, context, found.rest)
    if fault.when == "after":
        yield from _hold_back(context, fault)
        if fault.cut:
            raise CloseConnection("cut by a fault of a test")
    if fault.error is None:
        return answer
    refusal = _refusal(api, context, fault, found)
    if answer is None or fault.topic is fault.id is None:
        return refusal
    # What a handler answers may lie ready as bytes; only a decoded answer can be changed.
    return join(_decoded(answer, context.version) if context.on_wire else answer, refusal)


def _hold_back(context: RequestContext, fault: Fault) -> Steps[None]:
    """Waits; what the client has asked later waits too, as it would behind any slow request."""
    if not fault.delay_ms:
        return
    waited: Pending[None] = Pending()
    if context.on_wire:
        context.peer.hold()
    context.broker.clock.call_later(fault.delay_ms, lambda: waited.complete(None))
    yield waited
    if context.on_wire:
        context.peer.release()


def _served(api: Api, context: RequestContext, request: Any) -> Pending[Any]:
    """The real handler's response."""
    # Appends of this turn are not to wait for its end: this answer is made before.
    appender = context.broker.replica_manager.appender
    in_turn = appender.in_turn
    if in_turn:
        appender.end_turn()
    try:
        outcome = api.handler(context, request)
    finally:
        if in_turn:
            appender.begin_turn()
    return outcome if isinstance(outcome, Pending) else Pending.of(outcome)


def _refusal(api: Api, context: RequestContext, fault: Fault, found: Cut) -> Any:
    assert fault.error is not None, "asked before"
    if api.key is ApiKey.FETCH and fault.topic is not None:
        return failed_fetch(found.hit, fault.error)
    refusal = api.failed(found.hit, KafkaError(fault.error), context.version)
    return refusal if not hasattr(refusal, "send") else in_one_piece(refusal)


def _decoded(answer: Any, version: int) -> Any:
    return type(answer).decode(memoryview(materialize(answer.encode(version))), version)[0]
