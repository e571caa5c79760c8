"""The table of APIs: what is handled, by whom, at which versions.

The same table checks each request's version, answers ApiVersions and fills the compatibility page, so
nothing can be advertised that does not work. A handler file adds itself::

    @handles(ApiKey.LIST_OFFSETS, versions=(1, 9), failed=_failed)
    def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse: ...
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from barnabas.core.errors import KafkaError
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.message import Request, Response
from barnabas.protocol.registry import REQUESTS, RESPONSES

if TYPE_CHECKING:
    from barnabas.broker.context import RequestContext

Outcome: TypeAlias = Response | Pending[Any] | None
"""A response, one that comes later, or none at all."""

Handler: TypeAlias = Callable[["RequestContext", Any], Outcome]
Failure: TypeAlias = Callable[[Any, KafkaError, int], Response | Sliced[Response] | None]
"""(request, error, version) -> the response that says so in every place where a client looks.

Written as `Sliced` where those places are as many as a request has entries.
"""

H = TypeVar("H", bound=Handler)


def top_level(key: ApiKey) -> Failure:
    """A failure that the response has one field for."""

    def failed(_request: Request, error: KafkaError, _version: int) -> Response:
        response: Any = RESPONSES[key]()
        response.error_code = error.code
        return response  # type: ignore[no-any-return]

    return failed


@dataclass(frozen=True, slots=True)
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
    classic_max: int
    """The highest version on a broker that serves only the classic protocol of groups."""

    def supports(self, version: int) -> bool:
        """Whether this version is handled."""
        return self.min_version <= version <= self.max_version


_HANDLERS: Final[dict[ApiKey, Api]] = {}


def handles(
    key: ApiKey,
    *,
    versions: tuple[int, int],
    classic_max: int | None = None,
    failed: Failure | None = None,
    throttled: bool = True,
) -> Callable[[H], H]:
    """Registers a handler for these versions, both ends included."""
    low, high = versions
    highest_of_classic = high if classic_max is None else classic_max

    def register(handler: H) -> H:
        assert key not in _HANDLERS, f"{key.name} is handled twice"
        _HANDLERS[key] = Api(
            key, low, high, handler, failed or top_level(key), throttled, REQUESTS[key], highest_of_classic
        )
        return handler

    return register


class ApiTable(Mapping[int, Api]):
    """The APIs of one broker, by key."""

    __slots__ = ("_apis",)

    def __init__(self, apis: Mapping[ApiKey, Api]) -> None:
        self._apis: dict[int, Api] = {int(key): apis[key] for key in sorted(apis)}

    @classmethod
    def of_handlers(cls, rebalance_protocols: Collection[str] = ("classic",)) -> "ApiTable":
        """Every API that has a handler file, as a broker with these ``group.coordinator.rebalance.protocols`` serves it."""
        import barnabas.broker.handlers  # noqa: F401, PLC0415 - handler files import this module

        if "consumer" in rebalance_protocols:
            return cls(_HANDLERS)
        return cls({key: replace(api, max_version=api.classic_max) for key, api in _HANDLERS.items()})

    def __getitem__(self, key: int) -> Api:
        return self._apis[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._apis)

    def __len__(self) -> int:
        return len(self._apis)

    def __repr__(self) -> str:
        return (
            f"<ApiTable {' '.join(f'{a.key}:{a.min_version}-{a.max_version}' for a in self._apis.values())}>"
        )
