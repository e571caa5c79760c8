"""`AclIndex`: all access rules of a cluster, laid out so that one question looks at few of them
(``AclAuthorizer.aclCache``).

Theory of operation
-------------------
The rules for a resource are those of three kinds of patterns: its literal name, the literal ``*``, and every
prefix of its name. Literal names are found in a dict. Prefixes lie in a sorted list, each with the longest
other prefix that it begins with. Every prefix of a name sorts before the name or equals it, and whatever
sorts between such a prefix and the name begins with that prefix. So the last entry that does not sort after
the name begins with each of its prefixes: one bisection, and a walk up from there, meets them all.

The rules of a pattern are grouped by principal and host into two sets of bits, what is allowed and what is
denied. A question is two lookups by principal and two by host for each pattern that fits, however many rules
the pattern has.

A denial anywhere wins. Some operations follow from others, but only where they are allowed.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from barnabas.core.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
)
from barnabas.core.slices import Sliced

ALL_BITS: Final = (1 << (max(Operation) + 1)) - 1
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Who is allowed one of these is allowed the operation too (KIP-95, ``AclAuthorizer.authorizeAction``)."""
_SUFFICIENT: Final = tuple(
    (1 << operation) | sum(1 << each for each in _IMPLIED_BY.get(operation, ())) for operation in Operation
)
"""By the number of an operation: what allows it, as bits."""


class _Rules:
    """The rules of one pattern: as they were written, and by principal and host as bits."""

    __slots__ = ("by_principal", "entries")

    def __init__(self, entries: frozenset[AccessControlEntry]) -> None:
        self.entries = entries
        self.by_principal: dict[str, dict[str, tuple[int, int]]] = {}
        for entry in entries:
            hosts = self.by_principal.setdefault(entry.principal, {})
            denied, allowed = hosts.get(entry.host, (0, 0))
            bits = ALL_BITS if entry.operation is Operation.ALL else 1 << entry.operation
            if entry.permission is Permission.DENY:
                denied |= bits
            elif entry.permission is Permission.ALLOW:
                allowed |= bits
            hosts[entry.host] = denied, allowed

    def bits(self, principal: str, host: str) -> tuple[int, int]:
        """What is denied and what is allowed to the principal from the host."""
        denied = allowed = 0
        for name in (principal, WILDCARD_PRINCIPAL):
            hosts = self.by_principal.get(name)
            if hosts is None:
                continue
            for where in (host, WILDCARD):
                found = hosts.get(where)
                if found is not None:
                    denied |= found[0]
                    allowed |= found[1]
        return denied, allowed


class _TypeIndex:
    """The rules of all resources of one type."""

    __slots__ = ("_ancestors", "literal", "names", "prefixed", "prefixes")

    def __init__(self) -> None:
        self.literal: dict[str, _Rules] = {}
        self.prefixed: dict[str, _Rules] = {}
        self.prefixes: list[str] = []
        """Sorted."""
        self._ancestors: dict[str, str | None] = {}
        """Of each prefix the longest other one that it begins with."""
        self.names: dict[str, dict[ResourcePattern, None]] = {}
        """By principal, the patterns with a rule that names it."""

    def put(self, pattern: ResourcePattern, rules: _Rules | None) -> None:
        """Replaces the rules of a pattern; with None it has none."""
        table = self.literal if pattern.pattern_type is PatternType.LITERAL else self.prefixed
        old = table.pop(pattern.name, None)
        for principal in old.by_principal if old is not None else ():
            patterns = self.names[principal]
            del patterns[pattern]
            if not patterns:
                del self.names[principal]
        if rules is not None:
            table[pattern.name] = rules
            for principal in rules.by_principal:
                self.names.setdefault(principal, {})[pattern] = None
        if table is self.prefixed and (old is None) != (rules is None):
            self._prefix_changed(pattern.name, added=rules is not None)

    def _prefix_changed(self, name: str, *, added: bool) -> None:
        prefixes = self.prefixes
        if not added:
            at = bisect_right(prefixes, name) - 1
            del prefixes[at]
            above = self._ancestors.pop(name)
            for below in self._begin_with(name, at):
                if self._ancestors[below] == name:
                    self._ancestors[below] = above
            return
        above = next(self.prefixes_of(name), None)
        insort(prefixes, name)
        self._ancestors[name] = above
        for below in self._begin_with(name, bisect_right(prefixes, name)):
            if self._ancestors[below] == above:
                self._ancestors[below] = name

    def _begin_with(self, name: str, at: int) -> Iterator[str]:
        while at < len(self.prefixes) and self.prefixes[at].startswith(name):
            yield self.prefixes[at]
            at += 1

    def prefixes_of(self, name: str) -> Iterator[str]:
        """The prefixes with rules that a name begins with, the longest first."""
        at = bisect_right(self.prefixes, name)
        found = self.prefixes[at - 1] if at else None
        while found is not None:
            if name.startswith(found):
                yield found
            found = self._ancestors[found]


