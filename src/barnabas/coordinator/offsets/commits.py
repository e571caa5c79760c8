"""Commits on their way: into the journal, pending until the replicas have them, and then seen.

A batch that the journal refuses leaves no trace. One that it took waits as pending (or with its transaction)
until it is known whether the replicas have it. Then the commits are seen, and each partition has its code.
"""

from typing import Final, TypeAlias

from barnabas.coordinator.offsets.group_offsets import Commits, GroupOffsets
from barnabas.coordinator.offsets.records import commit_record
from barnabas.coordinator.runtime.decoding import NO_PRODUCER_ID
from barnabas.coordinator.runtime.journal import COORDINATOR_WORDS, CoordinatorRecord
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced

Codes: TypeAlias = dict[TopicPartition, ErrorCode]

PORTION: Final = 100
"""How many records are made in one piece."""
FIRST_SEQUENCE: Final = 0
"""Kafka numbers batches of commits from 0, though no producer counts them."""

_COMMIT_ERRORS: Final = {
    **COORDINATOR_WORDS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}


def commit_error(error: BaseException | None) -> ErrorCode:
    """The code for the client when its commit was not written (``maybeConvertOffsetCommitError``).

    The partition that could not be written to is the coordinator's, not the client's, and the answer must not
    be mistaken for one about the client's.
    """
    if error is None:
        return ErrorCode.NONE
    if not isinstance(error, KafkaError):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return _COMMIT_ERRORS.get(error.code, error.code)


def commit_records(
    group_id: str, commits: Commits, metadata_bytes_max: int
) -> Sliced[tuple[list[CoordinatorRecord], Codes]]:
    """The records of the commits, and the partitions whose metadata is too long.

    They take long for many partitions and do not depend on the state of the group, so they are made in
    slices.
    """
    records: list[CoordinatorRecord] = []
    refused: Codes = {}
    for tp, commit in commits.items():
        if is_too_large(commit.metadata, metadata_bytes_max):
            refused[tp] = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            records.append(commit_record(group_id, tp, commit))
        if not len(records) % PORTION:
            yield
    return records, refused


def is_too_large(metadata: str, metadata_bytes_max: int) -> bool:
    """Whether ``offset.metadata.max.bytes`` refuses it; Kafka counts characters, not bytes."""
    return _utf16_length(metadata) > metadata_bytes_max


def _utf16_length(text: str) -> int:
    """As Java counts a string."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def write_commits(
    shard: Shard,
    group_id: str,
    commits: Commits,
    records: list[CoordinatorRecord],
    refused: Codes,
    producer: tuple[int, int],
) -> Codes | Pending[Codes]:
    """Appends the records (``storeOffsets``); the codes, once it is known whether the replicas have them."""
    if not records:
        return refused
    producer_id = producer[0]
    if producer_id != NO_PRODUCER_ID:
        place = shard.journal.end_offset()
        commits = {tp: commit.at(place) for tp, commit in commits.items()}
    try:
        written = shard.journal.append(records, producer=producer, base_sequence=FIRST_SEQUENCE)
    except KafkaError as error:
        return _codes(commits, refused, error)
    accepted = commits if not refused else {tp: c for tp, c in commits.items() if tp not in refused}
    # The group's offsets are kept by identity: if the group is forgotten before the replicas answer, and
    # another one of its name begins, the late answer changes nothing there.
    offsets = shard.offsets.get(group_id)
    if offsets is None:
        offsets = shard.offsets[group_id] = GroupOffsets()
    if producer_id == NO_PRODUCER_ID:
        offsets.stage(accepted)
    else:
        offsets.stage_transactional(producer_id, accepted)
        shard.open_transactions.setdefault(producer_id, set()).add(group_id)

    def settle(done: "Pending[int]") -> Codes:
        if producer_id == NO_PRODUCER_ID:
            _settle(offsets, accepted, done)
        else:
            _settle_transactional(shard, group_id, offsets, producer_id, accepted, done)
        return _codes(commits, refused, done.error)

    if written.done:
        return settle(written)
    later: Pending[Codes] = Pending()
    written.when_done(lambda done: later.complete(settle(done)))
    return later


def _codes(commits: Commits, refused: Codes, error: BaseException | None) -> Codes:
    """The same code for every partition, except those that were refused for their own metadata."""
    codes = dict.fromkeys(commits, commit_error(error))
    codes.update(refused)
    return codes


def _settle(offsets: GroupOffsets, commits: Commits, written: Pending[int]) -> None:
    if written.error is None:
        offsets.acknowledge(commits, written.result())
    else:
        offsets.fail(commits)


def _settle_transactional(
    shard: Shard,
    group_id: str,
    offsets: GroupOffsets,
    producer_id: int,
    commits: Commits,
    written: Pending[int],
) -> None:
    if written.error is None:
        return  # they wait for the marker
    offsets.fail_transactional(producer_id, commits)
    if producer_id not in offsets.transactional and shard.offsets.get(group_id) is offsets:
        forget_transaction(shard, producer_id, group_id)


def complete_transaction(shard: Shard, producer_id: int, marker_offset: int, *, committed: bool) -> None:
    """The marker of the producer's transaction is in the shard's partition, at this offset."""
    left = set()
    for group_id in shard.open_transactions.pop(producer_id, ()):
        offsets = shard.offsets.get(group_id)
        if offsets is not None and offsets.end_transaction(producer_id, marker_offset, committed=committed):
            left.add(group_id)
    if left:
        shard.open_transactions[producer_id] = left


def forget_transaction(shard: Shard, producer_id: int, group_id: str) -> None:
    """The group no longer has commits in the producer's transaction."""
    groups: set[str] = shard.open_transactions.get(producer_id, set())
    groups.discard(group_id)
    if not groups:
        shard.open_transactions.pop(producer_id, None)
