"""Style 3: aiokafka, a service that gets its address from the environment, and ``docker compose up`` before.

The service runs as a process of its own, as in production; only where its address comes from has changed.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from barnabas.client import Producer
from barnabas.testing import Kafka


async def serve(bootstrap_servers: str, orders: str, payments: str) -> None:
    """The service: one payment for each order, until an order says that it is the last."""
    consumer = AIOKafkaConsumer(
        orders,
        bootstrap_servers=bootstrap_servers,
        group_id="payments",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with consumer, AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        async for order in consumer:
            await producer.send_and_wait(payments, order.value, key=order.key)
            await consumer.commit()
            if order.value == b"last":
                return


def test_each_order_is_paid_once(kafka: Kafka) -> None:
    """Also while the leader refuses a record once, which compose could not bring about."""
    orders, payments = kafka.create_topic(), kafka.create_topic()
    refused = kafka.plant(apis="Produce", topic=payments, error="NOT_LEADER_OR_FOLLOWER")
    with Producer(kafka.bootstrap_servers) as producer:
        for number, order in enumerate((b"cup", b"plate", b"last")):
            producer.send(orders, order, key=str(number))
    environment = os.environ | {"KAFKA": kafka.bootstrap_servers, "ORDERS": orders, "PAYMENTS": payments}
    subprocess.run([sys.executable, Path(__file__)], env=environment, check=True, timeout=60)
    assert [record.value for record in kafka.records(payments)] == [b"cup", b"plate", b"last"]
    assert refused.fired() == 1
    assert [each.offset for each in kafka.offsets("payments").values()] == [3]


if __name__ == "__main__":
    asyncio.run(serve(os.environ["KAFKA"], os.environ["ORDERS"], os.environ["PAYMENTS"]))
