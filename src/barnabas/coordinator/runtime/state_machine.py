"""The port between the runtime and what a topic's records mean (``CoordinatorShard``,
``CoordinatorPlayback``).
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from barnabas.coordinator.runtime.decoding import BulkDecoder
from barnabas.coordinator.runtime.journal import Journal
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue


@dataclass(slots=True)
class CoordinatorShard:
    """One partition of a coordinator's topic; a state machine adds its state in a subclass."""

    partition: int
    leader_epoch: int
    journal: Journal


S = TypeVar("S", bound=CoordinatorShard)


class StateMachine(Protocol[S]):
    """What the records of one topic mean."""

    topic: str
    """The name of the topic, for the log."""
    load_task: str
    """What a load is called in the log: the name of Kafka's thread."""

    @property
    def bulk(self) -> BulkDecoder:
        """Takes records apart that are too many to go through their schemas; runs in a child process."""

    def new_shard(self, partition: int, leader_epoch: int, journal: Journal) -> S:
        """A shard without content."""

    def decode(self, key: bytes, value: bytes | None) -> tuple[CoordinatorKey, CoordinatorValue | None]:
        """Reads a record by the topic's table of record types (``Deserializer``).

        Raises UnknownRecordTypeError, and ProtocolError for bytes that are not what their type says.
        """

    def replay(
        self,
        shard: S,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        *,
        producer_id: int,
        journal_offset: int,
    ) -> None:
        """Applies a record that was read back; `producer_id` is -1 outside of transactions.

        `journal_offset` is that of the batch's first record, as `Journal.append` returns it. Raises
        UnknownRecordTypeError for a type that this coordinator does not serve.
        """

    def replay_bulk(self, shard: S, piece: Any, *, producer_id: int, memo: dict[Any, Any]) -> int:
        """Applies what `bulk` made of records; their number. The memo lives as long as the load."""

    def replay_end_transaction_marker(self, shard: S, producer_id: int, *, committed: bool) -> None:
        """Applies the end of a transaction that was read back."""

    def replay_unreadable(self, shard: S, key: bytes | None) -> None:
        """A record with this key cannot be read; without a key, a whole batch.

        Raises KafkaError where the shard cannot be served without it: the load fails.
        """

    def loaded(self, shard: S) -> Pending[None]:
        """All records were applied: prepares the shard to be served, in slices (``onLoaded``)."""

    def unloaded(self, shard: S) -> None:
        """The shard is given up: answers what waits in it, stops its timers, forgets its state
        (``onUnloaded``).
        """
