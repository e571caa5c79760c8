"""A transaction coordinator between a journal and a channel that do what a test says.

A module beside `conftest`, so that tests can import from it by a name of its own.
"""

from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.runtime.loading import Load
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch
from barnabas.coordinator.transaction.settings import TransactionSettings
from barnabas.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, partition_set, partitions_in
from barnabas.core.pending import Pending
from barnabas.core.slices import in_one_piece
from standing_clock import Clock

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 3)
TIMEOUT_MS = 60_000
ID = "copier"


class Journal:
    """The partition of ``__transaction_state``: what is written is replicated at once, or when a test says
    so.
    """

    def __init__(self):
        self.written = []
        self.acks = set()
        self.timeouts = []
        self.waits = False
        self.waiting = []
        self.refuses = None
        self.whole = Pending.of(None)

    def append(self, records, *, acks=None, timeout_ms=None):
        if self.refuses is not None:
            raise KafkaError(self.refuses)
        for record in records:
            record.encode()
        self.acks.add(acks)
        self.timeouts.append(timeout_ms)
        self.written.append(records)
        replicated = Pending()
        if self.waits:
            self.waiting.append(replicated)
        else:
            replicated.complete(len(self.written))
        return replicated

    def replicated(self, timeout_ms):
        del timeout_ms
        return self.whole

    def replicate(self, error=None):
        """The replicas have all that was written, or it is not known whether they have."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.fail(KafkaError(error)) if error else each.complete(0)

    @property
    def values(self):
        """The values written, of one record each."""
        return [records[0].value for records in self.written]

    @property
    def states(self):
        return [value and value.transaction_status for value in self.values]


class Channel:
    """The leaders of partitions: broker 1 leads all; they answer when a test says so."""

    def __init__(self):
        self.leaders = {}
        self.sent = []
        self.is_new = True

    def leaders_of(self, topic, partitions):
        led = {}
        for partition in partitions:
            led.setdefault(self.leaders.get((topic, partition), 1), []).append(partition)
        return led

    def is_as_new_as(self, state_partition, leader_epoch):
        assert (state_partition, leader_epoch) >= (0, 5)
        return self.is_new

    def write_markers(self, broker_id, markers):
        answer = Pending()
        self.sent.append((broker_id, list(markers), answer))
        return answer

    @property
    def partitions(self):
        """(broker, [partitions of each marker]) of all requests."""
        return [
            (broker, [list(partitions_in(each.partitions)) for each in markers])
            for broker, markers, _ in self.sent
        ]

    def answer(self, code=ErrorCode.NONE, **codes):
        """Answers the oldest request: the code of each partition by topic, or the same one for all."""
        _, markers, answer = self.sent.pop(0)
        answer.complete(
            {
                marker.producer.producer_id: {
                    topic: dict.fromkeys(partitions, codes.get(topic, code))
                    for topic, partitions in marker.partitions.items()
                }
                for marker in markers
            }
        )

    def disconnect(self):
        self.sent.pop(0)[2].fail(ConnectionError("gone"))


class Loads:
    """The queue of loads: gives each shard the records that a test has put there."""

    def __init__(self):
        self.records = []

    def load(self, replay, log):
        load = Load(replay, log)
        try:
            for step in self.steps(replay.machine.bulk):
                replay.step(step)
        except KafkaError as error:
            load.done.fail(error)
        else:
            load.done.complete(None)
        return load

    def steps(self, bulk):
        """What is read: a record, its bytes, or why a batch cannot be read."""
        for each in self.records:
            if isinstance(each, str):
                yield -1, each
            else:
                encoded = each.encode() if isinstance(each, CoordinatorRecord) else each
                yield -1, bulk([encoded], 0, {})


class Log:
    class config:
        max_message_bytes = 1_000_000


class Rig:
    """The coordinator of all ids, with one partition."""

    def __init__(self, **config):
        self.clock = Clock()
        self.journal, self.channel, self.loads = Journal(), Channel(), Loads()
        self.ids = iter(range(1000, 2000))
        self.next_id = None
        given = {key.replace("_", "."): str(value) for key, value in config.items()}
        self.log = Log()
        self.server_version = 0
        """The finalized level of ``transaction.version``."""
        self.coordinator = TransactionCoordinator(
            TransactionSettings.of(broker_config(given)),
            self.clock,
            channel=self.channel,
            new_producer_id=self._new_producer_id,
            loader=self.loads,
            journal=lambda partition: self.journal,
            log=lambda partition: self.log,
            server_version=lambda: self.server_version,
        )
        self.coordinator.startup(1)
        self.coordinator.elected(0, 5)

    def _new_producer_id(self):
        return Pending.of(next(self.ids)) if self.next_id is None else self.next_id

    # --- requests: their outcome, or the code that they are refused with

    def init(self, expected=None, *, transactional_id=ID, timeout_ms=TIMEOUT_MS):
        return outcome(
            lambda: self.coordinator.init_producer_id(
                transactional_id, timeout_ms, expected and ProducerIdAndEpoch(*expected)
            )
        )

    def add(self, producer, *partitions, transactional_id=ID, version=0):
        return outcome(
            lambda: self.coordinator.add_partitions(
                transactional_id,
                ProducerIdAndEpoch(*producer),
                partition_set(partitions or (ORDERS,)),
                client_version=version,
            )
        )

    def end(self, producer, *, committed=True, transactional_id=ID):
        """As a client of before, who is told nothing."""
        ended = self.end_2(producer, committed=committed, transactional_id=transactional_id, version=0)
        return None if ended == producer else ended

    def end_2(self, producer, *, committed=True, transactional_id=ID, version=2):
        """The producer of the next transaction."""
        return outcome(
            lambda: self.coordinator.end_transaction(
                transactional_id,
                ProducerIdAndEpoch(*producer),
                committed=committed,
                client_version=version,
            )
        )

    def verify(self, producer, *partitions, transactional_id=ID):
        found = outcome(
            lambda: self.coordinator.verify_partitions(
                transactional_id, ProducerIdAndEpoch(*producer), partition_set(partitions or (ORDERS,))
            )
        )
        if isinstance(found, ErrorCode):
            return found
        return {TopicPartition(topic, each): code for topic in found for each, code in found[topic].items()}

    def listed(self, **filters):
        asked = {"producer_ids": (), "state_names": (), **filters}
        found = in_one_piece(self.coordinator.transactions(**asked))
        return sorted(metadata.transactional_id for metadata in found)

    # --- what is reached by several of them

    def metadata(self, transactional_id=ID):
        return self.coordinator.describe(transactional_id)

    def state(self, transactional_id=ID):
        return self.metadata(transactional_id).state.label

    def ongoing(self, *partitions):
        """A transaction with partitions; its producer."""
        producer = self.init()
        assert self.add(producer, *partitions) is None
        return producer

    def ended(self, *, committed=True):
        """A transaction that is complete; its producer."""
        producer = self.ongoing()
        assert self.end(producer, committed=committed) is None
        self.turn()
        self.channel.answer()
        return producer

    def turn(self, ms=0):
        self.clock.advance(ms)


def outcome(ask):
    """What a request gives: its value, the code of a refusal, or the Pending of both."""
    try:
        given = ask()
    except KafkaError as refused:
        return refused.code
    return settled(given) if isinstance(given, Pending) else given


def settled(pending):
    if not pending.done:
        return pending
    if isinstance(pending.error, KafkaError):
        return pending.error.code
    return pending.result()
