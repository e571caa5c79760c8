"""What requests about access rules have in common: rules and filters of numbers and names (``AclApis``)."""

from typing import NoReturn, Protocol

from barnabas.core.acl import (
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    of_code,
)
from barnabas.network.errors import CloseConnection


class FilterFields(Protocol):
    """The fields of a filter, in DescribeAcls and in DeleteAcls."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def refuse_unreadable(problem: str) -> NoReturn:
    """Closes the connection, as Kafka does where it cannot make the request of what it has read."""
    raise CloseConnection(f"Error getting request: {problem}")


def acl_filter(fields: FilterFields) -> AclFilter:
    """The filter that the fields say. Raises CloseConnection for one that Kafka cannot read.

    A number that is not known is UNKNOWN and matches nothing; 0, which is UNKNOWN itself, is refused.
    """
    if 0 in (
        fields.pattern_type_filter,
        fields.resource_type_filter,
        fields.operation,
        fields.permission_type,
    ):
        refuse_unreadable("the filter contains UNKNOWN elements")
    return AclFilter(
        resource=of_code(Resource, fields.resource_type_filter),
        name=fields.resource_name_filter,
        # Version 0 has no such field: LITERAL, as there was nothing else before KIP-290.
        pattern_type=of_code(PatternType, fields.pattern_type_filter),
        principal=fields.principal_filter,
        host=fields.host_filter,
        operation=of_code(Operation, fields.operation),
        permission=of_code(Permission, fields.permission_type),
    )
