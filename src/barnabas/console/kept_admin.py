"""`KeptAdmin`: one admin client for all questions to a cluster."""

import asyncio
from collections.abc import Mapping
from typing import Any

from barnabas.admin import AsyncAdmin


class KeptAdmin:
    """Begins with the first question, on the loop of its cluster.

    A client that has just begun knows nothing of its brokers, and may ask one that is frozen for what any of
    them can say. One that is there for some time has connections to those that answer, and takes these.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        """`options` are those of an admin client, with underscores."""
        self._options = options
        self._admin: AsyncAdmin | None = None
        self._beginning: asyncio.Task[AsyncAdmin] | None = None

    async def get(self) -> AsyncAdmin:
        """The client, once it has heard of the cluster. Raises BarnabasError; then the next one who asks
        begins again.
        """
        # One that has failed when nobody waited any more says nothing about now.
        if self._beginning is None or _has_failed(self._beginning):
            self._beginning = asyncio.ensure_future(self._begin())
        # Who asks may give up before: others wait for the same.
        return await asyncio.shield(self._beginning)

    async def _begin(self) -> AsyncAdmin:
        self._admin = AsyncAdmin(**self._options)
        return await self._admin.__aenter__()

    def silent_brokers(self, longer_than_ms: float) -> list[str]:
        """As those of the client, also while it begins."""
        return [] if self._admin is None else self._admin.silent_brokers(longer_than_ms)

    async def close(self) -> None:
        """Ends the client."""
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.wait({self._beginning})
        if self._admin is not None:
            await self._admin.close()

    def __repr__(self) -> str:
        return f"<KeptAdmin {self._admin!r}>"


def _has_failed(task: asyncio.Task[AsyncAdmin]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
