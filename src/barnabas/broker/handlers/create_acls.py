"""CreateAcls (30), v0-3.

Behaviour: each rule is written to the metadata store, and holds on this broker when the answer goes, on
           others as soon as they hear of it; SECURITY_DISABLED for each without an authorizer. Any broker
           does it.
Versions:  v1 patterns of names (KIP-290) · v2 flexible · v3 users as resources.
"""

from typing import Final

from barnabas.broker.acl_requests import refuse_unreadable
from barnabas.broker.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    PatternType,
    Permission,
    ResourcePattern,
    of_code,
)
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

_ONLY_CLUSTER: Final = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
_NO_NAME: Final = "Invalid empty resource name"


def _failed(request: CreateAclsRequest, error: KafkaError, _version: int) -> Sliced[CreateAclsResponse]:
    response = CreateAclsResponse()
    for _ in request.creations:
        response.results.append(AclCreationResult(error_code=error.code, error_message=error.own_message))
        yield
    return response


@handles(ApiKey.CREATE_ACLS, versions=(0, 3), failed=_failed)
@sliced
def create_acls(context: RequestContext, request: CreateAclsRequest) -> Sliced[CreateAclsResponse]:
    for creation in request.creations:
        yield
        _check_readable(creation)
    context.require_cluster(Operation.ALTER)
    refused: dict[int, KafkaError] = {}
    bindings: dict[int, AclBinding] = {}
    for at, creation in enumerate(request.creations):
        yield
        binding = _binding(creation)
        error = _problem(binding.pattern)
        if error is None:
            bindings[at] = binding
        else:
            refused[at] = error
    results = yield from alone(context, context.broker.acls.create_acls(list(bindings.values())))
    errors = {**refused, **dict(zip(bindings, results, strict=True))}
    response = CreateAclsResponse()
    for at in range(len(request.creations)):
        yield
        error = errors[at]
        response.results.append(
            AclCreationResult()
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.own_message)
        )
    return response


def _check_readable(creation: AclCreation) -> None:
    """Raises CloseConnection for what Kafka makes no request of."""
    if 0 in (
        creation.resource_pattern_type,
        creation.resource_type,
        creation.permission_type,
        creation.operation,
    ):
        refuse_unreadable("CreatableAcls contain unknown elements")


def _binding(creation: AclCreation) -> AclBinding:
    """The rule. Raises UNKNOWN_SERVER_ERROR, for the whole request as in Kafka, where it has what only
    filters may have.
    """
    pattern = ResourcePattern(
        of_code(Resource, creation.resource_type),
        creation.resource_name,
        of_code(PatternType, creation.resource_pattern_type),
    )
    entry = AccessControlEntry(
        creation.principal,
        creation.host,
        of_code(Operation, creation.operation),
        of_code(Permission, creation.permission_type),
    )
    if (
        pattern.resource is Resource.ANY
        or pattern.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or entry.operation is Operation.ANY
        or entry.permission is Permission.ANY
    ):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return AclBinding(pattern, entry)


def _problem(pattern: ResourcePattern) -> KafkaError | None:
    if pattern.resource is Resource.CLUSTER and pattern.name != CLUSTER_NAME:
        return KafkaError(ErrorCode.INVALID_REQUEST, _ONLY_CLUSTER)
    if not pattern.name:
        return KafkaError(ErrorCode.INVALID_REQUEST, _NO_NAME)
    return None
