"""`History`: what clients did and which answers they got, and what was there in the end."""

from dataclasses import dataclass, field

from barnabas.core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class TopicPromise:
    """What a topic promises of its acknowledged records."""

    name: str
    partitions: int
    durable: bool
    """Whether they survive a loss of power (``flush.messages=1``); otherwise a clean prefix is left."""

    @property
    def tps(self) -> list[TopicPartition]:
        """Its partitions."""
        return [TopicPartition(self.name, number) for number in range(self.partitions)]


@dataclass(frozen=True, slots=True)
class ProducerPromise:
    """What a kind of producer is promised."""

    name: str
    acks: str
    idempotent: bool
    """No duplicates, and its order, under every fault."""
    pipelines: bool = False
    """Whether a batch may be sent before the last one is answered."""


@dataclass(slots=True)
class Send:
    """One record that a producer accepted. Times are virtual seconds."""

    producer: ProducerPromise
    tp: TopicPartition
    number: int
    """Its place among the records of this producer in this partition."""
    value: bytes
    sent_s: float
    acked_s: float | None = None
    """None until an answer says that it is stored."""
    offset: int = -1

    @property
    def promised(self) -> bool:
        """Whether its loss would break a promise."""
        return self.acked_s is not None and self.producer.acks != "0"

    def __repr__(self) -> str:
        fate = "unknown" if self.acked_s is None else f"acked at {self.acked_s:.3f} s as offset {self.offset}"
        return f"<Send {self.producer.name} {self.tp} #{self.number} {fate}>"


@dataclass(frozen=True, slots=True)
class Read:
    """One record that a consumer was given."""

    consumer: str
    tp: TopicPartition
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class EndSeen:
    """The end of a partition, as a client was answered."""

    tp: TopicPartition
    asked_s: float
    offset: int


@dataclass(slots=True)
class History:
    """Everything, in the order in which it happened."""

    topics: dict[str, TopicPromise] = field(default_factory=dict)
    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    ends: list[EndSeen] = field(default_factory=list)
    deaths_s: list[float] = field(default_factory=list)
    """When the broker ended, however it did."""
    power_losses_s: list[float] = field(default_factory=list)
    final: dict[TopicPartition, list[tuple[int, bytes]]] = field(default_factory=dict)
    """What each partition held after the last fault had ended: offsets and values."""
    complaints: list[str] = field(default_factory=list)
    """Answers that no client may ever get: damage, an end that cannot be reached."""

    def keeps_everything(self, tp: TopicPartition) -> bool:
        """Whether nothing that was acknowledged may be lost."""
        return self.topics[tp.topic].durable or not self.power_losses_s

    def was_told_late(self, send: Send) -> bool:
        """Whether the broker ended between the sending and the answer."""
        return any(send.sent_s <= death_s <= (send.acked_s or death_s) for death_s in self.deaths_s)

    def __repr__(self) -> str:
        acked = sum(send.acked_s is not None for send in self.sends)
        return f"<History sends={len(self.sends)} acked={acked} reads={len(self.reads)}>"
