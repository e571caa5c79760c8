import numpy as np
import pyarrow as pa
import pytest

from barnabas.core.spare_blocks import SpareBlocks

MB = 1 << 20


def test_a_block_is_used_again_when_its_view_is_gone():
    spares = SpareBlocks(4 * MB)
    view = spares.take(MB)
    block = view.obj
    assert (len(view), view.readonly) == (MB, False)

    del view
    again = spares.take(MB - 5)
    assert again.obj is block
    assert len(again) == MB - 5
    assert spares.bytes_held == MB


@pytest.mark.parametrize(
    "look",
    [
        lambda view: view[5:10],
        lambda view: np.frombuffer(view, np.uint8)[7:],
        lambda view: pa.py_buffer(np.frombuffer(view, np.int32)),
        lambda view: pa.Array.from_buffers(
            pa.int32(), 4, [None, pa.py_buffer(np.frombuffer(view, np.int32))]
        ),
    ],
    ids=["view", "array", "buffer", "arrow"],
)
def test_whoever_looks_at_a_block_keeps_it(look):
    spares = SpareBlocks(4 * MB)
    view = spares.take(MB)
    block, looking, view = view.obj, look(view), None
    assert spares.take(MB).obj is not block

    del looking
    assert spares.take(MB).obj is block


def test_there_is_never_more_than_the_limit():
    spares = SpareBlocks(2 * MB)
    assert spares.take(2 * MB + 1) is None
    kept = [spares.take(MB), spares.take(MB)]
    assert spares.take(MB // 4) is None
    assert spares.bytes_held == 2 * MB

    kept.pop()
    assert spares.take(MB) is not None


def test_free_blocks_that_are_too_small_make_room():
    spares = SpareBlocks(2 * MB)
    kept = spares.take(MB // 2)
    for _ in range(3):
        spares.take(MB // 2)
    assert len(spares.take(MB + MB // 2)) == MB + MB // 2
    assert len(kept) == MB // 2
    assert spares.bytes_held == 2 * MB


def test_small_pieces_are_left_to_the_allocator():
    spares = SpareBlocks(2 * MB)
    assert spares.take(1000) is None
    assert spares.bytes_held == 0
