"""Which flags of ``barnabas configs`` go together, and which entity they name, in the words of
kafka-configs.sh.

The checks stand in the order of ``ConfigCommandOptions.checkArgs``, since only the first failure is printed.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from barnabas.cli.facts import refuse_json
from barnabas.cli.options import ToolError
from barnabas.core.client_quotas import is_address

Given = Mapping[str, Any]
"""What was given, by Kafka's names of the options; None, False or () for what was not."""

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
BROKER_LOGGERS: Final = "broker-loggers"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"
USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"
WITH_QUOTAS: Final = (USERS, CLIENTS, IPS)
"""They have quotas, users also credentials."""
_NAMED_FREELY: Final = (TOPICS, CLIENT_METRICS, GROUPS)
_TYPES: Final = ("topics", "clients", "users", "brokers", "ips", "broker-loggers", "client-metrics", "groups")
_TYPES_OF_ZOOKEEPER: Final = ("users", "brokers")
_OPTION_OF: Final = {
    TOPICS: "topic",
    CLIENTS: "client",
    USERS: "user",
    BROKERS: "broker",
    BROKER_LOGGERS: "broker-logger",
    IPS: "ip",
    CLIENT_METRICS: CLIENT_METRICS,
    GROUPS: "group",
}
_DEFAULTS_OF: Final = {
    CLIENTS: "client-defaults",
    USERS: "user-defaults",
    BROKERS: "broker-defaults",
    IPS: "ip-defaults",
}
_OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"


class Entity(NamedTuple):
    """What is configured: its type, and its name, empty for the default of all, None when there was none
    given.
    """

    type: str
    name: str | None

    @property
    def noun(self) -> str:
        """The type as a word for one of them."""
        return self.type[:-1]


def quota_entities(given: Given) -> list[Entity]:
    """Whose quotas checked flags name, where they name users, clients or addresses."""
    types, names = _types(given), _names(given)
    if types[0] not in WITH_QUOTAS:
        return []
    return [Entity(kind, name) for kind, name in zip_longest(types, names)]


def entity_of(given: Given) -> Entity:
    """The entity that checked flags name."""
    names = _names(given)
    return Entity(_types(given)[0], names[0] if names else None)


def _types(given: Given) -> list[str]:
    short = [kind for kind, option in _OPTION_OF.items() if given[option] is not None]
    return [*given["entity-type"], *short, *(kind for kind, option in _DEFAULTS_OF.items() if given[option])]


def _names(given: Given) -> list[str]:
    short = [given[option] for option in _OPTION_OF.values() if given[option] is not None]
    defaults = [option for option in _DEFAULTS_OF.values() if given[option]]
    return [*given["entity-name"], *short, *("" for _ in defaults)]


def named_in_order(given: Given, arguments: Sequence[str]) -> dict[str, Any]:
    """What was given, where an ``--entity-default`` is an empty name at its place among the
    ``--entity-name``: the first of either belongs to the first ``--entity-type``.
    """
    names, ordered = iter(given["entity-name"]), []
    for argument in arguments:
        flag = argument.partition("=")[0]
        if flag == "--entity-default":
            ordered.append("")
        elif flag == "--entity-name":
            ordered += [name for name in [next(names, None)] if name is not None]
    return {**given, "entity-name": ordered, "entity-default": False}


def check(given: Given) -> None:
    """Raises ToolError when the flags do not go together."""
    if given["alter"] == given["describe"]:
        raise _wrong_use("Command must include exactly one action: --describe, --alter")
    refuse_json(given, "describe")
    for option in ("add-config", "delete-config"):
        if given["describe"] and given[option]:
            raise _wrong_use(f'Option "[describe]" can\'t be used with option "[{option}]"')
    _check_entity(given)
    if given["alter"]:
        _check_alter(given)


def _wrong_use(message: str) -> ToolError:
    return ToolError(f"{message}\nSee barnabas configs --help for the options, with examples.")


