"""What ``barnabas verifiable-consumer`` does once its flags are understood (``VerifiableConsumer``)."""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from barnabas.cli.verifiable_events import print_event
from barnabas.client import AsyncConsumer, ConsumerRecord
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition

_POLL_MS: Final = 60_000


class VerifiableConsumer:
    """One run: how much it reads, whether it prints each record, whether it commits what it has printed, and
    whether it waits for a broker before it begins.
    """

    def __init__(
        self,
        topic: str,
        max_messages: int,
        *,
        verbose: bool,
        commits: bool,
        close_timeout_ms: int,
        connects: bool,
    ) -> None:
        self._connects = connects
        self._topic = topic
        self._left = sys.maxsize if max_messages < 0 else max_messages
        self._verbose = verbose
        self._commits = commits
        self._close_timeout_ms = close_timeout_ms

    async def run(self, options: dict[str, Any]) -> None:
        """Reads until it is done or cancelled, and leaves the group.
        What stops it otherwise is a line on stderr. Raises BarnabasError where `connects` finds no broker.
        """
        consumer = AsyncConsumer(options.pop("bootstrap.servers"), **options)
        if self._connects:
            try:
                await consumer.start()
            except BaseException:
                await consumer.close(0)
                raise
        try:
            print_event("startup_complete")
            consumer.subscribe(
                [self._topic],
                on_assigned=lambda given: print_event("partitions_assigned", partitions=_listed(given)),
                on_revoked=lambda taken: print_event("partitions_revoked", partitions=_listed(taken)),
            )
            while self._left > 0:
                records = await consumer.poll(_POLL_MS)
                if records:
                    offsets = self._print_records(records)
                    if self._commits:
                        await _commit(consumer, offsets)
        except BarnabasError as error:
            click.echo(f"Error during processing, terminating consumer process: {error}", err=True)
        finally:
            await consumer.close(self._close_timeout_ms)
            print_event("shutdown_complete")

    def _print_records(self, records: Sequence[ConsumerRecord]) -> dict[TopicPartition, int]:
        """The lines of one fetch (``onRecordsReceived``); the offsets to commit for it."""
        by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in records:
            by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        summaries, offsets = [], {}
        for tp, found in by_partition.items():
            taken = found[: self._left]
            if not taken:
                break
            self._left -= len(taken)
            last = taken[-1].offset
            offsets[tp] = last + 1
            summaries.append(
                _partition(tp) | {"count": len(taken), "minOffset": taken[0].offset, "maxOffset": last}
            )
            if self._verbose:
                for record in taken:
                    _print_record(record)
        print_event("records_consumed", count=len(records), partitions=summaries)
        return offsets


def _print_record(record: ConsumerRecord) -> None:
    print_event(
        "record_data",
        key=_text(record.key),
        value=_text(record.value),
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
    )


async def _commit(consumer: AsyncConsumer, offsets: Mapping[TopicPartition, int]) -> None:
    """Commits and prints the line for it;
    a cancelled commit is made again, because its records were printed.
    """
    try:
        await consumer.commit(offsets)
    except asyncio.CancelledError:
        await _commit(consumer, offsets)
        raise
    except KafkaError as error:
        if error.code == ErrorCode.FENCED_INSTANCE_ID:
            raise
        failure = {"error": str(error)}
    except BarnabasError as error:
        failure = {"error": str(error)}
    else:
        failure = {}
    committed = [_partition(tp) | {"offset": offset} for tp, offset in offsets.items()]
    print_event("offsets_committed", offsets=committed, **failure, success=not failure)


def _listed(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [_partition(tp) for tp in sorted(partitions)]


def _partition(tp: TopicPartition) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
