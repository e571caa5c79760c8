"""Producer and consumer on one event loop: `python async_round.py 127.0.0.1:9092 greetings`."""

import asyncio
import sys

from barnabas.client import AsyncConsumer, AsyncProducer


async def write(bootstrap_servers: str, topic: str) -> None:
    """Sends without waiting for each record, then waits for all."""
    async with AsyncProducer(bootstrap_servers) as producer:
        deliveries = [await producer.send(topic, f"hello {number}") for number in range(100)]
        places = await asyncio.gather(*deliveries)
        print("written to", *sorted({place.partition for place in places}))


async def read(bootstrap_servers: str, topic: str, count: int) -> None:
    """Reads so many records of the whole topic."""
    async with AsyncConsumer(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, number) for number in await consumer.partitions_for(topic)])
        async for record in consumer:
            count -= 1
            if not count:
                print("the last one:", record.value)
                break


async def both(bootstrap_servers: str, topic: str) -> None:
    """Writes, then reads."""
    await write(bootstrap_servers, topic)
    await asyncio.wait_for(read(bootstrap_servers, topic, 100), 60)


def main(bootstrap_servers: str, topic: str) -> None:
    """Runs both on an event loop of their own."""
    asyncio.run(both(bootstrap_servers, topic))


if __name__ == "__main__":
    main(*sys.argv[1:])
