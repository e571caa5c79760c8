"""The question whether a principal may do something (``org.apache.kafka.server.authorizer.Authorizer``).

Handlers ask where and in the order in which ``KafkaApis`` asks; who answers is a constructor argument.
Numbers are those of ACLs on the wire.
"""

from enum import IntEnum
from typing import Any, Final, Protocol

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one cluster resource."""


class Operation(IntEnum):
    """What may be done (``AclOperation``)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Resource(IntEnum):
    """What it may be done to (``ResourceType``)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


SUPPORTED: Final = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
}
"""The operations that an answer with "authorized operations" speaks of (``AclEntry``)."""


class Authorizer(Protocol):
    """Decides. `principal` and `host` are the connection's."""

    def authorize(
        self, principal: Any, host: str, operation: Operation, resource: Resource, name: str
    ) -> bool:
        """Whether the principal may do the operation to the resource of that name."""

    def authorize_any(self, principal: Any, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether there is any resource of the type that it may do the operation to."""


class AllowAll:
    """The authorizer of a broker without ACLs (``authorizer.class.name`` not set)."""

    __slots__ = ()

    def authorize(
        self, principal: Any, host: str, operation: Operation, resource: Resource, name: str
    ) -> bool:
        del principal, host, operation, resource, name
        return True

    def authorize_any(self, principal: Any, host: str, operation: Operation, resource: Resource) -> bool:
        del principal, host, operation, resource
        return True
