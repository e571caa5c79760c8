"""What ``barnabas transactions`` prints: the tables of Kafka's script, and its errors."""

from collections.abc import Iterable, Sequence
from typing import Final

import click

from barnabas.admin import ProducerState, TransactionDescription, TransactionListing
from barnabas.core.ids import TopicPartition
from barnabas.operations.java_order import number_order, partition_order

_MINUTE_MS: Final = 60_000


def print_listings(listings: Iterable[TransactionListing]) -> None:
    by_coordinator: dict[int, list[TransactionListing]] = {}
    for each in listings:
        by_coordinator.setdefault(each.coordinator_id, []).append(each)
    _print_table(
        ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
        (
            (each.transactional_id, coordinator, each.producer_id, each.state)
            for coordinator in number_order(by_coordinator)
            for each in by_coordinator[coordinator]
        ),
    )


def print_description(transactional_id: str, found: TransactionDescription, now_ms: int) -> None:
    row = {
        "CoordinatorId": found.coordinator_id,
        "TransactionalId": transactional_id,
        "ProducerId": found.producer_id,
        "ProducerEpoch": found.producer_epoch,
        "TransactionState": found.state,
        "TransactionTimeoutMs": found.timeout_ms,
        "CurrentTransactionStartTimeMs": found.start_time_ms,
        "TransactionDurationMs": None if found.start_time_ms is None else now_ms - found.start_time_ms,
        "TopicPartitions": ",".join(map(str, partition_order(found.partitions))),
    }
    _print_table(tuple(row), [tuple(row.values())])


def print_producers(producers: Iterable[ProducerState]) -> None:
    _print_table(
        (
            "ProducerId",
            "ProducerEpoch",
            "LatestCoordinatorEpoch",
            "LastSequence",
            "LastTimestamp",
            "CurrentTransactionStartOffset",
        ),
        (
            (
                each.producer_id,
                each.epoch,
                each.coordinator_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.current_transaction_start_offset,
            )
            for each in producers
        ),
    )


def print_hanging(found: Iterable[tuple[TopicPartition, ProducerState]], now_ms: int) -> None:
    _print_table(
        (
            "Topic",
            "Partition",
            "ProducerId",
            "ProducerEpoch",
            "CoordinatorEpoch",
            "StartOffset",
            "LastTimestamp",
            "Duration(min)",
        ),
        (
            (
                tp.topic,
                tp.partition,
                producer.producer_id,
                producer.epoch,
                producer.coordinator_epoch,
                producer.current_transaction_start_offset,
                producer.last_timestamp,
                int((now_ms - producer.last_timestamp) / _MINUTE_MS),
            )
            for tp, producer in found
        ),
    )


def _print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """``ToolsUtils.prettyPrintTable``: columns of equal width, a tab behind each."""
    table = [headers, *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        click.echo("".join(f"{value:<{width}}\t" for value, width in zip(row, widths, strict=True)))
