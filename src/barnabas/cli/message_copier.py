"""What ``barnabas transactional-message-copier`` does once its flags are understood
(``TransactionalMessageCopier``).
"""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from barnabas.cli.java_errors import java_class
from barnabas.client import (
    AsyncConsumer,
    AsyncProducer,
    ConsumerGroupMetadata,
    ConsumerRecord,
    ProducerFencedError,
    TransactionStateError,
)
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class CopyJob:
    """What is copied where, and how."""

    input_topic: str
    input_partition: int
    output_topic: str
    group: str
    transactional_id: str
    max_messages: int
    """-1: up to the end of the input, as it is when the job begins."""
    random_aborts: bool
    """Every third transaction or so is aborted, and copied again."""
    group_mode: bool
    """The group divides the input's partitions; `input_partition` does not count then."""
    group_metadata: bool
    """Offsets go with the member's name and generation, so that the group can fence it (KIP-447)."""


class MessageCopier:
    """One run: it reads, and writes what it has read with its offsets, a transaction for each poll."""

    def __init__(self, job: CopyJob, consumer: AsyncConsumer, producer: AsyncProducer) -> None:
        self._job = job
        self._consumer = consumer
        self._producer = producer
        self._remaining = sys.maxsize if job.max_messages == -1 else job.max_messages
        self._total = 0
        self._since_rebalance = 0
        self._started = False

    async def run(self) -> None:
        """Copies until it is done or cancelled. Raises BarnabasError, in particular ProducerFencedError."""
        try:
            await self._copy()
        finally:
            try:
                await self._producer.close()
            finally:
                await self._consumer.close()
                if self._started:
                    self._print_status("ShutdownComplete")

    async def _copy(self) -> None:
        if self._job.group_mode:
            self._consumer.subscribe(self._job.input_topic, on_assigned=self._assigned)
        else:
            tp = TopicPartition(self._job.input_topic, self._job.input_partition)
            self._consumer.assign([tp])
            self._remaining = min(await self._messages_remaining([tp]), self._remaining)
        await self._producer.init_transactions()
        self._started = True
        while self._remaining > 0:
            self._print_status("ProcessLoop")
            records = await self._consumer.poll(200)
            if not records:
                continue
            try:
                await self._copy_records(records)
            except (ProducerFencedError, TransactionStateError):
                raise  # nothing can be aborted any more
            except BarnabasError:
                await self._abort()

    async def _copy_records(self, records: Sequence[ConsumerRecord]) -> None:
        """One transaction."""
        self._producer.begin_transaction()
        for one in records:
            await self._producer.send(self._job.output_topic, one.value, one.key, partition=one.partition)
        positions = {tp: await self._consumer.position(tp) for tp in self._consumer.assignment()}
        group = ConsumerGroupMetadata(self._job.group, -1, "", None)
        if self._job.group_metadata:
            group = self._consumer.group_metadata()
        await self._producer.send_offsets(positions, group)
        if self._job.random_aborts and random.randrange(3) == 0:
            await self._abort()
            return
        await self._producer.commit_transaction()
        self._remaining -= len(records)
        self._since_rebalance += len(records)
        self._total += len(records)

    async def _abort(self) -> None:
        """Aborts, and goes back to where the group is."""
        await self._producer.abort_transaction()
        assigned = self._consumer.assignment()
        committed = await self._consumer.committed(assigned)
        for tp in assigned:
            position = committed.get(tp)
            if position is None:
                self._consumer.seek_to_beginning(tp)
            else:
                self._consumer.seek(tp, position.offset)

    async def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._remaining = await self._messages_remaining(partitions)
        self._since_rebalance = 0
        self._print_status("RebalanceComplete")

    async def _messages_remaining(self, partitions: Sequence[TopicPartition]) -> int:
        ends = await self._consumer.end_offsets(partitions)
        return sum([ends[tp] - await self._consumer.position(tp) for tp in partitions])

    def _print_status(self, stage: str) -> None:
        status = {
            "transactionalId": self._job.transactional_id,
            "stage": stage,
            "time": datetime.now().strftime("%Y/%m/%d %H:%M:%S:%f")[:-3],  # noqa: DTZ005 - local, as Java's
            "totalProcessed": self._total,
            "consumed": self._since_rebalance,
            "remaining": self._remaining,
        }
        click.echo(json.dumps(status, separators=(",", ":"), ensure_ascii=False))


async def copy(job: CopyJob, consumer_options: dict[str, Any], producer_options: dict[str, Any]) -> None:
    """Copies. Raises ToolError with the script's line for what stops it."""
    from barnabas.cli.options import ToolError

    consumer = AsyncConsumer(consumer_options.pop("bootstrap.servers"), **consumer_options)
    producer = AsyncProducer(producer_options.pop("bootstrap.servers"), **producer_options)
    try:
        await MessageCopier(job, consumer, producer).run()
    except BarnabasError as error:
        name, text = java_class(error).rpartition(".")[2], str(error)
        if isinstance(error, ProducerFencedError):
            name = "KafkaException"
            text = f"The transactional.id {job.transactional_id} has been claimed by another process"
        raise ToolError(
            f"Shutting down after unexpected error {name}: {text} (see the log for additional detail)"
        ) from error
