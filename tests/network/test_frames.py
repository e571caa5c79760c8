import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.network.errors import CloseConnection
from barnabas.network.frames import RECEIVE_BYTES, FrameReader, ReceiveMemory


def framed(body):
    return struct.pack(">i", len(body)) + body


def feed(reader, data, pieces=(1 << 30,)):
    """Gives the data to the reader as a socket would, in pieces of at most these sizes."""
    frames, position, turn = [], 0, 0
    while position < len(data):
        limit = pieces[turn % len(pieces)]
        turn += 1
        count = 0
        for buffer in reader.buffers():
            piece = data[position + count : position + min(limit, count + len(buffer))]
            buffer[: len(piece)] = piece
            count += len(piece)
            if count < len(buffer):
                break
        frames += reader.received(count)
        position += count
    return frames


def test_many_frames_of_one_read():
    reader = FrameReader(ReceiveMemory(), 1000)
    bodies = [b"a", b"", b"ccc" * 50]

    frames = feed(reader, b"".join(map(framed, bodies)))

    assert [bytes(frame) for frame in frames] == bodies


@given(
    st.lists(st.binary(max_size=40), max_size=20),
    st.lists(st.integers(1, 17), min_size=1, max_size=5),
)
def test_any_cut_gives_the_same_frames(bodies, pieces):
    reader = FrameReader(ReceiveMemory(), 1000)

    frames = feed(reader, b"".join(map(framed, bodies)), pieces)

    assert [bytes(frame) for frame in frames] == bodies
    assert "between frames" in repr(reader)


@pytest.mark.parametrize("piece", [1 << 30, 4096, 65537, 131071])
def test_large_frames_between_small_ones(piece):
    reader = FrameReader(ReceiveMemory(), 1 << 24)
    bodies = [b"x", bytes(range(256)) * 12_000, b"y" * 300, b"z" * RECEIVE_BYTES, b"", b"w" * 700_001, b"v"]

    frames = feed(reader, b"".join(map(framed, bodies)), [piece])

    assert [bytes(frame) for frame in frames] == bodies


def test_two_connections_share_the_buffer_without_mixing():
    shared = ReceiveMemory()
    one, other = FrameReader(shared, 1000), FrameReader(shared, 1000)
    first, second = framed(b"first" * 20), framed(b"second" * 20)

    got = feed(one, first[:3]) + feed(other, second[:50]) + feed(one, first[3:])
    got += feed(other, second[50:])

    assert [bytes(frame) for frame in got] == [b"first" * 20, b"second" * 20]


def test_frames_stay_as_they_are_when_more_comes_and_can_be_written():
    reader = FrameReader(ReceiveMemory(), 1000)

    [kept] = feed(reader, framed(b"keep me"))
    kept[0:4] = b"KEEP"
    feed(reader, framed(b"another one"))

    assert bytes(kept) == b"KEEP me"


def test_a_large_frame_is_received_where_the_one_before_it_was_when_nobody_looks_at_that_any_more():
    memory = ReceiveMemory()
    one, other = FrameReader(memory, 1 << 24), FrameReader(memory, 1 << 24)

    [kept] = feed(one, framed(b"r" * 3_000_000))
    [frame] = feed(other, framed(b"s" * 2_000_000))
    assert frame.obj is not kept.obj
    block, frame = frame.obj, None

    [frame] = feed(one, framed(b"t" * 2_000_001))
    assert frame.obj is block
    assert bytes(frame) == b"t" * 2_000_001
    assert bytes(kept) == b"r" * 3_000_000


def test_where_no_spare_block_is_free_a_frame_grows_by_itself():
    memory = ReceiveMemory(spare_bytes_max=1 << 20)
    readers = [FrameReader(memory, 1 << 24) for _ in range(3)]
    begun = [feed(reader, framed(b"u" * 900_000)[:500_000]) for reader in readers]
    assert begun == [[], [], []]
    assert memory.spares.bytes_held <= 1 << 20

    frames = [feed(reader, b"u" * 400_004) for reader in readers]
    assert [bytes(frame) for [frame] in frames] == [b"u" * 900_000] * 3


