import gzip
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.records.compression import (
    XERIAL_HEADER,
    Codec,
    CompressionError,
    codec_of,
    compress,
    decompress,
)

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
BIG = b"barnabas" * 50_000


@settings(max_examples=60)
@given(data=st.binary(max_size=3000), codec=st.sampled_from(list(Codec)))
def test_round_trip(data, codec):
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_large_data_shrinks_and_comes_back(codec):
    packed = compress(codec, BIG)

    assert len(packed) < len(BIG) / 10
    assert decompress(codec, packed, len(BIG)) == BIG


@pytest.mark.parametrize("codec", list(Codec))
def test_stops_at_the_limit(codec):
    packed = compress(codec, BIG)

    with pytest.raises(CompressionError, match=f"more than {len(BIG) - 1} bytes"):
        decompress(codec, packed, len(BIG) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_damaged_data_is_an_error(codec):
    packed = compress(codec, BIG)

    for damaged in (packed[: len(packed) // 2], b"\x01\x02\x03" * 20):
        with pytest.raises(CompressionError):
            decompress(codec, damaged)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_accepts_views(codec):
    packed = memoryview(bytearray(compress(codec, memoryview(BIG))))

    assert decompress(codec, packed) == BIG


def test_gzip_members_are_concatenated():
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


def test_gzip_bomb_of_many_members_is_bounded():
    with pytest.raises(CompressionError):
        decompress(Codec.GZIP, gzip.compress(bytes(1000)) * 50, 20_000)


@pytest.mark.timeout(30)
def test_many_gzip_members_cost_no_more_than_their_bytes():
    """Two hundred thousand of nothing: with a copy of the rest for each it took minutes."""
    assert decompress(Codec.GZIP, gzip.compress(b"") * 200_000 + gzip.compress(b"end")) == b"end"


def test_a_gzip_member_that_is_cut_behind_whole_ones_is_an_error():
    packed = gzip.compress(BIG) + gzip.compress(b"two")
    for left in (1, 9, 20):
        with pytest.raises(CompressionError, match="ends inside a member"):
            decompress(Codec.GZIP, packed[:-left])


def test_snappy_has_xerial_framing_and_reads_raw():
    import cramjam

    packed = compress(Codec.SNAPPY, BIG)
    (size,) = struct.unpack_from(">i", packed, len(XERIAL_HEADER))
    first = packed[len(XERIAL_HEADER) + 4 :][:size]

    assert packed.startswith(XERIAL_HEADER)
    assert bytes(cramjam.snappy.decompress_raw(first)) == BIG[: 32 * 1024]
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(BIG))) == BIG


def test_snappy_block_lengths_that_lie():
    for size in (-1, 100, 2**31 - 1):
        with pytest.raises(CompressionError, match="length"):
            decompress(Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", size) + b"abc")


def test_lz4_blocks_are_independent():
    # FLG bit 5; Kafka's Lz4BlockInputStream refuses frames whose blocks depend on each other.
    assert compress(Codec.LZ4, BIG)[4] & 0x20


def test_codec_names_and_numbers():
    assert Codec.named("zstd") is Codec.ZSTD
    assert codec_of(4) is Codec.ZSTD
    with pytest.raises(ValueError, match="brotli"):
        Codec.named("brotli")
    with pytest.raises(KafkaError, match="5") as caught:
        codec_of(5)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
