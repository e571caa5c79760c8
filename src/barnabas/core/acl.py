"""Access rules as values (``org.apache.kafka.common.acl`` and ``common.resource``).

A rule (`AclBinding`) says who may, or may not, do what to a resource from where. Its resource is a pattern:
one name (LITERAL, where ``*`` stands for every name) or every name with a beginning (PREFIXED, KIP-290).
Numbers are those of the wire; names in znodes and tools are written ``DescribeConfigs`` (``SecurityUtils``).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

E = TypeVar("E", bound=IntEnum)

WILDCARD: Final = "*"
"""As the name of a literal resource: every resource of the type. As a host: every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
"""Everyone, whatever type of principal they have."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one cluster resource."""


class Operation(IntEnum):
    """What may be done (``AclOperation``)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a resource is meant (``PatternType``). ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether a rule allows or denies (``AclPermissionType``)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED: Final[Mapping[Resource, tuple[Operation, ...]]] = {
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
    Resource.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that a resource of the type has (``AclEntry.supportedOperations``)."""

SINCE_GROUP_VERSION: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
"""What may also be done to a group in a Kafka 4, whose groups have settings of their own (KIP-848)."""


class ResourcePattern(NamedTuple):
    """The resources that a rule is for."""

    resource: Resource
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.resource.name}, name={self.name}, "
            f"patternType={self.pattern_type.name})"
        )


class AccessControlEntry(NamedTuple):
    """Who (``User:alice``), from which address, may or may not do what (``AccessControlEntry``)."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


class AclBinding(NamedTuple):
    """One rule."""

    pattern: ResourcePattern
    entry: AccessControlEntry


class AclFilter(NamedTuple):
    """Which rules are meant (``AclBindingFilter``); None and ANY match everything."""

    resource: Resource = Resource.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Whether rules of this pattern may be meant (``ResourcePatternFilter.matches``)."""
        if self.resource not in (Resource.ANY, pattern.resource):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        # MATCH: every pattern that holds for a resource of this name.
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        """Whether a rule with this entry is meant (``AccessControlEntryFilter.matches``)."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def patterns(self) -> tuple[ResourcePattern, ...]:
        """The patterns that the filter names, where it names any; it then matches no others."""
        if self.resource <= Resource.ANY or self.name is None:
            return ()
        if self.pattern_type is PatternType.ANY:
            kinds: tuple[PatternType, ...] = (PatternType.LITERAL, PatternType.PREFIXED)
        elif self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            kinds = (self.pattern_type,)
        else:
            kinds = ()
        return tuple(ResourcePattern(self.resource, self.name, kind) for kind in kinds)


def of_code(kind: type[E], code: int) -> E:
    """The member with a number of the wire; UNKNOWN (0) where there is none."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def pascal_name(member: IntEnum) -> str:
    """The name as znodes and tools write it: ``DescribeConfigs``."""
    return "".join(part.capitalize() for part in member.name.split("_"))


def of_name(kind: type[E], name: str) -> E:
    """The member that znodes and tools call so, in any case; UNKNOWN where there is none."""
    wanted = name.upper()
    return next((each for each in kind if wanted == pascal_name(each).upper()), kind(0))


def is_principal(text: str) -> bool:
    """Whether a text is a principal as ``type:name`` (``SecurityUtils.parseKafkaPrincipal``)."""
    return ":" in text
