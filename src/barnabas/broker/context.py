"""What a handler is given besides the request: who asks, how, and of whom (``RequestContext``)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.authorizer import (
    CLUSTER_NAME,
    SINCE_GROUP_VERSION,
    SUPPORTED,
    AllowAll,
    Operation,
    Resource,
)
from barnabas.broker.services import BrokerServices
from barnabas.cluster.metadata.features import GROUP_VERSION
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_EPOCH
from barnabas.network.peer import Peer
from barnabas.protocol.framing import RequestHeader

if TYPE_CHECKING:
    from barnabas.security.client_quota_manager import MutationQuota

_log = EventLog("broker.epochs")

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may write to internal topics (``AdminUtils.ADMIN_CLIENT_ID``)."""


class Permissions(dict[str, bool]):
    """What a client may do to the resources that its request names;
    the authorizer is asked for each name once.
    """

    __slots__ = ("_context", "_count", "_log_if_denied", "_operation", "_resource")

    def __init__(
        self,
        context: "RequestContext",
        operation: Operation,
        resource: Resource,
        count: Callable[[str], int] | None,
        *,
        log_if_denied: bool,
    ) -> None:
        super().__init__()
        self._count = count
        self._log_if_denied = log_if_denied
        self._context = context
        self._operation = operation
        self._resource = resource

    def __missing__(self, name: str) -> bool:
        allowed = self[name] = self._context.authorize(
            self._operation, self._resource, name, self._count, log_if_denied=self._log_if_denied
        )
        return allowed


class RequestContext:
    """The circumstances of one request."""

    __slots__ = (
        "arrived_ms",
        "broker",
        "counted",
        "handled_ms",
        "header",
        "metrics_key",
        "mutations",
        "peer",
        "size",
        "throttle_ms",
        "version",
    )

    def __init__(self, broker: BrokerServices, header: RequestHeader, peer: Peer, size: int) -> None:
        self.broker = broker
        self.header = header
        self.peer = peer
        self.version = header.api_version
        self.size = size
        """Bytes of the request's frame; quotas count them."""
        self.throttle_ms = 0
        """What the response asks the client to wait."""
        self.counted = 0
        """What quotas have yet to count of it; `broker.throttling` says what there is."""
        self.mutations: MutationQuota | None = None
        """Of a request that makes or removes partitions, while there are quotas of that."""
        self.metrics_key: int = header.api_key
        """What the request is counted as: its API, or `FOLLOWER_FETCH`."""
        self.arrived_ms = 0.0
        """On the monotonic clock; 0 for a request that came in no frame."""
        self.handled_ms = 0.0
        """When the handler returned, where the answer comes later than that; else 0."""

    @property
    def principal(self) -> Any:
        """Who the connection was authenticated as."""
        return self.peer.principal

    @property
    def token_authenticated(self) -> bool:
        """Whether that was with a delegation token."""
        return self.peer.token_authenticated

    @property
    def listener(self) -> str:
        """The name of the listener that the request came in on; answers name endpoints of it."""
        return self.peer.listener.name

    @property
    def on_wire(self) -> bool:
        """Whether the request came in a frame, so that its answer is encoded."""
        return self.size > 0

    @property
    def client_host(self) -> str:
        return self.peer.address[0]

    @property
    def client_id(self) -> str:
        """The client's name for itself; empty if it gave none."""
        return self.header.client_id or ""

    @property
    def api_key(self) -> int:
        """The number of the API."""
        return self.header.api_key

    def authorize(
        self,
        operation: Operation,
        resource: Resource,
        name: str,
        count: Callable[[str], int] | None = None,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        """Whether the client may do this to the resource; the rest is as `Authorizer` says."""
        authorizer = self.broker.authorizer
        # Every request asks, and most brokers have no rules: to them a call with its keywords is dear.
        if type(authorizer) is AllowAll:
            return True
        return authorizer.authorize(
            self,
            operation,
            resource,
            name,
            count,
            log_if_allowed=log_if_allowed,
            log_if_denied=log_if_denied,
        )

    def authorize_cluster(self, operation: Operation, *, log_if_denied: bool = True) -> bool:
        """Whether the client may do this to the cluster."""
        return self.authorize(operation, Resource.CLUSTER, CLUSTER_NAME, log_if_denied=log_if_denied)

    def authorize_any(self, operation: Operation, resource: Resource) -> bool:
        """Whether the client may do this to any resource of the type."""
        return self.broker.authorizer.authorize_any(self, operation, resource)

    def require_cluster(self, operation: Operation) -> None:
        """Raises CLUSTER_AUTHORIZATION_FAILED unless the client may do this to the cluster."""
        if not self.authorize_cluster(operation):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def require_current_broker(self, broker_epoch: int) -> None:
        """Raises STALE_BROKER_EPOCH for a request that was meant for this broker before it restarted
        (KIP-380).

        An epoch ahead of ours is obeyed: the controller may have heard of the registration before us.
        """
        current = self.broker.broker_epoch()
        if broker_epoch != NO_EPOCH and broker_epoch < current:
            _log.info("request.stale_broker_epoch", request=self, epoch=broker_epoch, current=current)
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)

    def may(
        self,
        operation: Operation,
        resource: Resource = Resource.TOPIC,
        *,
        count: Callable[[str], int] | None = None,
        log_if_denied: bool = True,
    ) -> Permissions:
        """Whether the client may do this, by the name of the resource: ``may_read[topic]``."""
        return Permissions(self, operation, resource, count, log_if_denied=log_if_denied)

    def authorized_operations(self, resource: Resource, name: str) -> int:
        """All that the client may do to a resource, as a set of bits."""
        operations = SUPPORTED[resource]
        if resource is Resource.GROUP and GROUP_VERSION in self.broker.features.supported:
            operations += SINCE_GROUP_VERSION
        return sum(
            1 << operation
            for operation in operations
            if self.authorize(operation, resource, name, log_if_allowed=False, log_if_denied=False)
        )

    def __repr__(self) -> str:
        header = self.header
        return f"<RequestContext {header.api_key} v{header.api_version} from {self.client_host}>"
