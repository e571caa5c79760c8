"""The floor under the figures, and the client that costs less: what they say they do, they do."""

import shutil
import struct
import subprocess

import pytest
from bench import wire
from bench.raw import RawClient
from bench.sides import ONE_RECORD, Floor, built

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler is here"
)
CORRUPT_MESSAGE = 2


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    side = Floor("floor", tmp_path_factory.mktemp("floor"))
    side.start()
    yield side
    side.stop()


def test_what_was_appended_is_fetched_from_any_batch_on(floor):
    batch = wire.batch(b"x" * 1000, 50)
    with RawClient(floor.running.port) as client:
        client.create_topic("fetched")
        assert client.produce_bytes("fetched", batch, 100 * len(batch)) == 100 * len(batch)
        assert client.consume_bytes("fetched", 100 * len(batch)) >= 100 * len(batch)
        found = bytes(wire.fetched_records("fetched", client.ask(wire.fetch("fetched", 4999, 1 << 20))))
    assert struct.unpack_from(">q", found) == (4950,), "the batch that has the offset is the first"
    assert found[8:12] + found[16:] == batch[8:12] + batch[16:], (
        "but for the offset and the epoch it is the same"
    )


def test_a_batch_that_was_damaged_is_refused(floor):
    with RawClient(floor.running.port) as client:
        client.create_topic("damaged")
        with pytest.raises(RuntimeError, match=f"error code {CORRUPT_MESSAGE}"):
            client.base_offset_of_one("damaged", ONE_RECORD[:-1] + b"?")
        assert client.base_offset_of_one("damaged", ONE_RECORD) == 0


def test_the_cheap_client_counts_what_the_broker_has_appended(floor, tmp_path):
    frame, shape = tmp_path / "frame", wire.ProduceResponse("counted")
    frame.write_bytes(wire.produce("counted", ONE_RECORD))
    with RawClient(floor.running.port) as client:
        client.create_topic("counted")
        command = [built("client"), frame, shape.size, shape.error_at, 25, 0.05, 4, floor.running.port]
        said = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout.split()
        assert int(said[0]) == client.base_offset_of_one("counted", ONE_RECORD) >= 100
    frame.write_bytes(wire.produce("missing", ONE_RECORD))
    refused = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (1, "an answer has an error\n")
