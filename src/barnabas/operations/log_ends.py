"""Which partitions topics have, and where their logs begin and end."""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.admin import AsyncAdmin
from barnabas.client.types import LATEST_TIMESTAMP
from barnabas.core.errors import BarnabasError, KafkaError
from barnabas.core.ids import TopicPartition


async def resolve_topics(
    admin: AsyncAdmin, topics: Sequence[str], timeout_ms: float | None
) -> tuple[list[TopicPartition], Mapping[str, BarnabasError]]:
    """All partitions of these topics, and why others have none."""
    partitions: list[TopicPartition] = []
    missing: dict[str, BarnabasError] = {}
    for topic, result in (await admin.topics.try_describe(topics, timeout_ms=timeout_ms)).items():
        if isinstance(result, BarnabasError):
            missing[topic] = plain(result)
        else:
            partitions += [TopicPartition(topic, one.partition) for one in result.partitions]
    return partitions, missing


async def log_offsets(
    admin: AsyncAdmin, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
) -> dict[TopicPartition, int]:
    """The offset of each partition for a time; raises the first error."""
    wanted = dict.fromkeys(partitions, timestamp)
    try:
        found = await admin.offsets.list(wanted, timeout_ms=timeout_ms)
    except KafkaError as error:
        raise plain(error) from error
    return {tp: one.offset for tp, one in found.items()}


async def end_offsets(
    admin: AsyncAdmin, partitions: Iterable[TopicPartition], timeout_ms: float | None
) -> dict[TopicPartition, int]:
    """Where each partition ends; raises the first error."""
    return await log_offsets(admin, partitions, LATEST_TIMESTAMP, timeout_ms)


def plain(error: BarnabasError) -> BarnabasError:
    """The error in the default words of its code: Kafka's tools print no more than those."""
    return KafkaError(error.code) if isinstance(error, KafkaError) else error
