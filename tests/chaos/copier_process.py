"""One copier of another client, with the flags and the manner of Kafka's ``TransactionalMessageCopier``.

    python copier_process.py aiokafka --broker-list ... --input-topic ... --input-partition 0
        --output-topic ... --consumer-group ... --transactional-id ... --transaction-size 500 ...

It copies a partition up to its end as it was at the start, with the offsets in the transactions. Any error
ends it with status 1: the next one of its id continues with what is committed.
"""

import argparse
import asyncio
import sys
from typing import Any

CALL_S = 30


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("client", choices=("aiokafka", "confluent"))
    for name in ("broker-list", "input-topic", "output-topic", "consumer-group", "transactional-id"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("input-partition", "transaction-size", "transaction-timeout"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def copy_with_confluent(given: argparse.Namespace) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": given.broker_list,
            "group.id": given.consumer_group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": given.broker_list,
            "transactional.id": given.transactional_id,
            "transaction.timeout.ms": given.transaction_timeout,
            "log_level": 0,
        }
    )
    place = TopicPartition(given.input_topic, given.input_partition)
    # First the fence: what the last one of this id has left open is over when the offsets are asked for.
    producer.init_transactions(CALL_S)
    (committed,) = consumer.committed([place], CALL_S)
    if committed.error:
        raise SystemExit(f"no offset: {committed.error}")
    end = consumer.get_watermark_offsets(place, CALL_S)[1]
    place.offset = max(committed.offset, 0)
    consumer.assign([place])
    position = place.offset
    while position < end:
        messages = consumer.consume(given.transaction_size, 1.0)
        if any(each.error() for each in messages):
            raise SystemExit(f"cannot read: {next(each.error() for each in messages if each.error())}")
        if not messages:
            continue
        producer.begin_transaction()
        for each in messages:
            producer.produce(given.output_topic, each.value(), each.key(), partition=given.input_partition)
            producer.poll(0)
        position = messages[-1].offset() + 1
        offsets = [TopicPartition(given.input_topic, given.input_partition, position)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), CALL_S)
        producer.commit_transaction(CALL_S)


async def copy_with_aiokafka(given: argparse.Namespace) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    place = TopicPartition(given.input_topic, given.input_partition)
    producer = AIOKafkaProducer(
        bootstrap_servers=given.broker_list,
        transactional_id=given.transactional_id,
        transaction_timeout_ms=given.transaction_timeout,
    )
    consumer = AIOKafkaConsumer(
        bootstrap_servers=given.broker_list,
        group_id=given.consumer_group,
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    async with producer, consumer:
        consumer.assign([place])
        position = await consumer.committed(place) or 0
        end = (await consumer.end_offsets([place]))[place]
        consumer.seek(place, position)
        while position < end:
            found: Any = await consumer.getmany(place, timeout_ms=1000, max_records=given.transaction_size)
            messages = found.get(place, [])
            if not messages:
                continue
            async with producer.transaction():
                for each in messages:
                    await producer.send(given.output_topic, each.value, each.key, given.input_partition)
                position = messages[-1].offset + 1
                await producer.send_offsets_to_transaction({place: position}, given.consumer_group)


def main() -> int:
    given = asked()
    if given.client == "confluent":
        copy_with_confluent(given)
    else:
        asyncio.run(asyncio.wait_for(copy_with_aiokafka(given), 3600))
    return 0


if __name__ == "__main__":
    sys.exit(main())
