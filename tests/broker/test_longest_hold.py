"""No request holds the event loop: every API with as many elements as it has room for, and the longest piece
of work.

The requests are made from the schemas: for each array, however deep, one request in which that array is long.
They go through the real dispatcher, codecs and handlers. A hold is the processor time of one callback of the
loop. A slow machine lengthens it, and so do others that use the same caches and cores: what is too long is
compared with what a fixed piece of work takes at that moment, and tried again in a new world. What the work
itself takes is there each time.

With ``BARNABAS_HOLD_ELEMENTS=240000`` the requests are nearly as large as the default limit allows, which
takes minutes; a larger one is refused while it is decoded.
"""

import gc
import logging
import os
import time
from functools import cache

import pytest

from barnabas.broker.authorizer import Resource
from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_4_4
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.chunks import materialize
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.core.offload import InPlace
from barnabas.log.flush import InPlaceSyncer
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.layout import layout_of
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.protocol.messages.update_metadata import UpdateMetadataPartitionState
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.wire import Wire
from barnabas.testing.disk import SimulatedFilesystem
from standing_clock import Clock

ELEMENTS = int(os.environ.get("BARNABAS_HOLD_ELEMENTS", "15000"))
HOLD_MS_MAX = 50.0 if ELEMENTS > 40_000 else 30.0
"""Slices take 5 ms; what works its elements off in one go takes 2 us for each at least."""
COMMIT_HOLD_MS_MAX = 50.0
"""For 10,000 partitions that exist: a commit is written whole or not at all."""
TRANSACTION_HOLD_MS_MAX = 100.0
"""So is the record of a transaction, of 1 MB: it takes 20 ms alone, and 55 beside two other files."""
TRANSACTION_PARTITIONS = 250_000
"""Of one transaction: as many as fit into a record of ``__transaction_state``."""
PARTITIONS = 200
"""That exist, on a slow disk."""
CALM_MS = 40.0
"""What the work of `slowness` takes on the machine that the limit was chosen on, when nothing else runs."""

pytestmark = pytest.mark.timeout(600 if ELEMENTS > 40_000 else 60)


class TurnClock(Clock):
    """A clock that stands but for what the loop is busy with, and times each callback."""

    def __init__(self):
        super().__init__()
        self.holds_ms = []
        self.waited_ms = 0.0
        self.elsewhere_ms = 0.0

    def busy_ms(self):
        """The processor time of this thread, and what it has waited for the disk."""
        return time.thread_time() * 1000 + self.waited_ms - self.elsewhere_ms

    def monotonic_ms(self):
        return super().monotonic_ms() + self.busy_ms()

    def call_later(self, delay_ms, callback):
        return super().call_later(delay_ms, lambda: self.measure(callback))

    def measure(self, callback):
        before = self.busy_ms()
        try:
            return callback()
        finally:
            self.holds_ms.append(self.busy_ms() - before)

    def do_elsewhere(self, work):
        """Does what another thread does: that is not the loop's time."""
        before = self.busy_ms()
        outcome = work()
        self.elsewhere_ms += self.busy_ms() - before
        return outcome


class SlowDisk(SimulatedFilesystem):
    """One on which whatever waits for the platter takes its time, by the clock."""

    SYNC_MS = 6
    REMOVE_MS = 10

    def __init__(self, clock):
        super().__init__(now_ms=clock.time_ms)
        self._clock = clock

    def check(self, path, operation):
        if operation == "sync":
            self._clock.waited_ms += self.SYNC_MS
        super().check(path, operation)

    def remove(self, path):
        self._clock.waited_ms += self.REMOVE_MS
        super().remove(path)

    def remove_tree(self, path):
        self._clock.waited_ms += self.REMOVE_MS * len(self.listdir(path))
        super().remove_tree(path)


class OtherThread(InPlace):
    """The threads of a broker that wait for its disk."""

    def __init__(self, clock):
        self._clock = clock

    def run(self, function, /, *args, **kwargs):
        return self._clock.do_elsewhere(lambda: InPlace.run(self, function, *args, **kwargs))

    def sync(self, files):
        return self._clock.do_elsewhere(lambda: InPlaceSyncer().sync(files))


