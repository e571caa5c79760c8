"""Where access rules lie in the store, and how (``ZkAclStore``, ``ResourceZNode``,
``ExtendedAclChangeEvent``).

Rules of literal names are below /kafka-acl, others below /kafka-acl-extended; a broker that changes some
leaves a notice beside them that names the pattern, in Kafka's two formats.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.cluster.store.payload import (
    UnreadableZnodeError,
    decode_json,
    encode_json,
    field,
    number_field,
    typed,
)
from barnabas.core.acl import (
    AccessControlEntry,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
    is_principal,
    of_name,
    pascal_name,
)

ROOTS: Final = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
NOTICES: Final = {
    PatternType.LITERAL: "/kafka-acl-changes",
    PatternType.PREFIXED: "/kafka-acl-extended-changes",
}
NOTICE_NAME: Final = "acl_changes_"
RESOURCES: Final = tuple(each for each in Resource if each > Resource.ANY)

PATHS: Final = (
    *NOTICES.values(),
    *(f"{root}/{pascal_name(resource)}" for root in ROOTS.values() for resource in RESOURCES),
)
"""What a broker with an authorizer makes sure of when it starts (``createAclPaths``)."""

_VERSION: Final = 1


def pattern_path(pattern: ResourcePattern) -> str:
    """Where the rules of a pattern are; the name as it is, so that one with a slash has no place."""
    return f"{ROOTS[pattern.pattern_type]}/{pascal_name(pattern.resource)}/{pattern.name}"


def encode_acls(entries: Iterable[AccessControlEntry]) -> bytes:
    """The rules of one pattern."""
    listed = [
        {
            "principal": entry.principal,
            "permissionType": pascal_name(entry.permission),
            "host": entry.host,
            "operation": pascal_name(entry.operation),
        }
        for entry in sorted(entries)
    ]
    return encode_json({"acls": listed, "version": _VERSION})


def decode_acls(data: bytes | None) -> frozenset[AccessControlEntry]:
    """The rules of one pattern. Raises UnreadableZnodeError, as for a znode without data."""
    value = decode_json(data)
    version = number_field(value, "version")
    if version != _VERSION:
        raise UnreadableZnodeError(f"version is {version}, and only {_VERSION} is known")
    return frozenset(_entry(typed(each, dict, "a rule")) for each in field(value, "acls", list))


def _entry(fields: dict[str, object]) -> AccessControlEntry:
    principal = field(fields, "principal", str)
    if not is_principal(principal):
        raise UnreadableZnodeError("a principal is not written as type:name")
    operation = of_name(Operation, field(fields, "operation", str))
    permission = of_name(Permission, field(fields, "permissionType", str))
    if operation < Operation.ALL or permission < Permission.DENY:
        raise UnreadableZnodeError("a rule has an operation or a permission that is not known")
    return AccessControlEntry(principal, field(fields, "host", str), operation, permission)


def encode_notice(pattern: ResourcePattern) -> bytes:
    """The notice that the rules of a pattern have changed."""
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{pattern.resource.name}:{pattern.name}".encode()
    return encode_json(
        {
            "version": _VERSION,
            "resourceType": pattern.resource.name,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode_literal_notice(data: bytes | None) -> ResourcePattern:
    """The pattern of a notice of /kafka-acl-changes, ``TOPIC:orders``. Raises UnreadableZnodeError."""
    try:
        resource, separator, name = (data or b"").decode().partition(":")
    except UnicodeDecodeError as error:
        raise UnreadableZnodeError(f"it is no UTF-8: {error.reason} at byte {error.start}") from error
    return _pattern(resource, name if separator else "", "LITERAL")


def decode_extended_notice(data: bytes | None) -> ResourcePattern:
    """The pattern that a notice of /kafka-acl-extended-changes names. Raises UnreadableZnodeError."""
    value = decode_json(data)
    version = number_field(value, "version")
    if version > _VERSION:
        raise UnreadableZnodeError(f"version is {version}, and only {_VERSION} is known")
    return _pattern(
        field(value, "resourceType", str), field(value, "name", str), field(value, "patternType", str)
    )


def _pattern(resource: str, name: str, pattern_type: str) -> ResourcePattern:
    try:
        found = ResourcePattern(Resource[resource.upper()], name, PatternType[pattern_type.upper()])
    except KeyError as error:
        raise UnreadableZnodeError(f"it names {error}, which is not known") from error
    if found.resource <= Resource.ANY or found.pattern_type not in ROOTS or not name or "/" in name:
        raise UnreadableZnodeError("it names no resource pattern")
    return found
