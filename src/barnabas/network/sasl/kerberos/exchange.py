"""GSSAPI (RFC 4752), both ends: a context of Kerberos, and then which layer of protection there is.

    client                              server
    token of the context        ->
                                <-      token of the context                 until both have it
    (nothing)                   ->
                                <-      wrapped: LAYERS SIZE                  here: 1 (none) and 0
    wrapped: LAYER SIZE [NAME]  ->                                            1, 0, and whom to act for

Nobody protects records with Kerberos: that is TLS's business. The library is asked through `Context`, so that
nothing here knows it.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from barnabas.network.sasl.kerberos.names import ShortNamer
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError

NAME: Final = "GSSAPI"
MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"

_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))


class Context(Protocol):
    """A context of Kerberos between two. Each call raises SaslExchangeError."""

    @property
    def complete(self) -> bool:
        """Whether each knows who the other is."""

    @property
    def initiator(self) -> str:
        """The client's principal."""

    def step(self, token: bytes) -> bytes:
        """What to say next, empty for nothing."""

    def wrap(self, message: bytes) -> bytes:
        """The message with proof of who sent it."""

    def unwrap(self, message: bytes) -> bytes:
        """The message, once its proof holds."""


class GssapiStep(Enum):
    """What an end expects next."""

    CONTEXT = "a token of the context"
    NOTHING = "an empty token"
    LAYER = "the layer"
    END = "nothing more"


class GssapiServer:
    """One log-in at the broker."""

    lifetime_ms: int | None = None
    token_authenticated = False
    refused_because = None

    def __init__(self, accept: Callable[[], Context], namer: ShortNamer) -> None:
        self._context = accept()
        self._namer = namer
        self._expects = GssapiStep.CONTEXT
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        if self._expects is GssapiStep.CONTEXT:
            answer = self._context.step(token)
            if not self._context.complete:
                return answer
            self._expects = GssapiStep.NOTHING
            if answer:
                return answer
            token = b""
        if self._expects is GssapiStep.NOTHING:
            if token:
                raise SaslExchangeError("the client says something before it knows the layers")
            self._expects = GssapiStep.LAYER
            return self._context.wrap(_OFFER)
        if self._expects is not GssapiStep.LAYER:
            raise SaslExchangeError("the log-in is over")
        self._expects = GssapiStep.END
        chosen = self._context.unwrap(token)
        if len(chosen) < len(_OFFER) or chosen[0] != _NO_LAYER:
            raise SaslExchangeError("the client wants a layer that this broker does not have")
        # The name to act for is passed over, as Kafka does: the principal is who the ticket is for.
        self.user = self._namer.short_name(self._context.initiator)
        return b""


class GssapiClient:
    """One log-in at a node. `begin` gives the context and its first token."""

    def __init__(self, begin: Callable[[], tuple[Context, bytes]]) -> None:
        self._begin = begin
        self._context: Context | None = None
        self._expects = GssapiStep.CONTEXT
        self.complete = False

    def evaluate(self, challenge: bytes) -> bytes | None:
        if self._context is None:
            self._context, token = self._begin()
            return token
        if self._expects is GssapiStep.CONTEXT:
            answer = self._context.step(challenge)
            if self._context.complete:
                self._expects = GssapiStep.LAYER
            return answer
        if self._expects is GssapiStep.LAYER:
            layers = self._context.unwrap(challenge)
            if len(layers) < len(_OFFER) or not layers[0] & _NO_LAYER:
                raise SaslAuthenticationError("the node wants a layer that this client does not have")
            self._expects = GssapiStep.END
            return self._context.wrap(_OFFER)
        self.complete = True
        return None
