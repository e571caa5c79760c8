"""Envelope (58), v0.

Behaviour: closes the connection, as a broker of Apache Kafka 3.9 does with ZooKeeper: it advertises the API,
but forwards no client's request to the controller (KIP-590).
Versions:  v0 flexible.
Not implemented: nothing.
"""

from typing import NoReturn

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.envelope import EnvelopeRequest


@handles(ApiKey.ENVELOPE, versions=(0, 0), throttled=False)
def envelope(context: RequestContext, _request: EnvelopeRequest) -> NoReturn:
    host, port = context.peer.address[:2]
    raise CloseConnection(
        f"Closing connection {host}:{port} because it sent an `Envelope` request even though forwarding has "
        "not been enabled"
    )
