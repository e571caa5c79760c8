"""What OffsetCommit, TxnOffsetCommit and OffsetDelete share:
the partitions that they may touch, and a code for each in the answer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.coordinator.offsets.commits import is_too_large
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey

T = TypeVar("T")

PORTION: Final = 500
"""How many entries of an answer are made in one piece."""


class _Partition(Protocol):
    partition_index: int


P = TypeVar("P", bound=_Partition)


TopicKey: TypeAlias = str | Uuid
"""A topic as a request names it: by name, or an id that no topic has."""


class _Commit(_Partition, Protocol):
    committed_metadata: str | None


C = TypeVar("C", bound=_Commit)


class _Topic(Protocol[P]):
    name: str
    topic_id: Uuid
    partitions: list[P]


class PartitionCodes:
    """A code for each partition, topics in the order in which they were first spoken of."""

    __slots__ = ("apart", "topic_ids", "topics")

    def __init__(self) -> None:
        self.topics: dict[TopicKey, list[tuple[int, ErrorCode]]] = {}
        self.apart: list[tuple[TopicKey, list[tuple[int, ErrorCode]]]] = []
        """Topics as often as the request names them, where the answer has them so (see `add_committed`)."""
        self.topic_ids: dict[str, Uuid] = {}
        """The ids by which topics were asked for: the answer has the same, whatever became of the topic."""

    def refuse(self, topic: TopicKey, partitions: Iterable[_Partition], code: ErrorCode) -> Sliced[None]:
        """The same code for several partitions of a topic; they follow those that are there."""
        codes = self.topics.setdefault(topic, [])
        for each in partitions:
            codes.append((each.partition_index, code))
            yield

    def add(self, codes: Mapping[TopicPartition, ErrorCode]) -> Sliced[None]:
        """The coordinator's codes of the partitions that it was asked about."""
        for place, ((topic, partition), code) in enumerate(codes.items(), 1):
            self.topics.setdefault(topic, []).append((partition, code))
            if not place % PORTION:
                yield

    def add_committed(
        self, commits: "RequestedCommits[C]", codes: Mapping[TopicPartition, ErrorCode]
    ) -> Sliced[None]:
        """The coordinator's codes of a commit: one a partition, or one an entry where all are answered.

        With all entries, a topic that is named twice is answered twice where nothing was refused before the
        coordinator was asked; otherwise those of one name become one (`OffsetCommitResponse.Builder.merge`).
        """
        if commits.entries is None:
            yield from self.add(codes)
            return
        nothing_refused = not self.topics
        for topic, partitions in commits.entries:
            found: list[tuple[int, ErrorCode]] = []
            if nothing_refused:
                self.apart.append((topic, found))
            else:
                found = self.topics.setdefault(topic, found)
            for each in partitions:
                code = codes[TopicPartition(topic, each.partition_index)]
                if code is ErrorCode.NONE and not commits.fits(each):
                    # Another entry of the partition was stored, this one was not.
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                found.append((each.partition_index, code))
                yield
            yield

    def topics_of(self, topic: Callable[..., T], partition: Callable[..., object]) -> Sliced[list[T]]:
        """The topics of a response, of its own classes.

        A small one is made without a pause: a commit that waited for the replicas is answered in their turn.
        """
        found = []
        left = PORTION
        for name, codes in self.apart or self.topics.items():
            partitions = []
            for index, code in codes:
                partitions.append(partition(partition_index=index, error_code=code))
                left -= 1
                if not left:
                    left = PORTION
                    yield
            if isinstance(name, bytes):
                found.append(topic(topic_id=name, partitions=partitions))
            elif self.topic_ids:
                found.append(topic(topic_id=self.topic_ids[name], partitions=partitions))
            else:
                found.append(topic(name=name, partitions=partitions))
            left -= 1  # a topic without partitions takes its time too
            if not left:
                left = PORTION
                yield
        return found

    def __repr__(self) -> str:
        return f"<PartitionCodes {self.topics}>"