class AclIndex:
    """All rules, by resource pattern."""

    __slots__ = ("_order", "_patterns", "_types")

    def __init__(self) -> None:
        self._types = tuple(_TypeIndex() for _ in Resource)
        self._patterns: dict[ResourcePattern, frozenset[AccessControlEntry]] = {}
        self._order: list[ResourcePattern] = []
        """All patterns that have rules, sorted as answers show them."""

    def entries(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        """The rules of one pattern."""
        return self._patterns.get(pattern, frozenset())

    def put(self, pattern: ResourcePattern, entries: Iterable[AccessControlEntry]) -> None:
        """Replaces the rules of a pattern (``updateCache``)."""
        kept = frozenset(entries)
        at = bisect_left(self._order, _order(pattern), key=_order)
        if not kept:
            if self._patterns.pop(pattern, None) is not None:
                del self._order[at]
        else:
            if pattern not in self._patterns:
                self._order.insert(at, pattern)
            self._patterns[pattern] = kept
        self._types[pattern.resource].put(pattern, _Rules(kept) if kept else None)

    def patterns(self) -> list[ResourcePattern]:
        """All patterns that have rules now, sorted by type, kind and name."""
        return self._order.copy()

    def matching(self, wanted: AclFilter) -> Sliced[list[AclBinding]]:
        """The rules that a filter matches, pattern by pattern (``acls``). A pattern that changes meanwhile is
        shown as it is when its turn comes.
        """
        found: list[AclBinding] = []
        for pattern in self.patterns():
            yield
            if wanted.matches_pattern(pattern):
                for entry in sorted(self.entries(pattern)):
                    yield
                    if wanted.matches_entry(entry):
                        found.append(AclBinding(pattern, entry))
        return found

    def decide(
        self, principal: str, host: str, operation: Operation, resource: Resource, name: str
    ) -> bool | None:
        """Whether rules allow it; None where the resource has no rules at all."""
        index = self._types[resource]
        denied = allowed = 0
        some = False
        for rules in (index.literal.get(name), index.literal.get(WILDCARD)):
            if rules is not None:
                some = True
                no, yes = rules.bits(principal, host)
                denied |= no
                allowed |= yes
        for prefix in index.prefixes_of(name) if index.prefixes else ():
            some = True
            no, yes = index.prefixed[prefix].bits(principal, host)
            denied |= no
            allowed |= yes
        if not some:
            return None
        # A denial of one operation denies no other: DESCRIBE may be allowed where READ is denied.
        return not denied & (1 << operation) and bool(allowed & _SUFFICIENT[operation])

    def decide_any(
        self, principal: str, host: str, operation: Operation, resource: Resource, *, without_rules: bool
    ) -> bool:
        """Whether there can be a resource of the type that rules allow it to (KIP-679,
        ``authorizeByResourceType``).

        `without_rules` is what holds for a resource that no rule is for.
        """
        index = self._types[resource]
        bit = 1 << operation
        everything = index.literal.get(WILDCARD)
        # All resources are denied: nothing that is allowed matters.
        if everything is not None and everything.bits(principal, host)[0] & bit:
            return False
        if without_rules:
            return True
        for pattern in chain(index.names.get(principal, ()), index.names.get(WILDCARD_PRINCIPAL, ())):
            is_literal = pattern.pattern_type is PatternType.LITERAL
            rules = (index.literal if is_literal else index.prefixed)[pattern.name]
            denied, allowed = rules.bits(principal, host)
            if not allowed & bit:
                continue
            # There is always a name that the literal * allows and no prefix denies.
            if is_literal and pattern.name == WILDCARD:
                return True
            # What a pattern allows may all be denied again: a name by itself, and both by a prefix of it.
            if not denied & bit and not any(
                index.prefixed[prefix].bits(principal, host)[0] & bit
                for prefix in index.prefixes_of(pattern.name)
            ):
                return True
        return False

    def __repr__(self) -> str:
        return f"<AclIndex patterns={len(self._patterns)}>"


def _order(pattern: ResourcePattern) -> tuple[Resource, PatternType, str]:
    """Where a pattern stands among others (``AclAuthorizer.ResourceOrdering``)."""
    return pattern.resource, pattern.pattern_type, pattern.name
