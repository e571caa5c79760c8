"""`MaskRules`: what of records nobody sees, by topic and field, from a TOML file.

    [[mask]]
    topics = ["payments*"]                  # all when left out
    clusters = ["prod-*"]                   # all when left out
    fields = ["value.card.number", "value.**.email", "key", "header.authorization"]
    keep_last = 4                           # characters that are shown; none when left out

A field is a place (``key``, ``value``, ``header.NAME``) and a path of names below it. ``*`` and ``?``
stand for parts of a name, ``**`` for any number of names. A list stands for its items:
``value.items.price`` is the price of each item. Upper and lower case are the same. A dot always divides two
names: of a name that has a dot itself, write ``?`` in its place. What is hidden is values, never the names of
fields. A key or a value of which fields are masked, and which cannot be read as fields (it is no JSON, its
schema is not known, it is too large), is hidden as a whole.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

HIDDEN: Final = "***"
_DEEP: Final = "**"
_KEEP_MAX: Final = 8
_PATH_MAX: Final = 50
_PLACES: Final = ("key", "value", "header")


class FieldMask(NamedTuple):
    """A field below a key or a value; the empty path is all of it."""

    path: tuple[str, ...]
    keep_last: int


@dataclass(frozen=True, slots=True)
class TopicMasks:
    """What is hidden of the records of one topic."""

    key: tuple[FieldMask, ...] = ()
    value: tuple[FieldMask, ...] = ()
    headers: tuple[tuple[str, int], ...] = ()
    """Patterns of names, each with how many characters are kept."""

    def __bool__(self) -> bool:
        return bool(self.key or self.value or self.headers)

    def of_header(self, name: str) -> tuple[FieldMask, ...]:
        """Those of a header's value."""
        folded = name.casefold()
        return tuple(FieldMask((), keep) for pattern, keep in self.headers if fnmatchcase(folded, pattern))


NO_MASKS: Final = TopicMasks()


class _MaskRule(NamedTuple):
    clusters: tuple[str, ...]
    topics: tuple[str, ...]
    masks: TopicMasks


@dataclass(frozen=True, slots=True)
class MaskRules:
    """All rules of a file."""

    rules: tuple[_MaskRule, ...] = ()

    def of(self, topic: str, cluster: str | None = None) -> TopicMasks:
        """Those of a topic; without a cluster, of every cluster."""
        found = [
            one.masks
            for one in self.rules
            if any(fnmatchcase(topic, each) for each in one.topics)
            and (cluster is None or any(fnmatchcase(cluster, each) for each in one.clusters))
        ]
        return TopicMasks(
            tuple(each for one in found for each in one.key),
            tuple(each for one in found for each in one.value),
            tuple(each for one in found for each in one.headers),
        )


def parsed(text: str) -> MaskRules:
    """The rules of a file. Raises ValueError with what is wrong."""
    table = tomllib.loads(text)
    _only(table, {"mask"}, "the file")
    rules = table.get("mask", [])
    if not isinstance(rules, list) or not all(isinstance(one, dict) for one in rules):
        raise ValueError("rules are [[mask]] tables")
    return MaskRules(tuple(_rule(number, one) for number, one in enumerate(rules, 1)))


def _rule(number: int, rule: Mapping[str, Any]) -> _MaskRule:
    of = f"mask {number}"
    _only(rule, {"topics", "clusters", "fields", "keep_last"}, of)
    keep = rule.get("keep_last", 0)
    if type(keep) is not int or not 0 <= keep <= _KEEP_MAX:
        raise ValueError(f"{of}: keep_last is a whole number up to {_KEEP_MAX}")
    fields = _texts(rule.get("fields", []), f"{of} fields")
    if not fields:
        raise ValueError(f"{of}: it names its fields")
    key: list[FieldMask] = []
    value: list[FieldMask] = []
    headers: list[tuple[str, int]] = []
    for each in fields:
        place, *path = each.casefold().split(".")
        if place not in _PLACES or len(path) > _PATH_MAX or not all(path):
            raise ValueError(f"{of}: {each!r} is no field: it begins with key, value or header.NAME")
        if place == "header":
            if not path:
                raise ValueError(f"{of}: {each!r} names no header")
            headers.append((".".join(path), keep))
        else:
            (key if place == "key" else value).append(FieldMask(tuple(path), keep))
    return _MaskRule(
        tuple(_texts(rule.get("clusters", ["*"]), f"{of} clusters")),
        tuple(_texts(rule.get("topics", ["*"]), f"{of} topics")),
        TopicMasks(tuple(key), tuple(value), tuple(headers)),
    )


def _only(table: Mapping[str, Any], known: set[str], of: str) -> None:
    if unknown := set(table) - known:
        raise ValueError(f"{of}: there is no key {min(unknown)!r}")


def _texts(value: Any, of: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{of} is a list of texts")
    return value


def whole_mask(masks: Iterable[FieldMask]) -> FieldMask | None:
    """The one that hides all, if there is one: that which keeps least."""
    return min((one for one in masks if not one.path), key=lambda one: one.keep_last, default=None)


def masked(tree: Any, masks: Sequence[FieldMask]) -> Any:
    """The tree without what the masks hide. Raises RecursionError for one that is too deep."""
    here = _reached(masks)
    ends = [one.keep_last for one in here if not one.path]
    if ends:
        return hidden(tree, min(ends))
    if isinstance(tree, dict):
        return {name: masked(each, _below(here, name.casefold())) for name, each in tree.items()}
    if isinstance(tree, list):
        return [masked(each, here) for each in tree]
    return tree


def _reached(masks: Iterable[FieldMask]) -> list[FieldMask]:
    """The masks, and those that begin here because their ** stands for nothing."""
    found: list[FieldMask] = []
    for one in masks:
        found.append(one)
        path = one.path
        while path and path[0] == _DEEP:
            path = path[1:]
            found.append(FieldMask(path, one.keep_last))
    return found


def _below(masks: Iterable[FieldMask], name: str) -> list[FieldMask]:
    found = []
    for one in masks:
        if one.path and one.path[0] == _DEEP:
            found.append(one)
        elif one.path and fnmatchcase(name, one.path[0]):
            found.append(FieldMask(one.path[1:], one.keep_last))
    return list(dict.fromkeys(found))


def hidden(value: Any, keep_last: int = 0) -> str:
    """What is shown instead; the last characters only of what is more than twice as long."""
    if keep_last and (isinstance(value, str) or type(value) is int):
        text = str(value)
        if len(text) > 2 * keep_last:
            return HIDDEN + text[-keep_last:]
    return HIDDEN
