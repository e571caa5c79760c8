"""Requests that are nearly right, by the thousand: the broker answers or closes, and stays as it was."""

import json
import random
import struct
import time
from pathlib import Path

from wire_peer import batch, fetch, frame_of, produce

from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest

SECONDS = 6
TRIED_MIN = 100
ANSWERED_MIN = 10
PATIENCE_S = 0.02
GROWTH_MAX_BYTES = 32 << 20

GOLDEN = Path(__file__).parent.parent / "golden" / "wire.jsonl"

# What brokers say to each other would, when it happens to be right, take partitions away from the broker:
# the codecs of those are fuzzed by their own tests. A topic of two billion partitions is the operator's wish.
LEFT_OUT = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
}

NUMBERS = [0, 1, -1, -2, 0x7F, 0x80, 0x7FFF, -0x8000, 100_000, 0x7FFFFFFF, -0x80000000]


def corpus():
    """Frames without their length."""
    requests = [bytes.fromhex(json.loads(line)["request_hex"]) for line in GOLDEN.read_text().splitlines()]
    requests += [frame_of(produce("fuzz", batch(b"a", b"bb" * 50)), version)[4:] for version in (3, 8, 9)]
    requests += [frame_of(fetch("fuzz"), version)[4:] for version in (4, 11, 12)]
    return requests


def put_number(random, frame):
    position = random.randrange(len(frame))
    form = random.choice([">b", ">h", ">i", ">q"])
    limit = 1 << (8 * struct.calcsize(form) - 1)
    number = random.choice([number for number in NUMBERS if -limit <= number < limit])
    value = struct.pack(form, number)
    return frame[:position] + value + frame[position + len(value) :]


def flip_bits(random, frame):
    data = bytearray(frame)
    for _ in range(random.randint(1, 4)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def cut(random, frame):
    return frame[: random.randrange(len(frame))]


def repeat_piece(random, frame):
    start, end = sorted(random.randrange(len(frame) + 1) for _ in range(2))
    return frame[:end] + frame[start:end] * random.randint(1, 20) + frame[end:]


def remove_piece(random, frame):
    start, end = sorted(random.randrange(len(frame) + 1) for _ in range(2))
    return frame[:start] + frame[end:]


def put_long_varint(random, frame):
    position = random.randrange(len(frame))
    return (
        frame[:position]
        + b"\xff\xff\xff\xff"
        + random.choice([b"\x0f", b"\xff\xff", b"\x7f"])
        + frame[position:]
    )


def other_version(random, frame):
    return frame[:2] + struct.pack(">h", random.randint(-1, 20)) + frame[4:]


def other_api(random, frame):
    return struct.pack(">h", random.choice([random.randint(-5, 100), 999, 32767])) + frame[2:]


def garbage(random, _frame):
    return random.randbytes(random.randint(0, 300))


MUTATIONS = [
    put_number,
    flip_bits,
    cut,
    repeat_piece,
    remove_piece,
    put_long_varint,
    other_version,
    other_api,
    garbage,
]


def mutated(random, frame):
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        if frame:
            frame = random.choice(MUTATIONS)(random, frame)
    return frame


def with_length(random, frame):
    """The frame with its length in front, which now and then lies."""
    lie = random.choice([0] * 12 + [1, -1, -len(frame) - 5, 1 << 20, 1 << 30])
    return struct.pack(">i", max(min(len(frame) + lie, 0x7FFFFFFF), -0x80000000)) + frame


def is_left_out(frame):
    return len(frame) >= 2 and struct.unpack_from(">h", frame)[0] in LEFT_OUT


def test_the_broker_survives_thousands_of_broken_requests(victim):
    # pytest-randomly seeds this and prints the seed: `-p randomly -p "randomly_seed=..."` replays a failure.
    source = random.Random(random.getrandbits(64))
    frames = corpus()
    tried = answered = 0
    with victim.connect() as witness:
        for _ in range(50):
            attack(victim, source, frames)
        before = victim.memory_bytes()
        deadline = time.monotonic() + SECONDS
        # A slow machine takes longer to get as far; the test's own limit ends it.
        while time.monotonic() < deadline or tried <= TRIED_MIN or answered <= ANSWERED_MIN:
            tried += 1
            answered += attack(victim, source, frames)
            if tried % 50 == 0:
                assert witness.ask(ApiVersionsRequest()).error_code == 0
                assert witness.produce("fuzz", batch(b"still here")).error_code == 0
        assert victim.alive()
        # Not the last record: some of the broken requests are whole enough to write one.
        written = witness.produce("fuzz", batch(b"still here"))
        response = witness.ask(fetch("fuzz", written.base_offset)).responses[0].partitions[0]
        assert response.error_code == 0
        assert b"still here" in bytes(response.records)
    assert not victim.failures(), "\n".join(victim.failures())
    assert tried > TRIED_MIN
    assert answered > ANSWERED_MIN
    assert victim.memory_bytes() - before < GROWTH_MAX_BYTES


def attack(victim, source, frames):
    """Sends one broken request, or a few; whether the broker answered."""
    with victim.connect() as peer:
        peer.socket.settimeout(PATIENCE_S)
        sent = 0
        for _ in range(source.choice([1, 1, 1, 5])):
            frame = mutated(source, source.choice(frames))
            if not is_left_out(frame):
                try:
                    peer.send(with_length(source, frame))
                except OSError:
                    return False
                sent += 1
        if not sent:
            return False
        try:
            return peer.response() is not None
        except TimeoutError:
            # It waits for the rest of a frame whose length lied, or for records.
            return False
