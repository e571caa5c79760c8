"""What ``barnabas transactions`` does once its flags are understood (``TransactionsCommand``)."""

from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.admin import AsyncAdmin
from barnabas.cli import transaction_report as report
from barnabas.cli.facts import partition_facts, plain, print_facts
from barnabas.cli.options import ToolError, new_admin
from barnabas.core.ids import TopicPartition
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import FailedStepError, failing
from barnabas.operations.hanging_transactions import abort_spec, hanging_transactions
from barnabas.operations.known_brokers import check_broker


async def run(options: dict[str, Any], command: Callable[[AsyncAdmin], Awaitable[None]]) -> None:
    """Runs one command. The admin client connects in its first call, so that a cluster that does not answer
    is that call's error, as in Kafka's script. Raises ToolError.
    """
    admin = new_admin(options)
    try:
        await command(admin)
    except FailedStepError as error:  # ``printErrorAndExit``
        raise ToolError(f"{error}. Enable debug logging for additional detail.") from error
    finally:
        await admin.close()


async def list_transactions(
    admin: AsyncAdmin, longer_than_ms: int | None, pattern: str | None, *, as_json: bool
) -> None:
    with failing("Failed to list transactions"):
        listings = await admin.transactions.list(longer_than_ms=longer_than_ms, pattern=pattern)
    if as_json:
        print_facts({"transactions": sorted(listings, key=lambda one: one.transactional_id)})
    else:
        report.print_listings(listings)


async def describe(admin: AsyncAdmin, transactional_id: str, *, as_json: bool) -> None:
    with failing(f"Failed to describe transaction state of transactional-id `{transactional_id}`"):
        found = (await admin.transactions.describe([transactional_id]))[transactional_id]
    if as_json:
        print_facts({"transactional_id": transactional_id, **plain(found)})
    else:
        report.print_description(transactional_id, found, now_ms())


async def describe_producers(
    admin: AsyncAdmin, tp: TopicPartition, broker: int | None, *, as_json: bool
) -> None:
    place = "leader" if broker is None else f"broker {broker}"
    with failing(f"Failed to describe producers for partition {tp} on {place}"):
        if broker is not None:
            await check_broker(admin, broker)
        producers = (await admin.transactions.describe_producers([tp], broker=broker))[tp]
    if as_json:
        print_facts(partition_facts(tp, producers=producers))
    else:
        report.print_producers(producers)


async def abort_from(admin: AsyncAdmin, tp: TopicPartition, start_offset: int) -> None:
    """Aborts the transaction that begins at this offset, as the partition's leader knows it."""
    with failing(f"Failed to validate producer state for partition {tp}"):
        producers = (await admin.transactions.describe_producers([tp]))[tp]
    found = next((one for one in producers if one.current_transaction_start_offset == start_offset), None)
    if found is None:
        raise ToolError(
            f"Could not find any open transactions starting at offset {start_offset} on partition {tp}"
        )
    await abort(admin, tp, found.producer_id, found.epoch, found.coordinator_epoch)


async def abort(
    admin: AsyncAdmin, tp: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Aborts the transaction of one producer."""
    spec = abort_spec(
        tp, producer_id=producer_id, producer_epoch=producer_epoch, coordinator_epoch=coordinator_epoch
    )
    with failing(f"Failed to abort transaction {spec}"):
        await admin.transactions.abort(spec)


async def find_hanging(
    admin: AsyncAdmin,
    topic: str | None,
    partition: int | None,
    broker: int | None,
    longest_ms: int,
    *,
    as_json: bool,
) -> None:
    if broker is not None:
        with failing(f"Failed to search broker {broker}"):
            await check_broker(admin, broker)
    found = await hanging_transactions(admin, topic, partition, broker, longest_ms)
    if as_json:
        print_facts({"hanging": [partition_facts(tp, **plain(producer)) for tp, producer in found]})
    else:
        report.print_hanging(found, now_ms())