def slowness():
    """How many times as long as on a calm machine a fixed piece of work takes now, like that of a handler."""
    times = []
    for _ in range(3):
        before = time.thread_time()
        found = {}
        for number in range(100_000):
            found[f"name-{number}"] = (number, str(number))
        times.append((time.thread_time() - before) * 1000)
        del found
    return max(1.0, max(times) / CALM_MS)


def value_of(layout, field, number, path):
    """A value of a field; the arrays on the path are long where the path ends, and have one element
    before.
    """
    if field.is_array:
        if not path or path[0] != field.name:
            return []
        count = 1 if len(path) > 1 else ELEMENTS
        return [one_value(layout, field, index, path[1:]) for index in range(count)]
    return one_value(layout, field, number, path[1:] if path and path[0] == field.name else [])


def one_value(layout, field, number, path):
    if not isinstance(field.kind, Wire):
        return struct_of(layout.of(field), number, path)
    if field.kind.name in {"string", "uuid", "bytes", "records"}:
        made = {"string": f"n{number}", "uuid": number.to_bytes(16, "big"), "bytes": b"", "records": b""}
        return made[field.kind.name]
    return number if field.kind.name in {"int32", "int64"} else 0


def struct_of(layout, number, path):
    values = {}
    for field in layout.fields:
        # Outside of arrays the defaults say what a request means; names and numbers make elements differ.
        if field.is_array or not isinstance(field.kind, Wire) or number:
            values[field.name] = value_of(layout, field, number, path)
    return layout.cls(**values)


def paths_of(layout, before=()):
    """The way to each array of a message."""
    for field in layout.fields:
        path = (*before, field.name)
        if field.is_array:
            yield path
        if field.struct is not None:
            yield from paths_of(layout.of(field), path)


def cases():
    for api in api_table(PROFILE_4_4).values():
        layout = layout_of(api.request, api.max_version, flexible=api.request.is_flexible(api.max_version))
        for path in paths_of(layout):
            yield pytest.param(api.key, path, id=f"{api.key.name}-{'.'.join(path)}")


