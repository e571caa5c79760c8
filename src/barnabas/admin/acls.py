"""``admin.acls``: access rules (KIP-140, KIP-290)."""

from collections.abc import Sequence

from barnabas.admin.context import AdminContext, error_of
from barnabas.client import named
from barnabas.client.keyed_call import raise_first
from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
    of_code,
)
from barnabas.core.errors import BarnabasError, KafkaError
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_EVERYTHING = AclFilter()


class Acls:
    """Who may do what. Any broker with an authorizer answers."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def describe(
        self, wanted: AclFilter = _EVERYTHING, *, timeout_ms: float | None = None
    ) -> list[AclBinding]:
        """The rules that a filter matches. Raises KafkaError (SECURITY_DISABLED without an authorizer),
        ClientTimeoutError.
        """
        named.one(wanted, AclFilter, "what is described is an AclFilter")
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource,
            resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        response = await self._context.cluster.send_to_any(
            request, DescribeAclsResponse, self._context.deadline(timeout_ms)
        )
        error = error_of(response.error_code, response.error_message)
        if error is not None:
            raise error
        return [
            _binding(
                (resource.resource_type, resource.resource_name, resource.pattern_type),
                (each.principal, each.host, each.operation, each.permission_type),
            )
            for resource in response.resources
            for each in resource.acls
        ]

    async def create(
        self, bindings: Sequence[AclBinding] | AclBinding, *, timeout_ms: float | None = None
    ) -> None:
        """Adds rules. Raises the first error of one."""
        raise_first(await self.try_create(bindings, timeout_ms=timeout_ms))

    async def try_create(
        self, bindings: Sequence[AclBinding] | AclBinding, *, timeout_ms: float | None = None
    ) -> dict[AclBinding, BarnabasError | None]:
        """As `create`, with an error per rule."""
        bindings = named.several(bindings, AclBinding, "a rule is an AclBinding")
        for pattern, entry in bindings:
            named.one(pattern, ResourcePattern, "the pattern of a rule is a ResourcePattern")
            named.one(entry, AccessControlEntry, "the entry of a rule is an AccessControlEntry")
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=pattern.resource,
                    resource_name=pattern.name,
                    resource_pattern_type=pattern.pattern_type,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for pattern, entry in bindings
            ]
        )
        response = await self._context.cluster.send_to_any(
            request, CreateAclsResponse, self._context.deadline(timeout_ms)
        )
        results = [error_of(each.error_code, each.error_message) for each in response.results]
        return dict(zip(bindings, results, strict=True))

    async def delete(
        self, filters: Sequence[AclFilter] | AclFilter, *, timeout_ms: float | None = None
    ) -> list[AclBinding]:
        """Removes the rules that any of the filters matches; which they were. Raises the first error."""
        filters = named.several(filters, AclFilter, "a rule is an AclFilter")
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=each.resource,
                    resource_name_filter=each.name,
                    pattern_type_filter=each.pattern_type,
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in filters
            ]
        )
        response = await self._context.cluster.send_to_any(
            request, DeleteAclsResponse, self._context.deadline(timeout_ms)
        )
        removed: dict[AclBinding, KafkaError | None] = {}
        for result in response.filter_results:
            failed = error_of(result.error_code, result.error_message)
            if failed is not None:
                raise failed
            for each in result.matching_acls:
                binding = _binding(
                    (each.resource_type, each.resource_name, each.pattern_type),
                    (each.principal, each.host, each.operation, each.permission_type),
                )
                removed[binding] = error_of(each.error_code, each.error_message)
        raise_first(removed)
        return list(removed)


def _binding(pattern: tuple[int, str, int], entry: tuple[str, str, int, int]) -> AclBinding:
    return AclBinding(
        ResourcePattern(of_code(Resource, pattern[0]), pattern[1], of_code(PatternType, pattern[2])),
        AccessControlEntry(entry[0], entry[1], of_code(Operation, entry[2]), of_code(Permission, entry[3])),
    )
