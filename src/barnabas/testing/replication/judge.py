"""`Judge`: what may never be: at each acknowledgement, at each read, and when all has come to rest.

============  ==========================================================================================
early         a record was acknowledged with acks=all, or shown to a consumer, that fewer than ``min.insync.replicas``
              logs have, or that a member of the leader's ISR does not have: the next leader may be without it
lost          an acknowledged record is not at its offset in the end
unread        a consumer was given a record that is not at that offset in the end
different     two replicas do not hold the same records in the end
stuck         in the end a partition has no leader, an ISR that lacks a live replica, or a high watermark below its end
============  ==========================================================================================
"""

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import batch_headers, decode_records_of
from barnabas.replica.produce import AppendResult
from barnabas.testing.simulation.trace import Trace

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.testing.replication.broker import Broker, Brokers

_WHOLE: Final = 1 << 30


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


class Judge:
    """Compares the answers that clients got with what replicas have."""

    def __init__(self, tps: list[TopicPartition], brokers: "Brokers", min_isr: int, trace: Trace) -> None:
        self.answers = {tp: Answers() for tp in tps}
        self.anomalies: list[str] = []
        self._brokers = brokers
        self._min_isr = min_isr
        self._trace = trace
        self._numbers = count()

    def new_value(self, producer: str) -> bytes:
        """A value that no other record has."""
        return b"%s %d" % (producer.encode(), next(self._numbers))

    def acknowledged(
        self, leader: "Broker", tp: TopicPartition, result: AppendResult, values: list[bytes]
    ) -> None:
        """A leader answers an acks=all produce, in this moment."""
        self._trace(f"{leader.name} acknowledges {tp} {result.info.first_offset} {result.error.name}")
        if result.error is not ErrorCode.NONE:
            return
        records = list(enumerate(values, result.info.first_offset))
        self.answers[tp].acked += records
        self._check_copies("acknowledged", leader, tp, records)

    def shown(self, leader: "Broker", tp: TopicPartition, records: list[tuple[int, bytes]]) -> None:
        """A leader gives records to a consumer, in this moment."""
        if records:
            self._check_copies("shown", leader, tp, records[-1:])

    def _check_copies(
        self, what: str, leader: "Broker", tp: TopicPartition, records: list[tuple[int, bytes]]
    ) -> None:
        offset, value = records[-1]
        # What a broker has whose log is not open just now is not known.
        holders = [
            broker.id
            for broker in self._brokers.values()
            if (log := broker.log(tp)) is None or _value_at(log, offset) == value
        ]
        partition = leader.replicas.partition(tp)
        isr = frozenset() if partition is None else partition.isr_state.isr
        if len(holders) < self._min_isr or not isr.issubset(holders):
            self.anomalies.append(
                f"early: {tp}:{offset} was {what} by {leader.name} while only {holders} have it, isr {sorted(isr)}"
            )

    def final(self) -> None:
        """No fault is left, and everything had time to settle."""
        for tp, answers in self.answers.items():
            contents = {}
            for broker in self._brokers.values():
                log = broker.log(tp)
                contents[broker.id] = [] if log is None else contents_of(log)
                self._check_rest(broker, tp)
            first = next(iter(contents.values()))
            for broker_id, content in contents.items():
                if content != first:
                    self.anomalies.append(
                        f"different: {tp} has {len(content)} records on broker {broker_id}, {len(first)} elsewhere"
                    )
            there = dict(first)
            for offset, value in answers.acked:
                if there.get(offset) != value:
                    self.anomalies.append(f"lost: {value!r} was acknowledged at {tp}:{offset}")
            for offset, value in answers.read:
                if there.get(offset) != value:
                    self.anomalies.append(f"unread: {value!r} was read at {tp}:{offset}")

    def _check_rest(self, broker: "Broker", tp: TopicPartition) -> None:
        state = broker.metadata.partition(tp)
        if state is None or state.leader < 0 or len(state.isr) < len(self._brokers):
            self.anomalies.append(f"stuck: {broker.name} knows {tp} as {state}")
            return
        partition = broker.replicas.partition(tp)
        log = broker.log(tp)
        if partition is None or log is None or log.high_watermark < log.log_end_offset:
            self.anomalies.append(
                f"stuck: {broker.name} has {partition}, whose end is {log and log.log_end_offset}"
            )


def contents_of(log: "Log") -> list[tuple[int, bytes]]:
    """Offsets and values of a whole log."""
    return values_of(_bytes(log, log.log_start_offset, _WHOLE))


def _value_at(log: "Log", offset: int) -> bytes | None:
    if not log.log_start_offset <= offset < log.log_end_offset:
        return None
    return dict(values_of(_bytes(log, offset, 1))).get(offset)


def _bytes(log: "Log", offset: int, size: int) -> bytes:
    found = b""
    while offset < log.log_end_offset:
        read = log.read(offset, size, min_one_message=True).records
        data = read if isinstance(read, bytes) else bytes(materialize([read]))
        found += data
        offset = values_of(data)[-1][0] + 1
        if size == 1:
            break
    return found
