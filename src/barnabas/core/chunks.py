"""What a response is made of: pieces of memory and ranges of files.

A fetch response is a few hundred bytes of header and megabytes that lie in a file. It travels from the log
to the socket as a list of chunks, so that the file's bytes never enter the interpreter (``sendfile``).
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias


class ReadableFile(Protocol):
    """An open file that ranges are read from; its descriptor lives as long as the object."""

    def fileno(self) -> int:
        """The descriptor; -1 where there is none (a simulated disk), then only `pread` serves."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file. Raises OSError."""


class FileSlice:
    """A range of an open file. Holding the slice holds the file open, even when the log deletes it."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: ReadableFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """The bytes of the range. Raises OSError, also when the file ends before the range does."""
        data = self.file.pread(self.size, self.position)
        if len(data) != self.size:
            raise OSError(
                f"the file ends at {self.position + len(data)}, inside a range of {self.size} bytes"
            )
        return data

    def __repr__(self) -> str:
        return f"<FileSlice [{self.position}, {self.position + self.size})>"


Buffer: TypeAlias = bytes | bytearray | memoryview
Chunk: TypeAlias = Buffer | FileSlice
Chunks: TypeAlias = list[Chunk]


def chunks_size(chunks: Sequence[Chunk]) -> int:
    """The number of bytes in all chunks (memoryviews here are always of bytes)."""
    return sum(map(len, chunks))


def materialize(chunks: Sequence[Chunk]) -> bytes:
    """All chunks as one string of bytes; for small responses, tests and simulated transports."""
    return b"".join(chunk.read() if isinstance(chunk, FileSlice) else chunk for chunk in chunks)