def named_by_id(
    context: RequestContext, topics: Iterable[_Topic[P]], codes: PartitionCodes
) -> Iterator[tuple[TopicKey, Sequence[P]]]:
    """The topics of a request that names them by id (KIP-516, KIP-1319), for `known_partitions`."""
    snapshot = context.broker.metadata_cache.snapshot
    for topic in topics:
        name = snapshot.topic_names.get(topic.topic_id)
        if name is None:
            yield topic.topic_id, topic.partitions
        else:
            codes.topic_ids[name] = topic.topic_id
            yield name, topic.partitions


def known_partitions(
    context: RequestContext, topics: Iterable[tuple[TopicKey, Sequence[P]]], codes: PartitionCodes
) -> Sliced[dict[TopicPartition, P]]:
    """The partitions that exist, of topics that the client may read; `codes` gets why the others are refused.

    One that is named twice counts once, with its last entry, as in Kafka. What is left is no more than
    what exists: the coordinator works it off in one piece, as a commit is written whole or not at all.
    """
    found: dict[TopicPartition, P] = {}

    def keep(topic: str, partitions: list[P]) -> Sliced[None]:
        for each in partitions:
            found[TopicPartition(topic, each.partition_index)] = each
            yield

    yield from _each_known(context, topics, codes, keep)
    return found


def known_commits(
    context: RequestContext, topics: Iterable[tuple[TopicKey, Sequence[C]]], codes: PartitionCodes
) -> Sliced["RequestedCommits[C]"]:
    """As `known_partitions`, for commits, whose entries Kafka 4.4 answers one by one."""
    commits: RequestedCommits[C] = RequestedCommits(context)
    yield from _each_known(context, topics, codes, commits.add)
    return commits


def _each_known(
    context: RequestContext,
    topics: Iterable[tuple[TopicKey, Sequence[P]]],
    codes: PartitionCodes,
    keep: Callable[[str, list[P]], Sliced[None]],
) -> Sliced[None]:
    may_read = context.may(Operation.READ)
    existing = context.broker.metadata_cache.snapshot.partitions
    for name, partitions in topics:
        yield
        # An id that no topic has belongs to nothing that could be allowed or refused.
        if isinstance(name, bytes):
            yield from codes.refuse(name, partitions, ErrorCode.UNKNOWN_TOPIC_ID)
            continue
        if not may_read[name]:
            yield from codes.refuse(name, partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            continue
        if name not in existing:
            yield from codes.refuse(name, partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        known = existing[name]
        present: list[P] = []
        unknown: list[P] = []
        for each in partitions:
            (present if each.partition_index in known else unknown).append(each)
            yield
        if unknown:
            yield from codes.refuse(name, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if present:
            yield from keep(name, present)


TOPIC_IDS_SINCE: Final = 10
"""The version of OffsetCommit that names topics by id."""


class RequestedCommits(Generic[C]):
    """The commits of a request that the coordinator is asked about.

    Kafka 3.9 keeps them by partition: one that is named twice counts once, with its last entry, and is
    answered once. Kafka 4.4 works off and answers every entry: the last one whose metadata is not too large
    is stored.
    """

    def __init__(self, context: RequestContext) -> None:
        broker = context.broker
        self._metadata_bytes_max = broker.group_coordinator.settings.offset_metadata_max_bytes
        self.by_partition: dict[TopicPartition, C] = {}
        # Kafka answers one by one since it names topics by id.
        one_by_one = broker.api_table[ApiKey.OFFSET_COMMIT].supports(TOPIC_IDS_SINCE)
        self.entries: list[tuple[str, list[C]]] | None = [] if one_by_one else None

    def add(self, topic: str, partitions: list[C]) -> Sliced[None]:
        """The entries of a topic that exist."""
        if self.entries is None:
            for each in partitions:
                self.by_partition[TopicPartition(topic, each.partition_index)] = each
                yield
            return
        self.entries.append((topic, partitions))
        for each in partitions:
            tp = TopicPartition(topic, each.partition_index)
            if tp not in self.by_partition or self.fits(each):
                self.by_partition[tp] = each
            yield

    def fits(self, commit: C) -> bool:
        """Whether the metadata is not too large."""
        return not is_too_large(commit.committed_metadata or "", self._metadata_bytes_max)
