"""No request holds the event loop: every API with as many elements as it has room for, and the longest piece of work.

The requests are made from the schemas: for each array, however deep, one request in which that array is long. They go
through the real dispatcher, codecs and handlers. A hold is the processor time of one callback of the loop, so a busy
machine does not lengthen it; a slow one does, and is measured first.

With ``BARNABAS_HOLD_ELEMENTS=240000`` the requests are nearly as large as the default limit allows, which takes minutes;
a larger one is refused while it is decoded.
"""

import gc
import os
import time

import pytest

from barnabas.broker.handlers import api_table
from barnabas.core.chunks import materialize
from barnabas.core.ids import GROUP_METADATA_TOPIC
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.layout import layout_of
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.update_metadata import UpdateMetadataPartitionState
from barnabas.protocol.wire import Wire
from standing_clock import Clock

ELEMENTS = int(os.environ.get("BARNABAS_HOLD_ELEMENTS", "15000"))
HOLD_MS_MAX = 50.0 if ELEMENTS > 40_000 else 30.0
"""Slices take 5 ms; what works its elements off in one go takes 2 us for each at least."""
COMMIT_HOLD_MS_MAX = 50.0
"""For 10,000 partitions that exist: a commit is written whole or not at all."""
CALM_MS = 40.0
"""What `calibration_ms` gives on the machine that the limit was chosen on, when nothing else runs."""

pytestmark = pytest.mark.timeout(600 if ELEMENTS > 40_000 else 60)


class TurnClock(Clock):
    """A clock that stands but for the processor time of this thread, and times each callback."""

    def __init__(self):
        super().__init__()
        self.holds_ms = []

    def monotonic_ms(self):
        return super().monotonic_ms() + time.thread_time() * 1000

    def call_later(self, delay_ms, callback):
        return super().call_later(delay_ms, lambda: self.measure(callback))

    def measure(self, callback):
        before = time.thread_time()
        try:
            return callback()
        finally:
            self.holds_ms.append((time.thread_time() - before) * 1000)


def calibration_ms():
    """The best of three times of a fixed piece of work like that of a handler."""
    times = []
    for _ in range(3):
        before = time.thread_time()
        found = {}
        for number in range(100_000):
            found[f"name-{number}"] = (number, str(number))
        times.append((time.thread_time() - before) * 1000)
        del found
    return min(times)


def value_of(layout, field, number, path):
    """A value of a field; the arrays on the path are long where the path ends, and have one element before."""
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
    for api in api_table(("classic", "consumer")).values():
        layout = layout_of(api.request, api.max_version, flexible=api.request.is_flexible(api.max_version))
        for path in paths_of(layout):
            yield pytest.param(api.key, path, id=f"{api.key.name}-{'.'.join(path)}")


@pytest.fixture(scope="module")
def allowed_ms():
    """The longest hold, on this machine, with the garbage collector as the broker sets it."""
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(25_000, 4, 500)
    yield HOLD_MS_MAX * max(1.0, calibration_ms() / CALM_MS)
    gc.set_threshold(*threshold)
    gc.unfreeze()


@pytest.fixture
def timed(make_world, monkeypatch):
    """A broker on a clock that times its callbacks, with one topic."""
    monkeypatch.setitem(make_world.__init__.__globals__, "Clock", TurnClock)
    world = make_world(group_coordinator_rebalance_protocols="classic,consumer")
    world.create("n1", 2)
    world.clock.holds_ms.clear()
    gc.freeze()  # what tests leave behind is not the broker's, and the collector would walk it
    return world


@pytest.mark.parametrize(("key", "path"), list(cases()))
def test_no_request_holds_the_loop(timed, allowed_ms, key, path):
    api = timed.services.api_table[key]
    layout = layout_of(api.request, api.max_version, flexible=api.request.is_flexible(api.max_version))
    request = struct_of(layout, 0, list(path))
    header = RequestHeader(key, api.max_version, 1, "t")
    frame = memoryview(bytearray(materialize(encode_request(header, request))[4:]))
    del request
    clock = timed.clock

    try:
        outcome = clock.measure(lambda: timed.dispatcher.handle(timed.peer, frame))
        clock.advance(60_000)
        clock.measure(lambda: bool(outcome))
    except CloseConnection:
        pass

    assert max(clock.holds_ms) < allowed_ms, f"of {len(clock.holds_ms)} callbacks"


def test_a_commit_of_very_many_partitions_that_exist_does_not_hold_the_loop(timed, allowed_ms):
    """It is written in one piece, and everything that can be done ahead is done in slices before."""
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
    assert max(timed.clock.holds_ms[1:]) < allowed_ms * COMMIT_HOLD_MS_MAX / HOLD_MS_MAX


def test_every_api_of_the_table_is_walked():
    walked = {case.values[0] for case in cases()}
    without_arrays = {
        ApiKey(key)
        for key, api in api_table(("classic", "consumer")).items()
        if not list(
            paths_of(
                layout_of(api.request, api.max_version, flexible=api.request.is_flexible(api.max_version))
            )
        )
    }

    assert walked | without_arrays == {ApiKey(key) for key in api_table()}
    assert len(walked) >= 20
