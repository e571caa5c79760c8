"""`Judge`: what may never be: at each write, acknowledgement and read, and when all has come to rest.

============  ==========================================================================================
early         a record was acknowledged with acks=all, or shown to a consumer, that fewer than
              ``min.insync.replicas`` logs have, or had when an assignment took them off the partition; or
              that one of those who may lead next does not have: the ISR as it is in the store; or a replica
              joined that without what was acknowledged before
lost          an acknowledged record is not at its offset in the end
unread        a consumer was given a record that is not at that offset in the end
twice         a record of the idempotent producer is there again, or out of order
unsent        the idempotent producer cannot get a batch accepted although all faults are over
different     two replicas do not hold the same bytes in the end
epoch         an epoch went back, or two brokers led a partition in one epoch, or two states have one
              partition epoch
stuck         in the end a partition has no leader, an ISR that lacks a replica, a high watermark below its
              end, or is still on the move; a broker knows it otherwise than the store; a topic that was
              deleted has left something
============  ==========================================================================================
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.cluster.leadership import LeaderAndIsr, PartitionLeadership, ReplicaAssignment
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import Operation, SetData
from barnabas.cluster.store.memory import MemoryEnsemble
from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import NO_LEADER, TopicPartition
from barnabas.log.manager import LogManager
from barnabas.records.batch import batch_headers, decode_records_of
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.produce import AppendResult
from barnabas.testing.replication import rare
from barnabas.testing.simulation.trace import Trace

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.replica.partition import Partition

IDEMPOTENT: Final = "idempotent"
"""The producer whose records may be there once only."""
_WHOLE: Final = 1 << 30
_STATE: Final = "/state"
_TOPIC: Final = re.compile(f"{znodes.TOPICS}/[^/]+")


def values_of(data: bytes) -> list[tuple[int, bytes]]:
    """Offsets and values of whole batches."""
    return [
        (record.offset, bytes(record.value or b""))
        for header in batch_headers(data)
        for record in decode_records_of(data, header)
    ]


@dataclass(slots=True)
class Answers:
    """What clients know of one partition."""

    acked: list[tuple[int, bytes]] = field(default_factory=list)
    """Offset and value of what was acknowledged with acks=all."""
    read: list[tuple[int, bytes]] = field(default_factory=list)


class JudgedBroker(Protocol):
    """What is looked at in a broker."""

    id: int
    name: str
    opened: bool
    logs: LogManager
    metadata: MetadataCache
    replicas: ReplicaManager

    def log(self, tp: TopicPartition) -> "Log | None":
        """The log of a replica here."""


class JudgedEnsemble(MemoryEnsemble):
    """The store of the model; the judge sees each state of a partition that is written."""

    judge: "Judge"

    def write(self, session_id: int, operations: Sequence[Operation]) -> list[Any]:
        """As `MemoryEnsemble.write`."""
        sets = [each for each in operations if type(each) is SetData]
        for each in sets:
            if _TOPIC.fullmatch(each.path) and (topic := self.table.find(each.path)) is not None:
                self.judge.assignment_written(
                    each.path.rpartition("/")[2],
                    znodes.decode_topic(topic.data).partitions,
                    znodes.decode_topic(each.data).partitions,
                )
        changed = [each.path for each in sets if each.path.endswith(_STATE)]
        before = [self.table.find(path) for path in changed]
        results = super().write(session_id, operations)
        for path, old in zip(changed, before, strict=True):
            new = self.table.find(path)
            assert old is not None, "only what is there can be written"
            assert new is not None, "what was written is there"
            self.judge.state_written(
                _partition_of(path),
                znodes.decode_partition_state(old.data, old.stat),
                znodes.decode_partition_state(new.data, new.stat),
            )
        return results


class Judge:
    """Compares the answers that clients got with what replicas have."""

    def __init__(
        self, ensemble: JudgedEnsemble, brokers: Mapping[int, JudgedBroker], min_isr: int, trace: Trace
    ) -> None:
        self.answers: defaultdict[TopicPartition, Answers] = defaultdict(Answers)
        self.anomalies: list[str] = []
        self.disks_were_lost = False
        """Whether some brokers lost what they had:
        of what was committed there may be fewer copies for a while.
        """
        ensemble.judge = self
        self._table = ensemble.table
        self._brokers = brokers
        self._min_isr = min_isr
        self._trace = trace
        self._numbers = count()
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        """Who led a partition, by leader epoch."""
        self._epochs: dict[tuple[int, TopicPartition], tuple[Partition, int]] = {}
        """The latest leader epoch of each replica, for as long as it is the same replica."""
        self._taken_off: defaultdict[tuple[TopicPartition, int], set[tuple[int, bytes]]] = defaultdict(set)
        """What replicas had when a new assignment took them off their partition."""

    def new_value(self, producer: str) -> bytes:
        """A value that no other record has, and that is no part of another's."""
        return b"%s %06d" % (producer.encode(), next(self._numbers))

    # --- while it runs ------------------------------------------------------------------------------------

    def assignment_written(
        self, topic: str, old: Mapping[int, ReplicaAssignment], new: Mapping[int, ReplicaAssignment]
    ) -> None:
        """A controller is about to write the replicas of a topic's partitions, and then to delete those that
        are left out.

        A reassignment that is cancelled takes replicas off that are in the ISR, even if it falls below
        ``min.insync.replicas`` by that, in Kafka too. What was committed with them was committed with enough
        copies.
        """
        for number, before in old.items():
            tp = TopicPartition(topic, number)
            for each in set(before.replicas) - set(new[number].replicas):
                self._taken_off[tp, each].update(values_of(_whole(self._brokers[each].log(tp))))

    def state_written(self, tp: TopicPartition, old: PartitionLeadership, new: PartitionLeadership) -> None:
        """A controller writes the state of a partition, in this moment."""
        before, after = old.leader_and_isr, new.leader_and_isr
        self._trace(f"{tp} has {after.leader} {after.leader_epoch} {after.isr} by {new.controller_epoch}")
        moved = after.leader != before.leader
        rare.when_a_state_is_written(self._brokers, tp, before.leader, after.leader)
        if after.leader_epoch < before.leader_epoch + moved or new.controller_epoch < old.controller_epoch:
            self.anomalies.append(f"epoch: {tp} went from {old} to {new}")
        if not after.isr or after.leader not in (NO_LEADER, *after.isr):
            self.anomalies.append(f"epoch: {tp} has a leader that is not in its ISR: {new}")

        if acked := self.answers[tp].acked:
            offset, value = max(acked)
            for each in set(after.isr) - set(before.isr):
                if not _may_have(self._brokers[each], tp, offset, value):
                    self.anomalies.append(
                        f"early: {each} joins the ISR of {tp} without the acknowledged {offset}"
                    )

    def took_roles(self, broker: JudgedBroker) -> None:
        """A broker has carried out a LeaderAndIsr, in this moment."""
        for partition in broker.replicas.partitions:
            tp, epoch = partition.tp, partition.leader_epoch
            same, latest = self._epochs.get((broker.id, tp), (partition, epoch))
            if same is partition and epoch < latest:
                self.anomalies.append(f"epoch: {broker.name} went back from {latest} to {epoch} of {tp}")
            self._epochs[broker.id, tp] = (partition, epoch)
            if partition.leader_log is not None:
                first = self._leaders.setdefault((tp, epoch), broker.id)
                if first != broker.id:
                    self.anomalies.append(f"epoch: {broker.id} and {first} led {tp} in epoch {epoch}")

    def acknowledged(
        self, leader: JudgedBroker, tp: TopicPartition, result: AppendResult, values: list[bytes]
    ) -> None:
        """A leader answers an acks=all produce, in this moment."""
        self._trace(f"{leader.name} acknowledges {tp} {result.info.first_offset} {result.error.name}")
        if result.error is not ErrorCode.NONE:
            return
        records = list(enumerate(values, result.info.first_offset))
        self.answers[tp].acked += records
        self._check_copies("acknowledged", leader, tp, records)

    def shown(self, server: JudgedBroker, tp: TopicPartition, records: list[tuple[int, bytes]]) -> None:
        """A replica gives records to a consumer, in this moment."""
        if records:
            self._check_copies("shown", server, tp, records[-1:])

    def _check_copies(
        self, what: str, server: JudgedBroker, tp: TopicPartition, records: list[tuple[int, bytes]]
    ) -> None:
        offset, value = records[-1]
        holders = {broker.id for broker in self._brokers.values() if _may_have(broker, tp, offset, value)}
        stored = self._stored(tp)
        # When a reassignment ends its leader hears of the narrower assignment first, and then that the ISR
        # has shrunk (B3 and B4). In between it does not wait for what is to be removed; the controller elects
        # none of those.
        removing = self._assignments(tp.topic)[tp.partition].removing
        isr = [each for each in stored.isr if each not in removing] if stored else []
        had_it = {each for each in self._brokers if (offset, value) in self._taken_off.get((tp, each), ())}
        too_few = len(holders | had_it) < self._min_isr and not self.disks_were_lost
        if too_few or not holders.issuperset(isr):
            self.anomalies.append(
                f"early: {tp}:{offset} was {what} by {server.name} while only {sorted(holders)} have it, "
                f"isr {sorted(isr)}"
            )

    # --- in the end ---------------------------------------------------------------------------------------

    def final(self) -> None:
        """No fault is left, and everything had time to settle."""
        there = {
            TopicPartition(topic, number): replicas
            for topic in self._table.children(znodes.TOPICS)
            for number, replicas in self._assignments(topic).items()
        }
        for tp, assignment in there.items():
            if assignment.being_reassigned:
                self.anomalies.append(f"stuck: {tp} is still on the move: {assignment}")
                continue
            contents = {each: _whole(self._brokers[each].log(tp)) for each in assignment.replicas}
            self._check_contents(tp, contents)
            for broker in self._brokers.values():
                self._check_rest(broker, tp, assignment)
        topics = {tp.topic for tp in there}
        for path in (znodes.DELETE_TOPICS, znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS):
            if left := self._table.children(path):
                self.anomalies.append(f"stuck: {path} still has {left}")
        for broker in self._brokers.values():
            deleted = {str(tp) for tp in broker.logs.logs if tp.topic not in topics}
            if deleted:
                self.anomalies.append(f"stuck: {broker.name} still has {sorted(deleted)}")

    def unsent(self, tp: TopicPartition, values: list[bytes], error: ErrorCode) -> None:
        """All faults are over, and a batch of the idempotent producer is still not accepted."""
        self.anomalies.append(f"unsent: {values} of {tp} got {error.name}")

    def _stored(self, tp: TopicPartition) -> LeaderAndIsr | None:
        znode = self._table.find(znodes.partition_state_path(tp))
        return None if znode is None else znodes.decode_partition_state(znode.data, znode.stat).leader_and_isr

    def _assignments(self, topic: str) -> dict[int, ReplicaAssignment]:
        znode = self._table.find(znodes.topic_path(topic))
        assert znode is not None, "it was listed just now"
        return dict(znodes.decode_topic(znode.data).partitions)

    def _check_contents(self, tp: TopicPartition, contents: dict[int, bytes]) -> None:
        first = next(iter(contents.values()))
        for broker_id, content in contents.items():
            if content != first:
                self.anomalies.append(
                    f"different: {tp} has {len(content)} bytes on broker {broker_id}, {len(first)} elsewhere"
                )
        answers = self.answers[tp]
        there = dict(values_of(first))
        once = [value for value in there.values() if value.startswith(IDEMPOTENT.encode())]
        if once != sorted(set(once)):  # their numbers rise
            self.anomalies.append(f"twice: {tp} has {once} of the idempotent producer")
        for offset, value in answers.acked:
            if there.get(offset) != value:
                self.anomalies.append(f"lost: {value!r} was acknowledged at {tp}:{offset}")
        for offset, value in answers.read:
            if there.get(offset) != value:
                self.anomalies.append(f"unread: {value!r} was read at {tp}:{offset}")

    def _check_rest(self, broker: JudgedBroker, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        stored = self._stored(tp)
        if stored is None:
            self.anomalies.append(f"stuck: {tp} never had a leader")
            return
        known = broker.metadata.partition(tp)
        if (
            known is None
            or (known.leader, known.leader_epoch) != (stored.leader, stored.leader_epoch)
            or stored.leader == NO_LEADER
            or not set(known.isr) == set(stored.isr) == set(assignment.replicas)
        ):
            self.anomalies.append(f"stuck: {broker.name} knows {tp} as {known}, the store as {stored}")
        if broker.id not in assignment.replicas:
            return
        partition = broker.replicas.partition(tp)
        log = broker.log(tp)
        if partition is None or log is None or log.high_watermark < log.log_end_offset:
            self.anomalies.append(
                f"stuck: {broker.name} has {partition}, whose end is {log and log.log_end_offset}"
            )


def _partition_of(path: str) -> TopicPartition:
    *_, topic, _partitions, number, _state = path.split("/")
    return TopicPartition(topic, int(number))


def _may_have(broker: JudgedBroker, tp: TopicPartition, offset: int, value: bytes) -> bool:
    log = broker.log(tp)
    if log is None:
        # What a broker has whose logs are not open just now is not known.
        return not broker.opened
    if not log.log_start_offset <= offset < log.log_end_offset:
        return False
    return value in _read(log, offset, 1)


def _whole(log: "Log | None") -> bytes:
    if log is None:
        return b""
    found, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        data = _read(log, offset, _WHOLE)
        found += data
        offset = values_of(data)[-1][0] + 1
    return found


def _read(log: "Log", offset: int, size: int) -> bytes:
    records = log.read(offset, size, min_one_message=True).records
    return records if isinstance(records, bytes) else materialize([records])
