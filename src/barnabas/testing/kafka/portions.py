"""What a fault hits of a request, what it leaves, and an answer put together of both.

Theory of operation
-------------------
Requests name things in three ways: a group or a transactional id in
a field or a list, topics in a list, and under a topic its partitions. The fields have a handful of names in
all of Kafka's messages, so one walk over the schema serves every API. What matches becomes a request of its
own, the *hit* one, of which the answer with the error is made as the broker makes it (`Api.failed`), and
the *rest* goes to the handler. `join` puts the entries of one answer over those of the other.

Fetch and Metadata do not name all that they ask for: a fetch session remembers partitions, and no topic at
all means all of them. They change nothing, so they are served whole, and the hit entries lie over what
came.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID, Uuid
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.schema import Struct
from barnabas.testing.kafka.fault import Fault

_TOPIC_FIELDS: Final = ("name", "topic", "topic_name", "resource_name")
_TOPIC_LISTS: Final = frozenset({"topic_names"})
_ID_FIELDS: Final = ("group_id", "transactional_id", "v3_and_below_transactional_id", "key")
_ID_LISTS: Final = frozenset({"coordinator_keys", "groups", "group_ids", "groups_names", "transactional_ids"})
_PARTITION_FIELDS: Final = ("partition_index", "partition", "index")
_INNER: Final = (
    "partition",
    "topic",
    "group",
    "responses",
    "results",
    "transactions",
    "coordinators",
    "assignments",
)
"""How the lists begin whose entries stand for topics, partitions, groups and transactions."""
_TOPIC_RESOURCE: Final = 2
"""``ConfigResource.Type.TOPIC``: other resources have names that are no topics'."""

NameOf = Callable[[Uuid], str | None]
"""The name of a topic, by its id."""


class Cut(NamedTuple):
    """A request, cut by a fault."""

    hit: Any
    """What the fault hits, as a request of its own."""
    rest: Any
    """What it leaves; None where that is nothing."""


def cut(request: Any, fault: Fault, name_of: NameOf) -> Cut | None:
    """The two portions of a request that is of a matching API; None if the fault hits nothing of it."""
    if fault.id is not None:
        return _cut_ids(request, fault.id)
    if fault.topic is None:
        return Cut(request, None)
    for name, entries in _lists(request):
        if name in _TOPIC_LISTS and fault.partition is None:
            found = _divided(request, name, entries, lambda entry: entry == fault.topic)
        else:
            found = _cut_entries(request, name, entries, fault, name_of)
        if found is not None:
            return found
    return None


def _cut_ids(request: Any, wanted: str) -> Cut | None:
    if any(getattr(request, name, None) == wanted for name in _ID_FIELDS):
        return Cut(request, None)
    for name, entries in _lists(request):
        if name in _ID_LISTS:
            return _divided(request, name, entries, lambda entry: _id(entry) == wanted)
    return None


def _id(entry: Any) -> str | None:
    if isinstance(entry, str):
        return entry
    return next((getattr(entry, name) for name in _ID_FIELDS if hasattr(entry, name)), None)


def _divided(request: Any, name: str, entries: list[Any], hits: Callable[[Any], bool]) -> Cut | None:
    hit = [entry for entry in entries if hits(entry)]
    rest = [entry for entry in entries if not hits(entry)]
    if not hit:
        return None
    return Cut(_with(request, **{name: hit}), _with(request, **{name: rest}) if rest else None)


def _cut_entries(request: Any, name: str, entries: list[Any], fault: Fault, name_of: NameOf) -> Cut | None:
    hit, rest = [], []
    for entry in entries:
        found = _cut_entry(entry, fault, name_of)
        if found is None:
            rest.append(entry)
            continue
        hit.append(found.hit)
        if found.rest is not None:
            rest.append(found.rest)
    if not hit:
        return None
    return Cut(_with(request, **{name: hit}), _with(request, **{name: rest}) if rest else None)


def _cut_entry(entry: Any, fault: Fault, name_of: NameOf) -> Cut | None:
    if not isinstance(entry, Struct):
        return None
    topic = _topic(entry, name_of)
    if topic is None:
        return cut(entry, fault, name_of)  # a group, or a transaction, with topics of its own
    if topic != fault.topic:
        return None
    partitions = _inner(entry)
    if fault.partition is None or partitions is None:
        return Cut(entry, None)
    return _divided(entry, *partitions, lambda each: _index(each) == fault.partition)


