"""`RoleFile`: what each user may do, by cluster, resource and pattern, from a TOML file.

    default = ["reader"]            # of users that are not named; none when left out

    [users]
    alice = ["operator"]

    [[roles.operator]]
    clusters = ["prod-*"]           # all when left out
    resources = ["topic", "message"]
    names = ["orders*"]             # all when left out
    may = ["read", "change"]        # read when left out

Patterns know ``*``, ``?`` and ``[abc]``. Who may change may read. No role forbids anything: a user has what
one of their roles gives.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from barnabas.console.access.files import WatchedFile

EVERY: Final = "*"


class ResourceKind(StrEnum):
    """What roles are about."""

    CLUSTER = "cluster"
    """Brokers, controller, health, log directories: what is nobody's own."""
    TOPIC = "topic"
    MESSAGE = "message"
    """Records, by the name of their topic."""
    GROUP = "group"
    TRANSACTION = "transaction"
    USER = "user"
    ACL = "acl"
    """By the name of the resource that the rule is about."""
    QUOTA = "quota"
    TOKEN = "token"  # noqa: S105 - a kind of thing
    STORE = "store"
    AUDIT = "audit"


class Verb(StrEnum):
    """What may be done."""

    READ = "read"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Need:
    """A right that something takes. A name of None is some name; `EVERY` is all names there are."""

    resource: ResourceKind
    name: str | None
    verb: Verb = Verb.READ
    is_prefix: bool = False
    """Whether it is about every name that begins with this one."""

    def __str__(self) -> str:
        names = {None: f"a {self.resource}", EVERY: f"every {self.resource}"}
        return f"{self.verb} {names.get(self.name, f'{self.resource} {self.name}')}"


@dataclass(frozen=True, slots=True)
class Grant:
    """One rule of a role."""

    clusters: tuple[str, ...]
    resources: frozenset[str]
    names: tuple[str, ...]
    verbs: frozenset[str]

    def gives(self, cluster: str, need: Need) -> bool:
        """Whether it is enough."""
        if need.verb not in self.verbs or need.resource not in self.resources:
            return False
        if not _matches(self.clusters, cluster):
            return False
        if need.name is None:
            return True
        # All names that begin with one: a pattern is enough that goes on behind it.
        if need.is_prefix and not _matches((one for one in self.names if one.endswith("*")), need.name):
            return False
        # All names: only the pattern of all is enough, not one that happens to match an asterisk.
        return EVERY in self.names if need.name == EVERY else _matches(self.names, need.name)


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)


@dataclass(frozen=True, slots=True)
class Grants:
    """All that one user may do."""

    rules: tuple[Grant, ...]

    def give(self, cluster: str, need: Need) -> bool:
        """Whether a rule is enough."""
        return any(one.gives(cluster, need) for one in self.rules)

    def change_clusters(self) -> bool:
        """Whether they may change some cluster as such."""
        return any(
            ResourceKind.CLUSTER in one.resources and Verb.CHANGE in one.verbs and EVERY in one.names
            for one in self.rules
        )

    def know(self, cluster: str) -> bool:
        """Whether they may see anything of a cluster."""
        return any(_matches(one.clusters, cluster) for one in self.rules)


_ALL_RESOURCES: Final = frozenset(map(str, ResourceKind))
READER: Final = Grants((Grant((EVERY,), _ALL_RESOURCES, (EVERY,), frozenset({Verb.READ})),))
"""Whoever has logged in to a console without roles: they read."""
OPERATOR: Final = Grants((Grant((EVERY,), _ALL_RESOURCES, (EVERY,), frozenset(Verb)),))
"""Whoever sits at a console without login."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The file's content."""

    users: Mapping[str, Grants]
    default: Grants
    roles: Mapping[str, tuple[Grant, ...]]

    def of(self, user: str, claimed: Iterable[str] = ()) -> Grants:
        """What a user may do, with roles that an identity provider gives; names that are no roles here give
        nothing.
        """
        named = self.users.get(user)
        given = [grant for name in claimed for grant in self.roles.get(name, ())]
        if named is None and not given:
            return self.default
        return Grants((*(named.rules if named else ()), *given))


class RoleFile:
    """Roles as the file has them now."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path, parsed)

    def grants(self, user: str, claimed: Iterable[str] = ()) -> Grants:
        """What a user may do. Raises UnreadableFileError."""
        return self._file.read().of(user, claimed)


def parsed(text: str) -> Roles:
    """The roles of a file. Raises ValueError with what is wrong."""
    table = tomllib.loads(text)
    _only(table, {"default", "users", "roles"}, "the file")
    roles = {
        name: tuple(_grant(name, one) for one in _list_of(rules, dict, f"role {name}"))
        for name, rules in _table(table.get("roles", {}), "roles").items()
    }

    def grants(names: Any, of: str) -> Grants:
        found: list[Grant] = []
        for name in _list_of(names, str, of):
            if name not in roles:
                raise ValueError(f"{of}: there is no role {name!r}")
            found += roles[name]
        return Grants(tuple(found))

    users = {
        user: grants(names, f"user {user}") for user, names in _table(table.get("users", {}), "users").items()
    }
    return Roles(users, grants(table.get("default", []), "default"), roles)


def _grant(role: str, rule: dict[str, Any]) -> Grant:
    of = f"role {role}"
    _only(rule, {"clusters", "resources", "names", "may"}, of)
    resources = set(_list_of(rule.get("resources", []), str, f"{of} resources"))
    if not resources:
        raise ValueError(f"{of}: a rule names its resources")
    if unknown := resources - _ALL_RESOURCES - {EVERY}:
        raise ValueError(f"{of}: there is no resource {min(unknown)!r}")
    may = set(_list_of(rule.get("may", ["read"]), str, f"{of} may"))
    if unknown := may - set(map(str, Verb)):
        raise ValueError(f"{of}: may is read or change, not {min(unknown)!r}")
    return Grant(
        tuple(_list_of(rule.get("clusters", [EVERY]), str, f"{of} clusters")),
        _ALL_RESOURCES if EVERY in resources else frozenset(resources),
        tuple(_list_of(rule.get("names", [EVERY]), str, f"{of} names")),
        frozenset(may | {str(Verb.READ)} if Verb.CHANGE in may else may),
    )


def _only(table: Mapping[str, Any], known: set[str], of: str) -> None:
    if unknown := set(table) - known:
        raise ValueError(f"{of}: there is no key {min(unknown)!r}")


def _table(value: Any, of: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{of} is a table")  # noqa: TRY004 - of the file, not of the program
    return value


def _list_of(value: Any, kind: type, of: str) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
        raise ValueError(f"{of} is a list of {'tables' if kind is dict else 'texts'}")
    return value
