"""What a client raises beside `KafkaError` (an error code of a broker) and `ConfigError` (a bad option)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.types import ConsumerRecord


class ClientClosedError(BarnabasError):
    """The client was closed before or while this was asked of it."""


class EventLoopError(BarnabasError, RuntimeError):
    """An asynchronous client was used on another event loop than the one of its first call."""


class NoBrokerError(BarnabasError):
    """No bootstrap server is a broker: each speaks another protocol, so that waiting does not help."""


class ClientTimeoutError(BarnabasError):
    """There was no answer in time; the text says what was waited for, how long, and the last failure."""


class DeliveryTimeoutError(ClientTimeoutError, TimeoutError):
    """`Delivery.result` was not to wait longer; the record is on its way still, and may be stored later.

    It is a TimeoutError as well, which is what ``concurrent.futures`` raises.
    """


class InvalidRecordError(BarnabasError, ValueError):
    """A record that cannot be sent as it is; the text names the argument of `send` and what is allowed."""


class RecordTooLargeError(InvalidRecordError):
    """A record that does not fit the limits of this producer; the text names size, limit and option."""


class WakeupError(BarnabasError):
    """`wakeup` was called, so that this poll ends (``WakeupException``)."""

    def __init__(self) -> None:
        super().__init__("The poll was ended by wakeup()")


class RecordDeserializationError(BarnabasError):
    """A record whose key or value a deserializer does not take; the position is in front of it, and
    ``consumer.seek(error.tp, error.offset + 1)`` goes on behind it. `record` has it as bytes
    (``RecordDeserializationException``).
    """

    def __init__(self, tp: TopicPartition, record: "ConsumerRecord", part: str, cause: Exception) -> None:
        super().__init__(
            f"The {part} of {tp} at offset {record.offset} cannot be deserialized:"
            f" {type(cause).__name__}: {cause}"
        )
        self.tp = tp
        self.offset = record.offset
        self.record = record
        self.part = part


class NoOffsetError(BarnabasError):
    """There is no valid position and ``auto.offset.reset`` is none; seek first."""

    def __init__(self, positions: Mapping[TopicPartition, int | None]) -> None:
        named = ", ".join(
            f"{tp} ({'no position' if offset is None else f'offset {offset} is out of range'})"
            for tp, offset in sorted(positions.items())
        )
        super().__init__(f"No valid position for {named}: seek, or set auto_offset_reset")
        self.positions = dict(positions)


class LogTruncationError(NoOffsetError):
    """A leader was elected that lacks records that were read, and ``auto.offset.reset`` is none: `divergent`
    says from which offset its log differs; seek there (``LogTruncationException``, KIP-320).
    """

    def __init__(
        self, positions: Mapping[TopicPartition, int | None], divergent: Mapping[TopicPartition, int]
    ) -> None:
        super().__init__(positions)
        named = ", ".join(f"{tp} at {offset}" for tp, offset in sorted(divergent.items()))
        self.args = (f"The log was truncated, and differs from what was read: {named}; seek there",)
        self.divergent = dict(divergent)


class DeliveryError(KafkaError):
    """A batch that was not stored: the broker's code, with the partition it was for."""

    def __init__(self, tp: TopicPartition, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, f"{message or code.message} (producing to {tp})")
        self.tp = tp


class AbortableTransactionError(KafkaError):
    """Something of the open transaction failed. Abort it: the producer can begin another one."""

    @property
    def retriable(self) -> bool:
        """Never by itself: the whole transaction has to be done again."""
        return False


class FatalTransactionError(KafkaError):
    """This producer can do nothing more with its transactional id: close it."""

    @property
    def retriable(self) -> bool:
        """Never, also where other requests with this code are tried again."""
        return False


class ProducerFencedError(FatalTransactionError):
    """A newer producer has the transactional id, or the coordinator gave this one up
    (``ProducerFencedException``).
    """


class TransactionStateError(BarnabasError, RuntimeError):
    """A call that does not fit where the transaction is; the text says which call would."""


class GroupError(KafkaError):
    """The group refuses this member as it is; trying again does not help. The text names the group."""

    @property
    def retriable(self) -> bool:
        """Never, also where other requests with this code are tried again."""
        return False


class CommitFailedError(GroupError):
    """Offsets were not committed because the member was out of the group: others may have its partitions.

    Polling joins the group again (``CommitFailedException``).
    """