def test_a_lying_length_costs_no_memory():
    reader = FrameReader(ReceiveMemory(), 100 << 20)

    feed(reader, struct.pack(">i", 100 << 20) + b"ten bytes!")

    assert sum(map(len, reader.buffers())) <= 64 * 1024
    assert repr(reader) == "<FrameReader 10 of 104857600 bytes>"


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (-1, r"Invalid receive \(size = -1\)"),
        (-(2**31), "size = -2147483648"),
        (1001, r"Invalid receive \(size = 1001 larger than 1000\)"),
    ],
)
@pytest.mark.parametrize("before", [b"", framed(b"fine")])
def test_a_size_that_is_not_allowed_closes(size, reason, before):
    reader = FrameReader(ReceiveMemory(), 1000)

    frames = feed(reader, before + struct.pack(">i", size) + b"tail")

    assert b"".join(map(framed, frames)) == before
    assert isinstance(reader.problem, CloseConnection)
    assert re.search(reason, reader.problem.reason)


def test_the_largest_allowed_size_passes():
    reader = FrameReader(ReceiveMemory(), 1000)

    assert len(feed(reader, framed(b"m" * 1000))) == 1
    assert "between frames" in repr(reader)


@pytest.mark.parametrize("size", [1001, 5000, RECEIVE_BYTES - 4])
def test_a_frame_alone_in_a_read_that_is_too_large_closes(size):
    reader = FrameReader(ReceiveMemory(), 1000)

    assert feed(reader, framed(b"m" * size)) == []
    assert f"size = {size} larger than 1000" in reader.problem.reason


@pytest.mark.parametrize("size", [1, 999, 1000])
def test_a_frame_alone_in_a_read_up_to_the_limit_passes(size):
    reader = FrameReader(ReceiveMemory(), 1000)

    assert feed(reader, framed(b"m" * size)) == [b"m" * size]


def test_the_end_of_a_frame_comes_with_the_beginning_of_the_next():
    """The shared buffer holds the next size first, which may be that of the whole read."""
    reader = FrameReader(ReceiveMemory(), 1000)
    assert feed(reader, framed(b"h" * 10)[:10]) == []
    rest, shared = reader.buffers()
    rest[:4] = b"hhhh"
    shared[:20] = framed(b"n" * 20)[:20]

    assert reader.received(24) == [b"h" * 10]
    assert feed(reader, b"nnnn") == [b"n" * 20]


def test_a_piece_of_a_size_is_put_before_the_next_read():
    reader = FrameReader(ReceiveMemory(), 1000)
    assert feed(reader, b"\x00\x00") == []

    assert feed(reader, b"\x00\x05" + b"hello") == [b"hello"]


@pytest.mark.parametrize("after", [framed(b"z"), b"", b"\x00\x00", framed(b"q" * 900)[:500]])
@pytest.mark.parametrize("size", [1001, 60_000])
def test_a_frame_that_is_too_large_among_whole_ones_of_a_read_closes(size, after):
    reader = FrameReader(ReceiveMemory(), 1000)

    frames = feed(reader, framed(b"fine") + framed(b"m" * size) + after)

    assert frames == [b"fine"]
    assert f"size = {size} larger than 1000" in reader.problem.reason


@pytest.mark.parametrize("size", [-1, -100, -(2**31)])
def test_a_negative_size_closes(size):
    reader = FrameReader(ReceiveMemory(), 1000)

    assert feed(reader, struct.pack(">i", size) + b"x" * 20) == []
    assert reader.problem.reason == f"Invalid receive (size = {size})"


def test_a_cleared_reader_holds_no_frame():
    memory = ReceiveMemory()
    reader = FrameReader(memory, 1 << 24)
    feed(reader, framed(b"u" * 900_000)[:500_000])
    assert memory.spares.take(900_000).obj is not reader.buffers()[0].obj
    held = memory.spares.bytes_held

    reader.clear()

    # Both blocks are free: two more frames of this size need no further memory.
    blocks = [memory.spares.take(900_000) for _ in range(2)]
    assert None not in blocks
    assert memory.spares.bytes_held == held
    assert reader.missing == 0
    assert sum(map(len, reader.buffers())) == RECEIVE_BYTES
