"""Plans about transactions."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from barnabas.admin import AsyncAdmin
from barnabas.console.actions.plans import Effect, Planned
from barnabas.console.actions.topics import TIMEOUT_MS, Name, Number, Offset
from barnabas.core.ids import TopicPartition
from barnabas.operations.errors import OperationError
from barnabas.operations.hanging_transactions import abort_spec, open_at


@dataclass(frozen=True, slots=True)
class AbortHanging:
    """A transaction that is open in a partition from this offset on."""

    topic: Name
    partition: Number
    start_offset: Offset


@dataclass(frozen=True, slots=True)
class FenceProducer:
    """The producers of a transactional id: what they have open is aborted, and they are fenced."""

    transactional_id: Annotated[str, Field(min_length=1, max_length=32_000)]


async def abort_hanging(admin: AsyncAdmin, wanted: AbortHanging) -> Planned:
    """The partition's leader writes the marker that no coordinator would."""
    tp = TopicPartition(wanted.topic, wanted.partition)
    found = await open_at(admin, tp, wanted.start_offset, TIMEOUT_MS)

    async def carry_out(later: AsyncAdmin) -> None:
        now = await open_at(later, tp, wanted.start_offset, TIMEOUT_MS)
        if (now.producer_id, now.epoch) != (found.producer_id, found.epoch):
            raise OperationError(f"the transaction in {tp} is not that of the preview: nothing was done")
        spec = abort_spec(
            tp,
            producer_id=now.producer_id,
            producer_epoch=now.epoch,
            coordinator_epoch=now.coordinator_epoch,
        )
        await later.transactions.abort(spec, timeout_ms=TIMEOUT_MS)

    effect = Effect(
        f"transaction of producer {found.producer_id} in {tp}",
        f"open from offset {wanted.start_offset}, epoch {found.epoch}",
        "aborted",
    )
    warning = "its coordinator is not asked: one that still has it leaves it open in other partitions"
    return Planned(str(tp), [effect], carry_out, [warning])


async def fence_producer(admin: AsyncAdmin, wanted: FenceProducer) -> Planned:
    """The producers that have this id now can send nothing more with it."""
    name = wanted.transactional_id
    before = (await admin.transactions.describe([name], timeout_ms=TIMEOUT_MS))[name]

    async def carry_out(later: AsyncAdmin) -> None:
        now = (await later.transactions.describe([name], timeout_ms=TIMEOUT_MS))[name]
        if (now.producer_id, now.producer_epoch) != (before.producer_id, before.producer_epoch):
            raise OperationError(f"{name} has another producer than in the preview: nothing was done")
        await later.transactions.fence([name], timeout_ms=TIMEOUT_MS)

    after = "a higher epoch" + ("; what is open is aborted" if before.partitions else "")
    effect = Effect(f"producers of {name}", f"{before.state}, epoch {before.producer_epoch}", after)
    return Planned(name, [effect], carry_out, ["a producer that works is stopped: it cannot go on by itself"])
