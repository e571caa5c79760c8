"""The question whether a principal may do something (``org.apache.kafka.server.authorizer.Authorizer``).

Handlers ask where and in the order in which ``KafkaApis`` asks; who answers is a constructor argument.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from barnabas.core.acl import (
    CLUSTER_NAME,
    SINCE_GROUP_VERSION,
    SUPPORTED,
    AclBinding,
    AclFilter,
    Operation,
    Resource,
)
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced

__all__ = [
    "CLUSTER_NAME",
    "SINCE_GROUP_VERSION",
    "SUPPORTED",
    "AclAdmin",
    "AllowAll",
    "Authorizer",
    "NoAcls",
    "Operation",
    "Resource",
]


class Asking(Protocol):
    """What an authorizer is told of a request (``AuthorizableRequestContext``)."""

    @property
    def principal(self) -> Any:
        """Who the connection was authenticated as."""

    @property
    def client_host(self) -> str:
        """The address that the connection comes from."""

    @property
    def api_key(self) -> int:
        """The number of the API."""


class Authorizer(Protocol):
    """Decides."""

    def authorize(
        self,
        request: Asking,
        operation: Operation,
        resource: Resource,
        name: str,
        count: Callable[[str], int] | None = None,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        """Whether the client may do the operation to the resource of that name (``Action``).

        `count` says how often the request names the resource, without it once; it is called only where the
        log gets a line. A denial is worth a line (`log_if_denied`) if the client asked for this resource by
        name, a grant (`log_if_allowed`) if the client gets something by it.
        """

    def authorize_any(self, request: Asking, operation: Operation, resource: Resource) -> bool:
        """Whether there is any resource of the type that it may do the operation to."""


class AllowAll:
    """The authorizer of a broker without ACLs (``authorizer.class.name`` not set)."""

    __slots__ = ()

    def authorize(
        self,
        request: Asking,
        operation: Operation,
        resource: Resource,
        name: str,
        count: Callable[[str], int] | None = None,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        del request, operation, resource, name, count, log_if_allowed, log_if_denied
        return True

    def authorize_any(self, request: Asking, operation: Operation, resource: Resource) -> bool:
        del request, operation, resource
        return True


class AclAdmin(Protocol):
    """Shows and changes access rules (`security.acl_authorizer`)."""

    def acls(self, wanted: AclFilter) -> Sliced[list[AclBinding]]:
        """The rules that a filter matches, those of a pattern together."""

    def create_acls(self, bindings: Sequence[AclBinding]) -> Pending[list[KafkaError | None]]:
        """Adds rules; the error of each."""

    def delete_acls(
        self, filters: Sequence[AclFilter]
    ) -> Pending[list[list[tuple[AclBinding, KafkaError | None]]]]:
        """Removes the rules that filters match; those of each filter, with the error of each."""


class NoAcls:
    """A broker without an authorizer: there are no rules to show or to change. Raises SECURITY_DISABLED."""

    __slots__ = ()

    def acls(self, wanted: AclFilter) -> Sliced[list[AclBinding]]:
        del wanted
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")

    def create_acls(self, bindings: Sequence[AclBinding]) -> Pending[list[KafkaError | None]]:
        del bindings
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")

    def delete_acls(
        self, filters: Sequence[AclFilter]
    ) -> Pending[list[list[tuple[AclBinding, KafkaError | None]]]]:
        del filters
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
