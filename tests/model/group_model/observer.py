"""`Observer`: sees every request and answer at the broker, every record of the journal, and all that members
do.

It judges where it stands, not at the end: the answer of a broker counts even where the network loses it.
"""

import traceback
from typing import TYPE_CHECKING, Final

from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchResponseGroup
from barnabas.testing.clock import VirtualClock
from barnabas.testing.simulation.trace import Trace
from group_model.anomaly import Anomalies
from group_model.commits import Commits
from group_model.epochs import Epochs
from group_model.generations import Generations
from group_model.topics import Progress
from group_model.wire import Call, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

PARKED_MS_MAX: Final = 30_000.0
"""No request waits longer, under any fault: the longest rebalance time-out, and a commit's."""


class Observer:
    """Hands what it sees to those who judge it."""

    def __init__(self, clock: VirtualClock, trace: Trace) -> None:
        self.anomalies = Anomalies()
        self.is_leader: Callable[[Call], bool] = lambda _: True
        """Whether the broker that carries a call out leads the partition in truth."""
        self.believed: Callable[[int], int] = lambda _: 0
        """Below which offset a leader of a partition may tell what it finds in its log."""
        self.mixed: set[str] = set()
        """Groups that change between the protocols:
        there a generation is a member's epoch, and is judged as such.
        """
        self.requests = 0
        self.progress = Progress()
        self._clock = clock
        self._trace = trace
        self._generations = Generations(self.complain)
        self._epochs = Epochs(self.complain)
        self._commits = Commits(self.complain)
        self._serving: set[tuple[int, int]] = set()
        """Leaders that have loaded their partition, as their answers show."""
        self._groups: dict[str, list[tuple[int, int, GroupMetadataValue | None]]] = {}
        """What the journal says of each classic group: partition, offset, value."""

    def complain(self, kind: str, text: str) -> None:
        """A promise is broken."""
        self.event(f"ANOMALY {kind}: {text}")
        self.anomalies.add(kind, text, self._clock.now_ms)

    def event(self, what: str) -> None:
        """One line of the trace."""
        self._trace(what)

    # --- the journal --------------------------------------------------------------------------------------

    def appended(self, partition: int, record: CoordinatorRecord, offset: int) -> None:
        """A record is in the true log."""
        self._commits.appended(partition, record, offset)
        self._epochs.appended(partition, record, offset)
        if isinstance(record.key, GroupMetadataKey):
            value = record.value
            assert value is None or isinstance(value, GroupMetadataValue)
            self._groups.setdefault(record.key.group, []).append((partition, offset, value))

    def truncated(self, partition: int, offset: int) -> None:
        """The true log was cut."""
        self.event(f"journal {partition} is cut at {offset}")
        self._commits.truncated(partition, offset)
        self._epochs.truncated(partition, offset, self.believed(partition))
        for written in self._groups.values():
            while written and written[-1][0] == partition and written[-1][1] >= offset:
                written.pop()

    def written_group(self, group_id: str) -> GroupMetadataValue | None:
        """What the journal says of a group last."""
        written = self._groups.get(group_id)
        return written[-1][2] if written else None

    # --- requests -----------------------------------------------------------------------------------------

    def invoked(self, call: Call) -> None:
        """A request has reached its broker."""
        self.requests += 1
        self._generations.invoked(call)
        self._epochs.invoked(call)
        if isinstance(call.request, OffsetCommitRequest):
            self._commits.invoked(call, call.request)

    def answered(self, call: Call, reply: Reply) -> None:
        """A broker has answered a request, rightly or not."""
        request = call.request
        self.event(f"{call!r} {reply.code.name} after {call.answered_ms - call.invoked_ms:.1f} ms")
        if call.answered_ms - call.invoked_ms > PARKED_MS_MAX:
            self.complain("left waiting", f"{call} for {call.answered_ms - call.invoked_ms:.0f} ms")
        body = reply.body
        if reply.ok and isinstance(body, ConsumerGroupHeartbeatResponse):
            self._epochs.any_answered(call, body, self.believed(call.leadership[0]))
        if not reply.ok or not self.is_leader(call):
            return
        if isinstance(body, OffsetFetchResponseGroup):
            self._commits.fetched(call, body)
        elif isinstance(request, ConsumerGroupHeartbeatRequest):
            assert isinstance(body, ConsumerGroupHeartbeatResponse)
            self._epochs.answered(call, request, body)
        elif isinstance(request, DeleteGroupsRequest):
            self._generations.of(call.group_id).deleted()
            self._epochs.deleted(call.group_id)
        else:
            self._judge_member(call, request, body)

    def _judge_member(self, call: Call, request: object, body: object) -> None:
        if isinstance(request, OffsetCommitRequest):
            assert isinstance(body, OffsetCommitResponse)
            self._commits.committed(call, request, body)
        if call.group_id in self.mixed:
            return
        if isinstance(request, HeartbeatRequest):
            if call.leadership not in self._serving:
                return  # while a partition is being loaded every heartbeat succeeds
        else:
            self._serving.add(call.leadership)
        self._generations.answered(call, body, self.written_group(call.group_id))

    def resigned(self, broker: int, partition: int, parked: list[Call]) -> None:
        """A broker heard that it does not lead a partition: no request may wait for it any more."""
        for call in parked:
            if call.leadership[0] == partition:
                self.complain("left waiting", f"{call} although broker {broker} resigned")

    # --- members ------------------------------------------------------------------------------------------

    def processed(self, group_id: str, member: str, tp: TopicPartition, begin: int, end: int) -> None:
        """A member has processed records."""
        missing = self.progress.processed(group_id, tp, begin, end)
        if missing is not None:
            self.complain("gap", f"{member} of {group_id} went on at {begin} of {tp}; {missing} was not read")

    def unexpected(self, member: str, what: str, code: ErrorCode) -> None:
        """A member got an answer that it should not get."""
        self.complain("unexpected", f"{member}: {what} answered {code.name}")

    def crashed(self, who: str, error: BaseException) -> None:
        """Something raised an exception that is not caught."""
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
        self.complain("crash", f"{who}: {error!r} in {where}")

    def __repr__(self) -> str:
        return f"<Observer requests={self.requests} anomalies={len(self.anomalies)}>"
