"""What became of each partition, as the responses to OffsetCommit, TxnOffsetCommit and OffsetDelete all tell it."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition

T = TypeVar("T")


def topics_of(
    codes: Mapping[TopicPartition, ErrorCode], topic: Callable[..., T], partition: Callable[..., object]
) -> list[T]:
    """The response's topics, of its own classes, in the order in which the partitions first name them."""
    partitions: dict[str, list[object]] = {}
    for (name, index), code in codes.items():
        partitions.setdefault(name, []).append(partition(partition_index=index, error_code=code))
    return [topic(name=name, partitions=found) for name, found in partitions.items()]
