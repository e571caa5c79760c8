"""Whether a broker that a tool was told to ask is in the cluster; clients would wait for one that is not."""

from barnabas.admin import AsyncAdmin
from barnabas.operations.errors import OperationError


async def check_broker(admin: AsyncAdmin, broker: int, timeout_ms: float | None = None) -> None:
    """Raises OperationError for a broker that is not in the cluster now."""
    if broker not in {one.node_id for one in (await admin.cluster.describe(timeout_ms=timeout_ms)).brokers}:
        raise no_broker(broker)


def no_broker(broker: int) -> OperationError:
    """The line for it."""
    return OperationError(f"There is no broker {broker} in the cluster now")
