"""A fake cluster, and a way to run coroutines in tests without a plugin."""

import asyncio
import contextlib
import threading

import pytest
from fake_cluster import FakeCluster


@pytest.fixture
def run():
    """Runs a coroutine to its end, in a time that is bounded."""

    def run_bounded(work, seconds=20):
        return asyncio.run(asyncio.wait_for(work, seconds))

    return run_bounded


@pytest.fixture
def fake():
    """``async with fake(nodes) as cluster``: a cluster on the test's own event loop."""

    @contextlib.asynccontextmanager
    async def opened(nodes=1):
        cluster = await FakeCluster(nodes).start()
        try:
            yield cluster
        finally:
            await cluster.stop()

    return opened


@pytest.fixture
def background_cluster():
    """A running cluster of one on a thread of its own, for synchronous clients."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    cluster = asyncio.run_coroutine_threadsafe(FakeCluster().start(), loop).result(5)
    yield cluster
    asyncio.run_coroutine_threadsafe(cluster.stop(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
