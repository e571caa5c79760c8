r"""The codecs of a record batch, in exactly the framing that Kafka's clients read and write.

Every decompression is bounded: a batch of a few hundred bytes can claim gigabytes, so the caller says how
much it is ready to hold, and what does not fit raises `CompressionError` before it was allocated.

=======  =================================================================================
gzip     one or more members (``java.util.zip.GZIPInputStream`` reads concatenated ones)
snappy   xerial framing: ``\x82SNAPPY\0``, version and compatible version (int32 each), then blocks of
         int32 length and raw snappy; a stream without that magic is one raw snappy block
lz4      an LZ4 frame of independent blocks (``Lz4BlockInputStream`` refuses linked ones)
zstd     one or more zstd frames
=======  =================================================================================
"""

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

import cramjam

from barnabas.core.chunks import Buffer
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""What one batch may grow to unless the caller says otherwise."""

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES: Final = 32 * 1024
_GZIP_BYTES: Final = 16 * 1024
"""What a member of gzip is given first."""
_INT32: Final = struct.Struct(">i")


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes (``CompressionType``)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> "Codec":
        """The codec with the name that ``compression.type`` uses; raises ValueError."""
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValueError(f"{name!r} is not a compression type") from None


_CODECS: Final = tuple(Codec)


class CompressionError(BarnabasError):
    """Compressed bytes that are damaged, or that would grow beyond the limit."""


class TooLargeError(CompressionError):
    """Compressed bytes that are fine as far as they go, but would grow beyond the limit."""


Decompressor: TypeAlias = Callable[[bytes, int], bytes]


def codec_of(number: int) -> Codec:
    """The codec of an attribute value; raises CORRUPT_MESSAGE for one that does not exist."""
    if 0 <= number < len(_CODECS):
        return _CODECS[number]
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Unknown compression type id: {number}")


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """The compressed form of `data`; `level` as the codec counts it, None for Kafka's default."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec is Codec.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec is Codec.LZ4:
        frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        frame.compress(bytes(data))
        return bytes(frame.finish())
    return bytes(cramjam.zstd.compress(bytes(data), 3 if level is None else level))


def decompress(codec: Codec, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The plain bytes; raises CompressionError when damaged or when there are more than `limit` of them."""
    try:
        return _DECOMPRESSORS[codec](bytes(data), limit)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise CompressionError(f"damaged {codec.name.lower()} data: {error}") from error


def _too_large(codec: Codec, limit: int) -> TooLargeError:
    return TooLargeError(f"{codec.name.lower()} data decompresses to more than {limit} bytes")


def _plain(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(Codec.NONE, limit)
    return data


def _gunzip(data: bytes, limit: int) -> bytes:
    pieces = []
    room = limit
    position = 0
    while position < len(data):
        member = zlib.decompressobj(31)
        size = _GZIP_BYTES
        while not member.eof:
            if position >= len(data):
                raise CompressionError("damaged gzip data: it ends inside a member")
            # zlib copies what follows a member: of a batch of many small ones that would be its size squared.
            given = data[position : position + size]
            piece = member.decompress(given, room + 1)
            room -= len(piece)
            if room < 0:
                raise _too_large(Codec.GZIP, limit)
            pieces.append(piece)
            position += len(given) - len(member.unused_data)
            size *= 2
    return b"".join(pieces)


def _compress_xerial(data: memoryview) -> bytes:
    pieces = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(data[start : start + XERIAL_BLOCK_BYTES])))
        pieces += (_INT32.pack(len(block)), block)
    return b"".join(pieces)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _unsnappy_block(data, limit, limit)
    pieces = []
    room = limit
    position = len(XERIAL_HEADER)
    while position < len(data):
        (size,) = _INT32.unpack_from(data, position)
        block = data[position + 4 : position + 4 + size]
        if size < 0 or len(block) != size:
            raise CompressionError("damaged snappy data: a block's length points outside")
        pieces.append(_unsnappy_block(block, room, limit))
        room -= len(pieces[-1])
        position += 4 + size
    return b"".join(pieces)


def _unsnappy_block(block: bytes, room: int, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > room:
        raise _too_large(Codec.SNAPPY, limit)
    return bytes(cramjam.snappy.decompress_raw(block))


def _into_bounded(codec: Codec, decompress_into: Callable[[bytes, bytearray], int]) -> Decompressor:
    """Decompresses into an output that cannot grow: small first, then as large as the limit allows.

    A bytearray of zeros is untouched memory until something is written to it, so the second try costs no
    more than what the data really holds.
    """

    def run(data: bytes, limit: int) -> bytes:
        for size in (min(limit, 16 * len(data) + 65536), limit):
            output = bytearray(size)
            try:
                filled = decompress_into(data, output)
            except cramjam.DecompressionError as error:
                if "whole buffer" not in str(error):
                    raise
            else:
                return bytes(memoryview(output)[:filled])
        raise _too_large(codec, limit)

    return run


_DECOMPRESSORS: Final[dict[Codec, Decompressor]] = {
    Codec.NONE: _plain,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _into_bounded(Codec.LZ4, cramjam.lz4.decompress_into),
    Codec.ZSTD: _into_bounded(Codec.ZSTD, cramjam.zstd.decompress_into),
}
