"""What sticky members send the next leader in their user data, as Java's clients write it.

    sticky v1             [topic, [partition]] generation      strings int16-long, arrays int32-long
    sticky v0             [topic, [partition]]
    cooperative-sticky    generation

Nothing in it says which version it is. Bytes that make no sense are ignored: then the member had nothing.
"""

from collections.abc import Sequence
from itertools import groupby
from struct import Struct as Packer
from struct import error as PackError  # noqa: N812 - the name of an exception
from typing import Final

from barnabas.client.assignors.sticky_members import NO_GENERATION, MemberData
from barnabas.core.ids import TopicPartition

_INT16: Final = Packer(">h")
_INT32: Final = Packer(">i")


def write_generation(generation: int) -> bytes:
    return _INT32.pack(generation)


def read_generation(user_data: bytes | None) -> int | None:
    """The generation in the user data of a cooperative member; None without any."""
    if user_data is None:
        return None
    return NO_GENERATION if len(user_data) < _INT32.size else int(_INT32.unpack_from(user_data)[0])


def generation_of(number: int | None) -> int | None:
    """The number as a generation, None for no generation."""
    return None if number is None or number < 0 else number


def write_owned(partitions: Sequence[TopicPartition], generation: int) -> bytes:
    topics = [(topic, list(members)) for topic, members in groupby(sorted(partitions), lambda tp: tp.topic)]
    parts = [_INT32.pack(len(topics))]
    for topic, members in topics:
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name, _INT32.pack(len(members))]
        parts += [_INT32.pack(tp.partition) for tp in members]
    return b"".join([*parts, _INT32.pack(generation)])


def read_owned(user_data: bytes | None) -> MemberData:
    if not user_data:
        return MemberData((), None)
    try:
        partitions, position = _read_partitions(user_data)
    except (PackError, UnicodeDecodeError, ValueError):
        return MemberData((), NO_GENERATION)
    if len(user_data) < position + _INT32.size:
        return MemberData(partitions, None)
    return MemberData(partitions, int(_INT32.unpack_from(user_data, position)[0]))


def _read_partitions(user_data: bytes) -> tuple[list[TopicPartition], int]:
    partitions: list[TopicPartition] = []
    count, position = _read_count(user_data, 0)
    for _ in range(count):
        length = _INT16.unpack_from(user_data, position)[0]
        position += _INT16.size
        if length < 0 or position + length > len(user_data):
            raise ValueError("a name longer than what is there")
        topic = user_data[position : position + length].decode()
        members, position = _read_count(user_data, position + length)
        for _ in range(members):
            partitions.append(TopicPartition(topic, _INT32.unpack_from(user_data, position)[0]))
            position += _INT32.size
    return partitions, position


def _read_count(user_data: bytes, position: int) -> tuple[int, int]:
    count = int(_INT32.unpack_from(user_data, position)[0])
    if not 0 <= count <= len(user_data):
        raise ValueError("a count that cannot be")
    return count, position + _INT32.size
