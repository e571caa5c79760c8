"""What is wrong with bytes that are not the message they claim to be, or with a message that has no bytes."""

from barnabas.core.errors import BarnabasError


class ProtocolError(BarnabasError):
    """A message could not be decoded, or cannot be encoded in a version.

    `message` and `field` are Kafka's names (the field with its path, ``topics.partitions.records``),
    `version` is -1 where there is none, `offset` is where in the buffer the trouble starts, -1 when encoding.
    """

    def __init__(
        self, reason: str, *, message: str, version: int = -1, field: str = "", offset: int = -1
    ) -> None:
        self.reason = reason
        self.message = message
        self.version = version
        self.field = field
        self.offset = offset
        which = f" v{version}" if version >= 0 else ""
        where = f", field {field}" if field else ""
        at = f", byte {offset}" if offset >= 0 else ""
        super().__init__(f"{message}{which}{where}{at}: {reason}")


class TooManyElementsError(ProtocolError):
    """A message that was decoded in steps carries more elements than the caller allows."""


class Malformed(Exception):  # noqa: N818 - internal: becomes a ProtocolError with its place
    """Raised by compiled codecs, which do not know where they are; `source` adds the place."""
