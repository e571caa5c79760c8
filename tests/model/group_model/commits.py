"""`Commits`: what the coordinator promises of offsets, held against what is fetched.

The promise, precisely
----------------------
The journal puts the commits of a partition into one order, tombstones among them. A commit that was answered
with success counts from its answer on. Then a fetch, by a leader that is one, returns

- a commit that is in the journal, with the very offset that was committed;
- never one that lies before the last commit that counted when the fetch arrived;
- never one whose answer this very leader still owes, or whose answer was an error;
- nothing at all only where no commit counts, or where a tombstone lies behind the last that does.

It may return a commit that does not count (yet): one that an earlier leader did not or could not confirm, for
a new leader reads its log to the end, beyond what is acknowledged. Should that commit be lost with the next
leader, then a later fetch returns an older one: that is the one way in which an offset may go back, and it
never goes behind the last that counts. Tombstones are not waited for, so they do not count.

A leader that was deposed and does not know it may return what was true in its time.
"""

from collections.abc import Callable
from typing import NamedTuple

from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchResponseGroup
from group_model.wire import Call

Complain = Callable[[str, str], object]


class Written(NamedTuple):
    """A commit in the journal, or a tombstone: no note."""

    journal_offset: int
    note: str | None
    offset: int


class Commits:
    """All commits of a history, by group and partition."""

    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self._written: dict[tuple[int, str, TopicPartition], list[Written]] = {}
        self._counting: dict[tuple[int, str, TopicPartition], int] = {}
        """Where the last commit that counts lies in the journal."""
        self._unconfirmed: dict[str, tuple[int, int]] = {}
        """The commits whose success was not answered, by their notes: under which leader."""

    # --- the journal --------------------------------------------------------------------------------------

    def appended(self, partition: int, record: CoordinatorRecord, journal_offset: int) -> None:
        """A record is in the log."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            place = partition, key.group, TopicPartition(key.topic, key.partition)
            note = offset = None
            if isinstance(value, OffsetCommitValue):
                note, offset = value.metadata, value.offset
            self._written.setdefault(place, []).append(
                Written(journal_offset, note, -1 if offset is None else offset)
            )

    def truncated(self, partition: int, journal_offset: int) -> None:
        """Records at and behind this offset are gone."""
        for place, written in self._written.items():
            if place[0] == partition:
                while written and written[-1].journal_offset >= journal_offset:
                    written.pop()

    # --- answers ------------------------------------------------------------------------------------------

    def invoked(self, call: Call, request: OffsetCommitRequest) -> None:
        """A commit has reached its broker."""
        note = request.topics[0].partitions[0].committed_metadata
        self._unconfirmed[note or ""] = call.leadership

    def committed(self, call: Call, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        """A commit was answered."""
        notes = {
            TopicPartition(topic.name, partition.partition_index): partition.committed_metadata
            for topic in request.topics
            for partition in topic.partitions
        }
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    self._unconfirmed.pop(notes[tp] or "", None)
                    self._count(call, tp, notes[tp])

    def _count(self, call: Call, tp: TopicPartition, note: str | None) -> None:
        place = call.leadership[0], call.group_id, tp
        for written in reversed(self._written.get(place, ())):
            if written.note == note:
                self._counting[place] = max(self._counting.get(place, -1), written.journal_offset)
                return
        self._complain("lost", f"{call} succeeded, and the journal does not have {note} of {tp}")

    def fetched(self, call: Call, response: OffsetFetchResponseGroup) -> None:
        """A leader that is one said what is committed."""
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    self._check(call, tp, partition.committed_offset, partition.metadata)

    def _check(self, call: Call, tp: TopicPartition, offset: int, note: str | None) -> None:
        place = call.leadership[0], call.group_id, tp
        written, counting = self._written.get(place, []), self._counting.get(place, -1)
        if offset == -1:
            if counting >= 0 and not any(
                each.note is None for each in written if each.journal_offset > counting
            ):
                self._complain("lost", f"{call} found nothing of {tp}, the commit at {counting} counts")
            return
        found = next((each for each in reversed(written) if each.note == note), None)
        if found is None or found.offset != offset:
            self._complain("phantom", f"{call} found {offset} ({note}) of {tp}: the journal has {found}")
        elif found.journal_offset < counting:
            self._complain("back", f"{call} found {note} of {tp} at {found.journal_offset} behind {counting}")
        elif self._unconfirmed.get(found.note or "") == call.leadership:
            self._complain("early", f"{call} found {note} of {tp}, which this leader has not confirmed")
