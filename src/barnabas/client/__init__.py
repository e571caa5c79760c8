"""Clients of a Kafka cluster, any vendor's: producer and consumer, asynchronous and synchronous.

Names are imported when they are first used, so that ``import barnabas.client`` stays cheap.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.consumer import AsyncConsumer
    from barnabas.client.consumer_hooks import ConsumerInterceptor
    from barnabas.client.errors import (
        AbortableTransactionError,
        ClientClosedError,
        ClientTimeoutError,
        CommitFailedError,
        DeliveryError,
        DeliveryTimeoutError,
        EventLoopError,
        FatalTransactionError,
        GroupError,
        InvalidRecordError,
        LogTruncationError,
        NoBrokerError,
        NoOffsetError,
        ProducerFencedError,
        RecordDeserializationError,
        RecordTooLargeError,
        TransactionStateError,
        WakeupError,
    )
    from barnabas.client.producer import AsyncProducer
    from barnabas.client.producer_batch import Delivery
    from barnabas.client.producer_hooks import ProducerInterceptor, ProducerRecord
    from barnabas.client.record_parser import UnparsedValue
    from barnabas.client.sync import Consumer, Producer
    from barnabas.client.types import (
        ConsumerGroupMetadata,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        RawFetch,
        RecordMetadata,
    )
    from barnabas.core.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
    from barnabas.core.ids import TopicPartition
    from barnabas.records.batch import TimestampType

_HOMES = {
    "UnparsedValue": "barnabas.client.record_parser",
    "WakeupError": "barnabas.client.errors",
    "RecordDeserializationError": "barnabas.client.errors",
    "ConsumerInterceptor": "barnabas.client.consumer_hooks",
    "AbortableTransactionError": "barnabas.client.errors",
    "FatalTransactionError": "barnabas.client.errors",
    "ProducerFencedError": "barnabas.client.errors",
    "ProducerInterceptor": "barnabas.client.producer_hooks",
    "ProducerRecord": "barnabas.client.producer_hooks",
    "TransactionStateError": "barnabas.client.errors",
    "AsyncConsumer": "barnabas.client.consumer",
    "AsyncProducer": "barnabas.client.producer",
    "BarnabasError": "barnabas.core.errors",
    "ClientClosedError": "barnabas.client.errors",
    "ClientTimeoutError": "barnabas.client.errors",
    "CommitFailedError": "barnabas.client.errors",
    "ConfigError": "barnabas.core.errors",
    "Consumer": "barnabas.client.sync",
    "ConsumerGroupMetadata": "barnabas.client.types",
    "ConsumerRecord": "barnabas.client.types",
    "Delivery": "barnabas.client.producer_batch",
    "DeliveryError": "barnabas.client.errors",
    "DeliveryTimeoutError": "barnabas.client.errors",
    "ErrorCode": "barnabas.core.errors",
    "EventLoopError": "barnabas.client.errors",
    "GroupError": "barnabas.client.errors",
    "InvalidRecordError": "barnabas.client.errors",
    "KafkaError": "barnabas.core.errors",
    "NoBrokerError": "barnabas.client.errors",
    "LogTruncationError": "barnabas.client.errors",
    "NoOffsetError": "barnabas.client.errors",
    "OffsetAndMetadata": "barnabas.client.types",
    "OffsetAndTimestamp": "barnabas.client.types",
    "Producer": "barnabas.client.sync",
    "RawFetch": "barnabas.client.types",
    "RecordMetadata": "barnabas.client.types",
    "RecordTooLargeError": "barnabas.client.errors",
    "TimestampType": "barnabas.records.batch",
    "TopicPartition": "barnabas.client.types",
}

__all__ = [
    "AbortableTransactionError",
    "AsyncConsumer",
    "AsyncProducer",
    "BarnabasError",
    "ClientClosedError",
    "ClientTimeoutError",
    "CommitFailedError",
    "ConfigError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "Delivery",
    "DeliveryError",
    "DeliveryTimeoutError",
    "ErrorCode",
    "EventLoopError",
    "FatalTransactionError",
    "GroupError",
    "InvalidRecordError",
    "KafkaError",
    "LogTruncationError",
    "NoBrokerError",
    "NoOffsetError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "ProducerFencedError",
    "ProducerInterceptor",
    "ProducerRecord",
    "RawFetch",
    "RecordDeserializationError",
    "RecordMetadata",
    "RecordTooLargeError",
    "TimestampType",
    "TopicPartition",
    "TransactionStateError",
    "UnparsedValue",
    "WakeupError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        # Imported where something is amiss alone.
        instead = importlib.import_module("barnabas.client.habits").OF_MODULE
        if name in instead:
            # Of an AttributeError `from barnabas.client import X` would only say "cannot import name".
            raise ImportError(f"there is no {name} in {__name__}: {instead[name]}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
