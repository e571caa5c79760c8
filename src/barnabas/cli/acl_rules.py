"""The rules that the flags of ``barnabas acls`` mean, by the resources that they are for (``AclCommand``)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.cli.options import ToolError
from barnabas.core.acl import (
    CLUSTER_NAME,
    SUPPORTED,
    WILDCARD,
    AccessControlEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    is_principal,
    of_name,
    pascal_name,
)
from barnabas.core.errors import BarnabasError

Rules = Mapping[AclFilter, tuple[AccessControlEntry, ...]]
"""Entries by the resources that they are for."""

_RESOURCE_OPTIONS: Final = {
    "topic": Resource.TOPIC,
    "group": Resource.GROUP,
    "transactional-id": Resource.TRANSACTIONAL_ID,
    "delegation-token": Resource.DELEGATION_TOKEN,
    "user-principal": Resource.USER,
}
_CLUSTER: Final = AclFilter(Resource.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


class NotAPrincipalError(BarnabasError):
    """A text that should name a principal."""


def rules_of(given: Mapping[str, Any]) -> Rules:
    """The rules to add or remove. Raises ToolError in the script's words, NotAPrincipalError."""
    rules: dict[AclFilter, dict[AccessControlEntry, None]] = {}
    for resource, operations in _wanted(given):
        entries = rules.setdefault(resource, {})
        entries.update(dict.fromkeys(_entries(given, operations)))
    for resource, entries in rules.items():
        valid = (Operation.ALL, *SUPPORTED[resource.resource])
        if any(entry.operation not in valid for entry in entries):
            names = ", ".join(map(pascal_name, sorted(valid)))
            raise ToolError(f"ResourceType {resource.resource.name} only supports operations {names}")
    return {resource: tuple(sorted(entries)) for resource, entries in rules.items()}


def _wanted(given: Mapping[str, Any]) -> Iterable[tuple[AclFilter, tuple[Operation, ...]]]:
    """Resources, and the operations that rules for them are about."""
    resources = resources_of(given)
    if not resources:
        raise ToolError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    if not given["producer"] and not given["consumer"]:
        named = tuple(of_name(Operation, name.strip()) for name in given["operation"]) or (Operation.ALL,)
        for resource in resources:
            yield resource, named
    for resource in resources if given["producer"] else ():
        if resource.resource is Resource.TOPIC:
            yield resource, (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
        elif resource.resource is Resource.TRANSACTIONAL_ID:
            yield resource, (Operation.WRITE, Operation.DESCRIBE)
    if given["producer"] and given["idempotent"]:
        yield _CLUSTER, (Operation.IDEMPOTENT_WRITE,)
    for resource in resources if given["consumer"] else ():
        if resource.resource is Resource.TOPIC:
            yield resource, (Operation.READ, Operation.DESCRIBE)
        elif resource.resource is Resource.GROUP:
            yield resource, (Operation.READ,)


def resources_of(given: Mapping[str, Any]) -> list[AclFilter]:
    """The resources that were named."""
    pattern_type = pattern_type_of(given)
    named = [
        AclFilter(resource, name.strip(), pattern_type)
        for option, resource in _RESOURCE_OPTIONS.items()
        for name in given[option]
    ]
    if pattern_type is PatternType.LITERAL and (given["cluster"] or given["idempotent"]):
        named.append(_CLUSTER)
    return list(dict.fromkeys(named))


def pattern_type_of(given: Mapping[str, Any]) -> PatternType:
    return PatternType[given["resource-pattern-type"].upper()]


def principals(texts: Iterable[str]) -> list[str]:
    """The principals, each as ``type:name``. Raises NotAPrincipalError."""
    found = [text.strip() for text in texts]
    for each in found:
        if not is_principal(each):
            raise NotAPrincipalError(
                f"expected a string in format principalType:principalName but got {each}"
            )
    return found


def _entries(given: Mapping[str, Any], operations: tuple[Operation, ...]) -> Iterable[AccessControlEntry]:
    for kind, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
        # Hosts count only with somebody who is allowed or denied to come from them.
        hosts = [host.strip() for host in given[f"{kind}-host"]] or [WILDCARD]
        for principal in principals(given[f"{kind}-principal"]):
            for operation in operations:
                for host in hosts:
                    yield AccessControlEntry(principal, host, operation, permission)