def _check_entity(given: Given) -> None:
    types, names = _types(given), _names(given)
    if repeated := [kind for number, kind in enumerate(types) if kind in types[:number]]:
        raise ToolError(f"Duplicate entity type(s) specified: {','.join(repeated)}")
    server = given["bootstrap-server"]
    allowed = _TYPES if server else _TYPES_OF_ZOOKEEPER
    connection = "--bootstrap-server or --bootstrap-controller" if server else "--zookeeper"
    for kind in types:
        if kind not in allowed:
            raise ToolError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(allowed)}"
                f" with a {connection} argument"
            )
    if not types:
        raise ToolError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise ToolError("Only 'users' and 'clients' entity types may be specified together")
    short = any(given[option] for option in _DEFAULTS_OF.values()) or any(
        given[option] is not None for option in _OPTION_OF.values()
    )
    if short and (given["entity-name"] or given["entity-type"] or given["entity-default"]):
        raise ToolError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    direct = [each for each in ("zookeeper", "store") if given[each]]
    if len(direct) + bool(server) > 1:
        raise ToolError(
            "Only one of --bootstrap-server, --boostrap-controller, and --zookeeper can be specified"
        )
    if not server and not direct:
        raise ToolError(
            "One of the required --bootstrap-server, --boostrap-controller, or --zookeeper arguments must be "
            "specified"
        )
    if given["zk-tls-config-file"] and not given["zookeeper"]:
        raise ToolError("Only the --zookeeper option can be used with the --zk-tls-config-file option.")
    if types[0] in WITH_QUOTAS:
        _check_quotas(types, names)
        return
    for name in names:
        if types[0] not in _NAMED_FREELY and name and not re.fullmatch(r"[-+]?[0-9]+", name):
            raise ToolError(
                f"The entity name for {types[0]} must be a valid integer broker id, but it is: {name}"
            )
    if given["describe"] and types[0] == BROKER_LOGGERS and not any(names):
        raise ToolError("an entity name must be specified with --describe of broker-loggers")


def _check_quotas(types: list[str], names: list[str]) -> None:
    if types[0] == IPS and names and names[0] and not is_address(names[0]):
        raise ToolError(
            f"The entity name for ips must be a valid IP or resolvable host, but it is: {names[0]}"
        )
    if len(names) > len(types):
        raise ToolError("More entity names specified than entity types")


def _check_alter(given: Given) -> None:
    kind, names = _types(given)[0], _names(given)
    with_default = (BROKERS, *WITH_QUOTAS)
    if kind in with_default and not names:
        raise ToolError(
            "an entity-name or default entity must be specified with --alter of users, clients, brokers or "
            "ips"
        )
    if kind not in with_default and not any(names):
        raise ToolError(f"an entity name must be specified with --alter of {kind}")
    if given["add-config"] and given["add-config-file"]:
        raise ToolError("Only one of --add-config or --add-config-file must be specified")
    if not (given["add-config"] or given["add-config-file"] or given["delete-config"]):
        raise ToolError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with "
            "--alter"
        )
    if len(given["add-config"]) > 1:
        raise ToolError("Found multiple arguments for option add-config, but you asked for only one")
    if len(names) > 1 and kind not in WITH_QUOTAS:
        raise ToolError("An entity name must be specified for every entity type")


def parse_added(text: str) -> dict[str, str]:
    """``k=v,k=[v,v]`` as values by key. Raises ToolError for anything else (``parseConfigsToBeAdded``)."""
    pairs = re.split(f",{_OUTSIDE_BRACKETS}", text)
    while pairs and not pairs[-1]:
        pairs.pop()  # Java's split leaves out what is empty at the end
    parts = [re.split(rf"\s*=\s*{_OUTSIDE_BRACKETS}", pair) for pair in pairs]
    if not all(len(part) == 2 for part in parts):
        raise ToolError(
            "requirement failed: Invalid entity config: all configs to be added must be in the format "
            '"key=val".'
        )
    return {key.strip(): re.sub(r"[\[\]]", "", value).strip() for key, value in parts}


def check_keys(keys: Mapping[str, str]) -> None:
    """Raises ToolError for a key that cannot be one."""
    for key in keys:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", key):
            raise ToolError(f"Invalid character found for config key: {key}")


def deleted_keys(given: Given) -> list[str]:
    """The keys of all ``--delete-config``."""
    return [key.strip() for keys in given["delete-config"] for key in keys.split(",")]


_SECRET: Final = re.compile(r"((?:password|secret|jaas\.config|keystore\.key)\s*=).*", re.DOTALL)


def shown_arguments(arguments: Sequence[str]) -> str:
    """The command line as an error repeats it, without what follows the name of a secret."""
    return " ".join(_SECRET.sub(r"\1[hidden]", argument) for argument in arguments)
