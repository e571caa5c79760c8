"""Coordinators' records: a key that names its type, and a value that names its version.

Grammar::

    key    INT16 type, message in version 0
    value  INT16 version, message in that version

Up to Kafka 3.9 the schemas called the type the key's version; the bytes are the same.
"""

from typing import ClassVar, Self

from barnabas.core.chunks import Buffer
from barnabas.core.errors import BarnabasError
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.message import Message
from barnabas.protocol.versioned import Versioned, read_prefix, with_prefix


class UnknownRecordTypeError(BarnabasError):
    """A key of a type that this topic does not have: a later Kafka wrote it, and it may be passed over."""

    def __init__(self, topic: str, record_type: int) -> None:
        self.topic = topic
        self.record_type = record_type
        super().__init__(f"{topic} has no records of type {record_type}")


class CoordinatorKey(Message):
    """What a record is about. Its class says which type of record this is."""

    __slots__ = ()

    record_type: ClassVar[int] = -1

    def __init_subclass__(cls, *, record_type: int) -> None:
        """Keeps the number of the type; keys have one version each."""
        super().__init_subclass__(versions="0")
        cls.record_type = record_type

    def to_bytes(self) -> bytes:
        """Type and key. Raises ProtocolError."""
        return with_prefix(self.record_type, self, 0)

    @classmethod
    def from_bytes(cls, buffer: Buffer) -> Self:
        """The key behind its type. Raises ProtocolError, also for another type."""
        record_type = read_prefix(buffer, cls.__name__)
        if record_type != cls.record_type:
            reason = f"a record of type {record_type}, not {cls.record_type}"
            raise ProtocolError(reason, message=cls.__name__, version=0, offset=0)
        return cls.decode(buffer, 0, 2)[0]


class CoordinatorValue(Versioned):
    """What a record says. A record without one (a tombstone) takes back what its key was about."""

    __slots__ = ()
