"""The table of APIs: what is handled, by whom, at which versions.

The same table checks each request's version, answers ApiVersions and fills the compatibility page, so
nothing can be advertised that does not work. A handler file adds itself::

    @handles(ApiKey.LIST_OFFSETS, versions=(1, 9), failed=_failed)
    def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse: ...
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from barnabas.core.errors import KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.message import Request, Response
from barnabas.protocol.registry import REQUESTS, RESPONSES

Outcome: TypeAlias = Response | Pending[Any] | None
"""A response, one that comes later, or none at all."""

Handler: TypeAlias = Callable[..., Any]
"""(context, request) -> outcome; the context reaches this table, so its type cannot be named here.

That of an outcome cannot either: where messages are compiled, a response is no subclass of `Response`.
"""
Failure: TypeAlias = Callable[[Any, KafkaError, int], Any]
"""(request, error, version) -> the response that says so in every place where a client looks, or None.

Written as `core.slices.Sliced` where those places are as many as a request has entries.
"""

H = TypeVar("H", bound=Handler)


def top_level(key: ApiKey) -> Failure:
    """A failure that the response has one field for."""

    def failed(_request: Request, error: KafkaError, _version: int) -> Response:
        response: Any = RESPONSES[key]()
        response.error_code = error.code
        return response  # type: ignore[no-any-return]

    return failed


@dataclass(frozen=True)
class Api:
    """One handled API."""

    key: ApiKey
    min_version: int
    max_version: int
    handler: Handler
    failed: Failure
    throttled: bool
    """False for what brokers say to each other: their requests are never delayed."""
    request: type[Request]
    advertised: bool = True
    """Whether ApiVersions tells of it; what brokers say to each other is not for clients."""

    def supports(self, version: int) -> bool:
        """Whether this version is handled."""
        return self.min_version <= version <= self.max_version


ApiTable: TypeAlias = Mapping[int, Api]
"""The APIs of one broker, by key."""

HANDLERS: Final[dict[ApiKey, Api]] = {}
"""All that have a handler file; `barnabas.broker.handlers.api_table` makes the table of a broker from it."""


def handles(
    key: ApiKey,
    *,
    versions: tuple[int, int],
    failed: Failure | None = None,
    throttled: bool = True,
) -> Callable[[H], H]:
    """Registers a handler for these versions, both ends included: all that it knows, whatever the profile."""
    low, high = versions

    def register(handler: H) -> H:
        assert key not in HANDLERS, f"{key.name} is handled twice"
        HANDLERS[key] = Api(key, low, high, handler, failed or top_level(key), throttled, REQUESTS[key])
        return handler

    return register
