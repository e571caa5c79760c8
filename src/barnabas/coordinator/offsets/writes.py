"""Commits on their way: into the journal, through the waiting room, and out when the replicas have spoken.

A batch that the journal refuses leaves no trace. One that it took waits as pending (or with its transaction)
until it is known whether the replicas have it; then the client is answered, partition by partition.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

from barnabas.coordinator.offsets.commits import commit_error, outcome, too_large
from barnabas.coordinator.offsets.group_offsets import Commits, CommittedOffset, GroupOffsets
from barnabas.coordinator.offsets.records import commit_record
from barnabas.coordinator.runtime.journal import NO_PRODUCER
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending

R = TypeVar("R")
Answer: TypeAlias = R | Pending[R]
"""An answer, or the promise of one."""
Codes: TypeAlias = Mapping[TopicPartition, ErrorCode]
Settle: TypeAlias = Callable[[Pending[int]], None]

NO_PRODUCER_ID: Final = NO_PRODUCER[0]
FIRST_SEQUENCE: Final = 0
"""Kafka numbers batches of commits from 0, though no producer counts them."""


def write_commits(
    shard: Shard,
    group_id: str,
    commits: dict[TopicPartition, CommittedOffset],
    *,
    producer: tuple[int, int],
    metadata_bytes_max: int,
    respond: Callable[[Codes], R],
) -> Answer[R]:
    """Appends what may be committed; the response when the replicas have it, at once if they do already."""
    refused = too_large(commits, metadata_bytes_max)
    accepted = commits if not refused else {tp: c for tp, c in commits.items() if tp not in refused}
    if not accepted:
        return respond(refused)

    def answer(error: BaseException | None) -> R:
        return respond(outcome(commits, commit_error(error), refused))

    try:
        records = [commit_record(group_id, tp, commit) for tp, commit in accepted.items()]
        written = shard.journal.append(records, producer=producer, base_sequence=FIRST_SEQUENCE)
    except KafkaError as error:
        return answer(error)
    return _answered(written, _stage(shard, group_id, accepted, producer[0]), answer)


def _answered(
    written: Pending[int], settle: Settle, answer: Callable[[BaseException | None], R]
) -> Answer[R]:
    if written.done:
        settle(written)
        return answer(written.error)
    later: Pending[R] = Pending()

    def finish(done: Pending[int]) -> None:
        settle(done)
        later.complete(answer(done.error))

    written.when_done(finish)
    return later


def _stage(shard: Shard, group_id: str, commits: Commits, producer_id: int) -> Settle:
    """Puts written commits into the waiting room; returns who leads them out.

    They keep the group's offsets by identity: should the group be forgotten meanwhile, and another one of its
    name begin, the late answer changes nothing there.
    """
    offsets = shard.offsets.get(group_id)
    if offsets is None:
        offsets = shard.offsets[group_id] = GroupOffsets()
    if producer_id == NO_PRODUCER_ID:
        offsets.stage(commits)
        return lambda written: _settle_plain(offsets, commits, written)
    offsets.stage_transactional(producer_id, commits)
    shard.open_transactions.setdefault(producer_id, set()).add(group_id)
    return lambda written: _settle_transactional(shard, group_id, offsets, producer_id, commits, written)


def _settle_plain(offsets: GroupOffsets, commits: Commits, written: Pending[int]) -> None:
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
        offsets.acknowledge_transactional(producer_id, commits, written.result())
        return
    offsets.fail_transactional(producer_id, commits)
    if producer_id not in offsets.transactional and shard.offsets.get(group_id) is offsets:
        forget_transaction(shard, producer_id, group_id)


def forget_transaction(shard: Shard, producer_id: int, group_id: str) -> None:
    """The group has nothing to do any more with what the producer has open."""
    groups: set[str] = shard.open_transactions.get(producer_id, set())
    groups.discard(group_id)
    if not groups:
        shard.open_transactions.pop(producer_id, None)
