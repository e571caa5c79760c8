"""What each path and each action needs. A path that is not here is refused to whoever has logged in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.console.access.roles import EVERY, Need, ResourceKind, Verb

Parameters: TypeAlias = Mapping[str, str]
"""Of the path and of the query."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a path needs, and which names its list is cut down to."""

    needs: Callable[[Parameters], Sequence[Need]]
    lists: ResourceKind | None = None


def _any(resource: ResourceKind) -> Rule:
    """A list: of those that one may read."""
    return Rule(lambda _given: [Need(resource, None)], resource)


def _all(resource: ResourceKind) -> Rule:
    """What cannot be cut down."""
    return Rule(lambda _given: [Need(resource, EVERY)])


def _one(resource: ResourceKind, parameter: str, lists: ResourceKind | None = None) -> Rule:
    """One of them, or some where none is named yet."""
    return Rule(lambda given: [Need(resource, given.get(parameter) or None)], lists)


def _of_kind(parameter: str, kinds: Mapping[str, ResourceKind]) -> Callable[[Parameters], Sequence[Need]]:
    """A thing that its kind and this parameter name; a kind that is none of these is the cluster's own."""

    def needs(given: Parameters) -> Sequence[Need]:
        # Of the one parameter that the view reads: another one beside it says nothing.
        name = given.get(parameter, "")
        kind = given.get("kind", "cluster")
        if kind == "partition":
            name = name.rpartition("-")[0]
        resource = kinds.get(kind)
        return [Need(ResourceKind.CLUSTER, EVERY) if resource is None else Need(resource, name or EVERY)]

    return needs


READ_RULES: Final[Mapping[str, Rule]] = {
    "": _all(ResourceKind.CLUSTER),
    "/brokers": _all(ResourceKind.CLUSTER),
    "/brokers/{broker_id}": _all(ResourceKind.CLUSTER),
    "/topics": _any(ResourceKind.TOPIC),
    "/topics/{name}": _one(ResourceKind.TOPIC, "name", ResourceKind.GROUP),
    "/groups": _any(ResourceKind.GROUP),
    "/groups/{name:path}": _one(ResourceKind.GROUP, "name"),
    "/lag-rules/{name:path}": _one(ResourceKind.GROUP, "name"),
    "/clients": _all(ResourceKind.CLUSTER),
    "/clients/{name:path}": _all(ResourceKind.CLUSTER),
    "/log-dirs": _all(ResourceKind.CLUSTER),
    "/messages": _one(ResourceKind.MESSAGE, "topic"),
    "/health": _all(ResourceKind.CLUSTER),
    "/alerts": _all(ResourceKind.CLUSTER),
    "/history": Rule(_of_kind("subject", {"topic": ResourceKind.TOPIC, "group": ResourceKind.GROUP})),
    "/timeline": _all(ResourceKind.CLUSTER),
    "/controller": _all(ResourceKind.CLUSTER),
    "/quorum": _all(ResourceKind.CLUSTER),
    "/configs": _all(ResourceKind.CLUSTER),
    "/configs/{kind}/{name}": Rule(_of_kind("name", {"topic": ResourceKind.TOPIC})),
    "/explain/{kind}/{name:path}": Rule(
        _of_kind(
            "name",
            {
                "coordinator": ResourceKind.GROUP,
                "partition": ResourceKind.TOPIC,
                "transaction": ResourceKind.TRANSACTION,
            },
        )
    ),
    "/transactions": _any(ResourceKind.TRANSACTION),
    "/transactions/hanging": _all(ResourceKind.TRANSACTION),
    "/users": _all(ResourceKind.USER),
    "/acls": _all(ResourceKind.ACL),
    "/quotas": _all(ResourceKind.QUOTA),
    "/tokens": _all(ResourceKind.TOKEN),
    "/store": _all(ResourceKind.STORE),
    "/audit": _all(ResourceKind.AUDIT),
}


class Part(NamedTuple):
    """A right that an action takes: the name is a field of its parameters, and all names where that is
    empty, or where there is none.
    """

    resource: ResourceKind
    field: str | None = None
    verb: Verb = Verb.CHANGE


_TOPIC: Final = (Part(ResourceKind.TOPIC, "topic"),)
_GROUP: Final = (Part(ResourceKind.GROUP, "group"),)

ACTION_RULES: Final[Mapping[str, tuple[Part, ...]]] = {
    "create-topic": _TOPIC,
    "expand-topic": _TOPIC,
    "alter-topic": _TOPIC,
    "truncate-topic": _TOPIC,
    "delete-topic": _TOPIC,
    "elect-leaders": _TOPIC,
    "reassign": _TOPIC,
    "replication-factor": _TOPIC,
    "cancel-reassignment": _TOPIC,
    "move-log-dir": _TOPIC,
    "alter-broker": (Part(ResourceKind.CLUSTER),),
    "alter-brokers": (Part(ResourceKind.CLUSTER),),
    "reset-offsets": _GROUP,
    "set-offset": _GROUP,
    "copy-offsets": (Part(ResourceKind.GROUP, "source", Verb.READ), *_GROUP),
    "delete-offsets": _GROUP,
    "restore-offsets": _GROUP,
    "produce-record": (Part(ResourceKind.MESSAGE, "topic"),),
    "delete-group": _GROUP,
    # A transaction is open in a partition: whoever aborts it there decides what its readers see.
    "abort-hanging": (Part(ResourceKind.TRANSACTION), *_TOPIC),
    "fence-producer": (Part(ResourceKind.TRANSACTION, "transactional_id"),),
    "set-user": (Part(ResourceKind.USER, "user"),),
    "delete-user": (Part(ResourceKind.USER, "user"),),
    "add-acl": (Part(ResourceKind.ACL, "name"),),
    "delete-acl": (Part(ResourceKind.ACL, "name"),),
    "set-quota": (Part(ResourceKind.QUOTA),),
    "expire-token": (Part(ResourceKind.TOKEN),),
}


def action_needs(kind: str, wanted: Any = None) -> list[Need]:
    """What an action takes: with its parameters, or of some name while these are not known. Raises KeyError
    for one without a rule.
    """
    parts = ACTION_RULES[kind]
    if wanted is None:
        return [Need(part.resource, None, part.verb) for part in parts]
    # A rule of access with a prefix is about every resource that begins with its name.
    is_prefix = getattr(wanted, "pattern", None) == "prefixed"
    return [
        Need(
            part.resource,
            str(getattr(wanted, part.field) or EVERY) if part.field else EVERY,
            part.verb,
            is_prefix=is_prefix and part.resource is ResourceKind.ACL,
        )
        for part in parts
    ]


def button_needs(kind: str, given: Mapping[str, Any]) -> list[Need]:
    """What a button takes that leads to an action's form: a name that it does not give is typed there, so
    some name is enough. Raises KeyError for an action without a rule.
    """
    return [
        Need(
            part.resource,
            EVERY if part.field is None else str(given.get(part.field) or "") or None,
            part.verb,
        )
        for part in ACTION_RULES[kind]
    ]
