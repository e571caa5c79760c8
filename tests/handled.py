"""A request through the handler of its API to a coordinator, with nothing of a broker in between."""

from types import SimpleNamespace

from barnabas.broker.authorizer import AllowAll
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_4_4
from barnabas.core.errors import KafkaError
from barnabas.network.peer import ListenerId, Peer
from barnabas.protocol.framing import RequestHeader
from standing_clock import Clock

TABLE = api_table(PROFILE_4_4)
APIS = {api.request: api for api in TABLE.values()}


def handled(coordinator, request, version=None, *, client_id="app", host="127.0.0.1"):
    """What the handler returns: a response, or the Pending of one.
    Raises KafkaError where the handler does.
    """
    api = APIS[type(request)]
    services = SimpleNamespace(
        group_coordinator=coordinator,
        authorizer=AllowAll(),
        clock=Clock(),
        api_table=TABLE,
        config={"group.coordinator.rebalance.protocols": ["classic", "consumer"]},
        features=PROFILE_4_4.feature_levels(),
    )
    header = RequestHeader(int(api.key), api.max_version if version is None else version, 0, client_id)
    peer = Peer(ListenerId("PLAINTEXT", "PLAINTEXT"), (host, 9999))
    return api.handler(RequestContext(services, header, peer, 0), request)


def answered(coordinator, request, version=None, *, client_id="app"):
    """The same, with a refusal as the response that says so."""
    try:
        return handled(coordinator, request, version, client_id=client_id)
    except KafkaError as refused:
        api = APIS[type(request)]
        return api.failed(request, refused, api.max_version if version is None else version)