def hit_of_fetch(
    request: FetchRequest, fault: Fault, name_of: NameOf, session: Iterable[tuple[str | None, Uuid, int]]
) -> FetchRequest | None:
    """What the fault hits of a fetch, with what its session remembers; None where that is nothing."""
    if fault.topic is None:
        return request
    named = [
        (
            name_of(topic.topic_id) if topic.topic_id != ZERO_UUID else topic.topic,
            topic.topic_id,
            entry.partition,
        )
        for topic in request.topics
        for entry in topic.partitions
    ]
    hit = {
        (topic_id, partition)
        for topic, topic_id, partition in (*named, *session)
        if topic == fault.topic and fault.partition in (None, partition)
    }
    return _fetch(request, fault.topic, hit) if hit else None


def _fetch(request: FetchRequest, topic: str, hit: set[tuple[Uuid, int]]) -> FetchRequest:
    entries = [
        FetchTopic(topic=topic, topic_id=topic_id, partitions=[FetchPartition(partition=partition)])
        for topic_id, partition in sorted(hit, key=lambda each: each[1])
    ]
    hit_request: FetchRequest = _with(request, topics=entries)
    return hit_request


def failed_fetch(hit: FetchRequest, error: ErrorCode) -> FetchResponse:
    """The entries of the partitions that are hit, as a broker refuses them."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=each.partition,
                        error_code=error,
                        high_watermark=-1,
                        aborted_transactions=[],
                        records=b"",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in hit.topics
        ]
    )


def hit_of_metadata(request: MetadataRequest, fault: Fault, name_of: NameOf) -> MetadataRequest | None:
    """What the fault hits of a Metadata request, which asks for all topics if it names none."""
    if fault.topic is not None and not request.topics:
        named: MetadataRequest = _with(request, topics=[MetadataRequestTopic(name=fault.topic)])
        return named
    found = cut(request, fault, name_of)
    return None if found is None else found.hit


def join(answer: Any, over: Any) -> Any:
    """One answer whose entries are those of `over`, and the others those of `answer`, which is changed."""
    for name, entries in _lists(over):
        if entries and name.startswith(_INNER):
            setattr(answer, name, _joined(getattr(answer, name) or [], entries))
    return answer


def _joined(mine: list[Any], over: list[Any]) -> list[Any]:
    entries = {_identity(entry): entry for entry in mine}
    for entry in over:
        key = _identity(entry)
        known, inner = entries.get(key), _inner(entry)
        # An entry with nothing below it stands for itself: so does a topic that is refused as a whole.
        entries[key] = entry if known is None or inner is None or not inner[1] else join(known, entry)
    return list(entries.values())


def _identity(entry: Any) -> Any:
    """What an entry of an answer stands for."""
    if not isinstance(entry, Struct):
        return entry
    topic_id = getattr(entry, "topic_id", None)
    if topic_id not in (None, ZERO_UUID):
        return topic_id
    for name in (*_TOPIC_FIELDS, *_ID_FIELDS, *_PARTITION_FIELDS):
        if hasattr(entry, name):
            return getattr(entry, name)
    return id(entry)


def _topic(entry: Any, name_of: NameOf) -> str | None:
    """The name of the topic that an entry of a request is about, if it is about one."""
    if not isinstance(entry, Struct):
        return None
    topic_id = getattr(entry, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID:
        return name_of(topic_id)
    if getattr(entry, "resource_type", _TOPIC_RESOURCE) != _TOPIC_RESOURCE:
        return None
    for name in _TOPIC_FIELDS:
        if hasattr(entry, name):
            topic = getattr(entry, name)
            return topic if isinstance(topic, str) else None
    return None


def _inner(entry: Any) -> tuple[str, list[Any]] | None:
    """The field of an entry that has what lies below it (a topic's partitions), and these."""
    for name, value in _lists(entry):
        if name.startswith(_INNER):
            return name, value
    return None


def _index(each: Any) -> int:
    if isinstance(each, int):
        return each
    index: int = next(getattr(each, name) for name in _PARTITION_FIELDS if hasattr(each, name))
    return index


def _lists(struct: Any) -> Iterator[tuple[str, list[Any]]]:
    for name, value in _fields(struct).items():
        if isinstance(value, list):
            yield name, value


def _fields(struct: Any) -> Mapping[str, Any]:
    return {name: getattr(struct, name) for name in type(struct).__fields__}


def _with(struct: Any, **changed: Any) -> Any:
    """A copy with other values in some fields."""
    return type(struct)(**{**_fields(struct), "unknown_tags": struct.unknown_tags, **changed})
