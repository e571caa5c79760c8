"""`ProducerHooks`: a program's own functions on a record's way: interceptors, serializers, `on_delivery`.

The order is Java's (``KafkaProducer.send``): interceptors see what the caller gave, then serializers make
bytes of it. What an interceptor or a callback raises is logged and passed over: it is beside the record's
way. What a serializer raises concerns the record, and reaches the caller.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.producer_batch import Delivery
from barnabas.client.serialization import serializer_of
from barnabas.client.types import Headers, RecordMetadata
from barnabas.core.config import Config
from barnabas.core.eventlog import EventLog

if TYPE_CHECKING:
    from barnabas.client.options import OnDelivery

_log = EventLog("client.producer")


class ProducerRecord(NamedTuple):
    """A record as its sender gave it; `timestamp_ms` and `partition` are None where that is left to the
    producer.
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


class ProducerInterceptor:
    """What may stand in the option `interceptors` of a producer (``ProducerInterceptor`` of Kafka)."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Sees a record before it is serialized, in the sender's thread, and may give another one."""
        return record

    def on_acknowledgement(self, error: Exception | None, metadata: RecordMetadata | None) -> None:
        """Sees why a record was not stored, or where it was; in the thread of the producer's event loop, but
        in the sender's where `send` raised.
        """


class ProducerHooks:
    """Those of one producer."""

    def __init__(self, config: Config) -> None:
        self._key = serializer_of(config["key.serializer"], "key")
        self._value = serializer_of(config["value.serializer"], "value")
        self._on_delivery: OnDelivery | None = config["on.delivery"]
        self._interceptors: list[Any] = config["interceptors"] or []

    def __bool__(self) -> bool:
        return bool(self._key or self._value or self._on_delivery or self._interceptors)

    def outgoing(self, record: ProducerRecord) -> ProducerRecord:
        """What is sent instead of a record. Raises InvalidRecordError."""
        for one in self._interceptors:
            if hasattr(one, "on_send"):
                try:
                    sent = one.on_send(record)
                    if not isinstance(sent, ProducerRecord):
                        raise TypeError(f"on_send must return a ProducerRecord, not {type(sent).__name__}")
                    record = sent
                except Exception as error:
                    _log.warning("interceptor.failed", interceptor=type(one).__name__, error=repr(error))
        try:
            return record._replace(
                key=self._key(record.topic, record.key) if self._key else record.key,
                value=self._value(record.topic, record.value) if self._value else record.value,
            )
        except Exception as error:
            self.refused(error)
            raise

    def refused(self, error: Exception) -> None:
        """`send` raises this instead of taking a record."""
        self._acknowledge(error, None)

    def accepted(self, delivery: Delivery) -> None:
        """A record was taken: its outcome is told."""
        if self._interceptors:
            delivery.watch(self._acknowledge)
        if self._on_delivery is not None:
            delivery.tell(self._on_delivery)

    def _acknowledge(self, error: Exception | None, metadata: RecordMetadata | None) -> None:
        for one in self._interceptors:
            if hasattr(one, "on_acknowledgement"):
                try:
                    one.on_acknowledgement(error, metadata)
                except Exception as problem:
                    _log.warning("interceptor.failed", interceptor=type(one).__name__, error=repr(problem))
