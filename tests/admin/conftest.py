"""Borrows the fake cluster of the client's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "client"))

import asyncio
import contextlib

import pytest
from fake_cluster import FakeCluster


@pytest.fixture
def run():
    """Runs a coroutine to its end, in a time that is bounded."""
    return lambda work: asyncio.run(asyncio.wait_for(work, 20))


@pytest.fixture
def fake():
    """``async with fake(nodes) as cluster``."""

    @contextlib.asynccontextmanager
    async def opened(nodes=1):
        cluster = await FakeCluster(nodes).start()
        try:
            yield cluster
        finally:
            await cluster.stop()

    return opened