@pytest.fixture(scope="module", autouse=True)
def collector():
    """The garbage collector as the broker sets it."""
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(25_000, 4, 500)
    yield
    frame_of.cache_clear()
    gc.set_threshold(*threshold)
    # What these tests have left goes; what every test of this process has around it stays frozen.
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture
def without_a_log():
    """A broker writes its lines; pytest keeps each, with all that it names, and the collector walks that."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def make_timed(make_world, monkeypatch, without_a_log):
    """Makes brokers on a clock that times its callbacks, with one topic."""
    monkeypatch.setitem(make_world.__init__.__globals__, "Clock", TurnClock)

    def make():
        world = make_world(barnabas_api_profile="4.4")
        world.create("n1", 2)
        world.clock.holds_ms.clear()
        gc.freeze()  # what tests leave behind is not the broker's, and the collector would walk it
        return world

    return make


def assert_no_hold(measure, limit_ms=HOLD_MS_MAX):
    """That `measure` finds no longer hold than the limit, one time of five at least."""
    tries = []
    while len(tries) < 5:
        hold_ms = measure()
        if hold_ms < limit_ms or hold_ms < (allowed_ms := limit_ms * slowness()):
            return
        tries.append(f"{hold_ms:.0f} of {allowed_ms:.0f}")
    raise AssertionError(f"longest holds {', '.join(tries)} ms")


class DeniesNames:
    """Allows what concerns the cluster, and nothing that a client names."""

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        return resource is Resource.CLUSTER

    def authorize_any(self, request, operation, resource):
        return False


@pytest.mark.parametrize("denied", [False, True], ids=["allowed", "denied"])
@pytest.mark.parametrize(("key", "path"), list(cases()))
def test_no_request_holds_the_loop(make_timed, key, path, denied):
    assert_no_hold(lambda: hold_of_request_ms(make_timed(), key, path, denied=denied))


@cache
def frame_of(key, path):
    """The request as it comes: to make one takes longer than to answer it."""
    api = api_table(PROFILE_4_4)[key]
    layout = layout_of(api.request, api.max_version, flexible=api.request.is_flexible(api.max_version))
    header = RequestHeader(key, api.max_version, 1, "t")
    return bytes(materialize(encode_request(header, struct_of(layout, 0, list(path))))[4:])


def hold_of_request_ms(timed, key, path, *, denied):
    if denied:
        timed.services.authorizer = DeniesNames()
    frame = memoryview(bytearray(frame_of(key, path)))
    clock = timed.clock

    try:
        outcome = clock.measure(lambda: timed.dispatcher.handle(timed.peer, frame))
        clock.advance(60_000)
        clock.measure(lambda: bool(outcome))
    except CloseConnection:
        pass
    return max(clock.holds_ms)


def test_a_commit_of_very_many_partitions_that_exist_does_not_hold_the_loop(make_timed):
    """It is written in one piece, and everything that can be done ahead is done in slices before."""
    assert_no_hold(lambda: hold_of_commit_ms(make_timed()), COMMIT_HOLD_MS_MAX)


def hold_of_commit_ms(timed):
    timed.create(GROUP_METADATA_TOPIC, 50)
    names = [f"t{number}" for number in range(10)]
    for name in names:
        state = UpdateMetadataPartitionState
        timed.update_metadata({name: [state(partition_index=i, leader=1, isr=[1]) for i in range(1000)]})
    partitions = [OffsetCommitRequestPartition(partition_index=i, committed_offset=i) for i in range(1000)]
    topics = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in names]
    timed.clock.holds_ms.clear()

    answer = timed.clock.measure(lambda: timed.start(OffsetCommitRequest(group_id="g", topics=topics), 8))
    timed.clock.advance(60_000)

    codes = {each.error_code for topic in answer().topics for each in topic.partitions}
    assert (codes, len(answer().topics)) == ({0}, 10)
    # The first of them also makes the frame, which a client does elsewhere.
    return max(timed.clock.holds_ms[1:])


def codes_of(answer):
    """The codes of the partitions that an answer names."""
    by_topic = getattr(answer, "results_by_topic_v3_and_below", [])
    by_transaction = getattr(answer, "results_by_transaction", [])
    topics = [*by_topic, *(topic for each in by_transaction for topic in each.topic_results)]
    return {each.partition_error_code for topic in topics for each in topic.results_by_partition}


@pytest.mark.parametrize("by_broker", [False, True], ids=["of a client", "of a broker"])
def test_a_transaction_of_very_many_partitions_does_not_hold_the_loop(make_timed, by_broker):
    """They are added, added again, verified, and get their markers."""
    assert_no_hold(lambda: hold_of_transaction_ms(make_timed(), by_broker=by_broker), TRANSACTION_HOLD_MS_MAX)


def hold_of_transaction_ms(timed, *, by_broker):
    timed.create(TRANSACTION_STATE_TOPIC, 50)
    state = UpdateMetadataPartitionState
    names = [f"t{number}" for number in range(TRANSACTION_PARTITIONS // 1000)]
    for name in names:
        # Another broker leads them, which is not there: the markers wait for it.
        timed.update_metadata({name: [state(partition_index=i, leader=9, isr=[9]) for i in range(1000)]})
    begin = InitProducerIdRequest(transactional_id="copier", transaction_timeout_ms=60_000)
    producer = timed.send(begin, 4)
    topics = [AddPartitionsToTxnTopic(name=name, partitions=list(range(1000))) for name in names]
    if by_broker:
        added, verified = (
            AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnTransaction(
                        transactional_id="copier",
                        producer_id=producer.producer_id,
                        producer_epoch=producer.producer_epoch,
                        verify_only=verify_only,
                        topics=topics,
                    )
                ]
            )
            for verify_only in (False, True)
        )
    else:
        added = verified = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="copier",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=topics,
        )
    end = EndTxnRequest(
        transactional_id="copier", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
    )
    version_added = 5 if by_broker else 3
    holds_ms = []
    for request, version in (
        (added, version_added),
        (added, version_added),
        (verified, version_added),
        (end, 3),
    ):
        timed.clock.holds_ms.clear()
        answer = timed.clock.measure(lambda request=request, version=version: timed.start(request, version))
        timed.clock.advance(1000)

        assert not getattr(answer(), "error_code", 0)
        assert codes_of(answer()) <= {0}
        # The first of them also makes the frame, which a client does elsewhere.
        holds_ms += timed.clock.holds_ms[1:]
    assert timed.transaction_coordinator.describe("copier").state is TransactionState.PREPARE_ABORT
    return max(holds_ms)


def test_markers_for_very_many_partitions_that_are_not_here_do_not_hold_the_loop(make_timed):
    assert_no_hold(lambda: hold_of_markers_ms(make_timed()))


def hold_of_markers_ms(timed):
    topic = WritableTxnMarkerTopic(name="n1", partition_indexes=range(2, TRANSACTION_PARTITIONS))
    marker = WritableTxnMarker(producer_id=7, producer_epoch=0, topics=[topic])
    header = RequestHeader(ApiKey.WRITE_TXN_MARKERS, 1, 1, "t")
    encoded = materialize(encode_request(header, WriteTxnMarkersRequest(markers=[marker])))
    frame = memoryview(bytearray(encoded[4:]))

    answer = timed.clock.measure(lambda: timed.dispatcher.handle(timed.peer, frame))
    timed.clock.advance(1000)

    assert answer.done
    return max(timed.clock.holds_ms)


@pytest.fixture
def make_slow(make_world):
    """Makes brokers whose disk is slow, with 200 partitions of a topic with a record each."""

    def make():
        clock = TurnClock()
        thread = OtherThread(clock)
        world = make_world(clock=clock, disk=SlowDisk(clock), syncer=thread, disk_thread=thread)
        handle = world.send_frame
        world.send_frame = lambda frame: clock.measure(lambda: handle(frame))
        world.create("orders", PARTITIONS)
        for partition in range(PARTITIONS):
            assert not world.produce(partition=partition).responses[0].partition_responses[0].error_code
        gc.freeze()
        clock.holds_ms.clear()
        return world

    return make


def longest_hold_ms(world, request, version, *, wait_ms=60_000):
    """Of a request, and of what it leads to in a minute."""
    clock = world.clock
    answer = world.start(request, version)
    clock.advance(wait_ms)
    assert answer() is not None
    return answer(), max(clock.holds_ms)


def test_partitions_that_are_made_do_not_hold_the_loop_on_a_slow_disk(make_slow):
    def hold_ms():
        slow = make_slow()
        slow.create("new", PARTITIONS)

        assert slow.partition("new", PARTITIONS - 1).leader_log is not None
        return max(slow.clock.holds_ms)

    assert_no_hold(hold_ms)


def test_new_epochs_do_not_hold_the_loop_on_a_slow_disk(make_slow):
    def hold_ms():
        slow = make_slow()
        slow.create("orders", PARTITIONS, epoch=1)

        assert slow.partition("orders", PARTITIONS - 1).leader_epoch == 1
        return max(slow.clock.holds_ms)

    assert_no_hold(hold_ms)


def test_records_that_are_deleted_do_not_hold_the_loop_on_a_slow_disk(make_slow):
    topic = DeleteRecordsTopic(
        name="orders",
        # So few that they were once worked off without a look at the clock.
        partitions=[DeleteRecordsPartition(partition_index=i, offset=-1) for i in range(15)],
    )

    def hold_ms():
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
        answer, hold_ms = longest_hold_ms(make_slow(), request, 2)

        assert {each.low_watermark for each in answer.topics[0].partitions} == {1}
        return hold_ms

    assert_no_hold(hold_ms)


def test_a_topic_that_is_deleted_does_not_hold_the_loop_on_a_slow_disk(make_slow):
    """Neither while its directories are renamed nor when all of them are due to be removed."""
    states = [
        StopReplicaPartitionState(partition_index=i, leader_epoch=0, delete_partition=True)
        for i in range(PARTITIONS)
    ]
    request = StopReplicaRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=7,
        topic_states=[StopReplicaTopicState(topic_name="orders", partition_states=states)],
    )

    def hold_ms():
        slow = make_slow()
        answer, hold_ms = longest_hold_ms(slow, request, 4, wait_ms=120_000)

        assert {each.error_code for each in answer.partition_errors} == {0}
        assert [name for name in slow.disk.listdir("/data") if name.startswith("orders-")] == []
        return hold_ms

    assert_no_hold(hold_ms)


def test_every_api_of_the_table_is_walked():
    walked = {case.values[0] for case in cases()}
    without_arrays = {
        ApiKey(key)
        for key, api in api_table(PROFILE_4_4).items()
        if not list(
            paths_of(
                layout_of(api.request, api.max_version, flexible=api.request.is_flexible(api.max_version))
            )
        )
    }

    assert walked | without_arrays == {ApiKey(key) for key in api_table(PROFILE_4_4)}
    assert len(walked) >= 20
