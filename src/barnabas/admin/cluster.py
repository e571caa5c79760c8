"""``admin.cluster``: brokers, controller and cluster id."""

from barnabas.admin.context import AdminContext
from barnabas.admin.types import ClusterDescription


class ClusterInfo:
    """The cluster itself."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def describe(self, *, timeout_ms: float | None = None) -> ClusterDescription:
        """Brokers in order of their ids, the controller and the cluster's id, fresh from one broker."""
        response = await self._context.metadata([], self._context.deadline(timeout_ms))
        brokers = dict(sorted(self._context.cluster.metadata.brokers.items()))
        return ClusterDescription(
            cluster_id=response.cluster_id or "",
            controller=brokers.get(response.controller_id),
            brokers=list(brokers.values()),
        )
