"""Messages that travel as opaque bytes inside others: two bytes of version stand before them.

The coordinators' records, the metadata that consumers exchange through a classic group, and the principal of
a forwarded request are of this kind (``MessageUtil.toVersionPrefixedByteBuffer``).
"""

from struct import Struct as Packer
from typing import Final, Self

from barnabas.core.chunks import Buffer, materialize
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.message import Message

_VERSION: Final = Packer(">h")


def with_prefix(prefix: int, message: Message, version: int) -> bytes:
    """The message in this version behind two bytes that say `prefix`. Raises ProtocolError."""
    return _VERSION.pack(prefix) + materialize(message.encode(version))


def read_prefix(buffer: Buffer, message: str) -> int:
    """What the first two bytes say; raises ProtocolError in the name of `message` when there are none."""
    if len(buffer) < _VERSION.size:
        reason = f"{len(buffer)} bytes, too few for a version"
        raise ProtocolError(reason, message=message, offset=0)
    number: int = _VERSION.unpack_from(buffer)[0]
    return number


class Versioned(Message):
    """A message whose bytes name their version."""

    __slots__ = ()

    def to_bytes(self, version: int | None = None) -> bytes:
        """Version and message; the newest version unless another is asked for. Raises ProtocolError."""
        version = self.max_version if version is None else version
        return with_prefix(version, self, version)

    @classmethod
    def from_bytes(cls, buffer: Buffer) -> Self:
        """The message behind its version. Raises ProtocolError, also for a version that is not known."""
        version = cls.readable_version(read_prefix(buffer, cls.__name__))
        return cls.decode(buffer, version, _VERSION.size)[0]

    @classmethod
    def readable_version(cls, version: int) -> int:
        """The version to read bytes with that call themselves `version`."""
        return version
