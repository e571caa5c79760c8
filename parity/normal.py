"""Replaces what must differ between two clusters by names, so that the rest can be compared as it is.

An id gets the name of its first appearance in a scenario, so two places that hold the same id on one side
must hold the same id on the other; one that a scenario made up (the same byte sixteen times) stays as it is.
Entries of a list are put in the order of their keys: the protocol gives their order no meaning, except where
it does (synonyms of a configuration, replicas, batches).
"""

import re
import time
from collections.abc import Mapping
from typing import Any, Final

IDS: Final = frozenset({"topic_id", "producer_id", "producer_id_start", "session_id", "token_id", "hmac"})
TIMES: Final = frozenset({"timestamp", "log_append_time_ms", "base_timestamp", "max_timestamp"})
OF_TOKENS: Final = frozenset(
    f"{each}_timestamp{unit}" for each in ("issue", "expiry", "max") for unit in ("", "_ms")
) - {"max_timestamp"}
"""Times of delegation tokens, which may be days ahead; the last one has a name that batches have as well."""
ORDERED: Final = frozenset({"synonyms", "records"})
NONE: Final = frozenset({-1, 0, bytes(16)})
KEYS: Final = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "api_key",
    "partition_index",
    "partition",
    "index",
    "node_id",
    "broker_id",
    "resource_name",
    "group_id",
    "transactional_id",
    "key",
    "entity_type",
    "user",
)
_DAY_MS: Final = 86_400_000
# Java shows ids in messages in base64, as Kafka's Uuid does.
# Members are named after their client or instance, and a random UUID.
_MEMBER: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN_UUID: Final = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])")


def key_of(entry: Mapping[str, Any]) -> str:
    """What names an entry among others of its list; empty when nothing does."""
    for field in KEYS:
        value = entry.get(field)
        if value is not None and value not in {"", "none"} and value != bytes(16):
            return str(value)
    # Of quotas: for whom they are.
    entity = entry.get("entity") or ()
    return ", ".join(sorted(f"{each['entity_type']}={each['entity_name']}" for each in entity))


def _content(entry: Mapping[str, Any]) -> str:
    """What tells members apart: the names that they chose, else what they said of themselves."""
    name = str(entry.get("member_id", ""))
    if name and not _MEMBER.search(name):
        return name
    return str((entry.get("group_instance_id"), entry.get("metadata", entry.get("member_metadata"))))


def _together(entries: list[Any]) -> list[Any]:
    """Topics with the partitions of all their entries."""
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        name = entry.get("name", entry.get("topic_name")) if isinstance(entry, dict) else None
        if name is None or "partitions" not in entry:
            return entries
        known = found.setdefault(name, {**entry, "partitions": []})
        known["partitions"] = [*known["partitions"], *entry["partitions"]]
    return list(found.values())


class Normalizer:
    """The names of one side: words that stand for what is its own, and ids in order of appearance."""

    def __init__(self, words: Mapping[str, str], *, refused: bool = False) -> None:
        """With `refused` the entries of a topic are put together: where nothing is allowed Kafka has one for
        each partition, in some answers.
        """
        self._words = words
        self._refused = refused
        self._ids: dict[tuple[str, Any], str] = {}

    def normal(self, tree: Any, field: str = "") -> Any:
        """The tree with names in place of values of this side's own."""
        if isinstance(tree, dict):
            if "token_id" in tree and "max_timestamp" in tree:
                tree = {**tree, "max_timestamp_ms": tree["max_timestamp"]}
                del tree["max_timestamp"]
            return {name: self.normal(value, name) for name, value in tree.items()}
        if isinstance(tree, list):
            return self._list(tree, field)
        if field in IDS:
            return self._id(field, tree)
        if isinstance(tree, str):
            return self._text(tree)
        if field == "usable_bytes" and tree > 0:
            return "<free>"  # other processes write to the same disk
        if field in OF_TOKENS and tree > _DAY_MS:
            return f"<in {round((tree / 1000 - time.time()) / 3600)} hours>"
        if field in TIMES and abs(time.time() * 1000 - tree) < _DAY_MS:
            return "<now>"
        return f"<{self._words[str(tree)]}>" if field == "port" and str(tree) in self._words else tree

    def _list(self, tree: list[Any], field: str) -> list[Any]:
        if self._refused and field in {"topics", "results"}:
            tree = _together(tree)
        if field not in ORDERED and tree and all(isinstance(each, dict) for each in tree):
            tree = sorted(tree, key=lambda each: (self._known(each), key_of(each), _content(each)))
        return [self.normal(each, field) for each in tree]

    def _known(self, entry: dict[str, Any]) -> str:
        member = _MEMBER.search(str(entry.get("member_id", "")))
        if member is not None:
            return self._ids.get(("member", member[0]), "")
        if "token_id" in entry:
            return self._ids.get(("token_id", entry["token_id"]), "")
        return self._ids.get(("topic_id", entry.get("topic_id")), "")

    def _id(self, field: str, value: Any) -> Any:
        if value in NONE:
            return "none" if isinstance(value, bytes) else value
        if isinstance(value, bytes) and len(set(value)) == 1:
            return value.hex()
        kind = "producer_id" if field == "producer_id_start" else field
        number = 1 + sum(known == kind for known, _ in self._ids)
        return self._ids.setdefault((kind, value), f"<{kind} {number}>")

    def _text(self, text: str) -> str:
        for word, name in self._words.items():
            # Not in the middle of bytes that are shown as digits: a port may be any five of them.
            text = re.sub(rf"(?<![0-9a-f]){re.escape(word)}(?![0-9a-f])", f"<{name}>", text)
        text = _MEMBER.sub(lambda found: str(self._id("member", found[0])), text)
        return _SHOWN_UUID.sub("<uuid>", text)
