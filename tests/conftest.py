"""What tests of several folders share:
running brokers, as a user starts them, and a fake cluster for clients.
"""

import asyncio
import contextlib
import faulthandler
import gc
import importlib.util
import logging
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import longest_first
import run_guard
import silent_broker
from barnabas.core import form
from barnabas.network.errors import RequestTimedOutError
from serving import Broker, ServeProcess

# What outside clients emit by themselves, at import already; every other warning stays an error.
WARNINGS_OF_OTHERS = [
    # kafka-python 3.0 reads its schemas with importlib.resources.read_text, deprecated in Python 3.11 only.
    "ignore:(read|open)_text is deprecated:DeprecationWarning",
]

# A slow example is no wrong one; how long something takes is measured in bench/.
TOO_SLOW = hypothesis.HealthCheck.too_slow
hypothesis.settings.register_profile("unhurried", deadline=None, suppress_health_check=[TOO_SLOW])
hypothesis.settings.load_profile("unhurried")

# Where this is set, every program that a test starts compiles all its sources again: 0.7 s of a broker's 1.1.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(run_guard, "run-guard")
    config.pluginmanager.register(owners, "owners-of-brokers")
    config.pluginmanager.register(longest_first, "longest-first")
    for line in WARNINGS_OF_OTHERS:
        config.addinivalue_line("filterwarnings", line)

    if stale := form.edited():
        pytest.exit(f"compiled from other sources (`make compile` or `make pure`): {', '.join(stale)}", 2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Collects the tests without the collector of garbage, and spares it what they are made of: 12,000 tests
    live to the end, and every full round would walk through all of them. Half of what a collection took.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_report_header() -> str:
    return f"barnabas: {form.describe()}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compiled modules take no patches, so a judge that is judged by bugs planted in them is judged in the
    pure form.
    """
    for mark in item.iter_markers("interpreted"):
        for module in mark.args:
            spec = importlib.util.find_spec(module)
            if spec is not None and not str(spec.origin).endswith(".py"):
                pytest.skip(f"plants bugs in {module}, which is compiled")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """pytest hands its handlers to loggers that do not propagate, and PySpark's give each handler that they
    get a format of their own, JSON: all later tests of the process read their lines in it.
    """
    if "pyspark.logger" not in sys.modules:
        return
    for logger in logging.root.manager.loggerDict.values():
        if type(logger).__name__ == "PySparkLogger":
            logger.propagate = True  # type: ignore[union-attr]
    capture: Any = item.config.pluginmanager.getplugin("logging-plugin")
    for handler in (capture.caplog_handler, capture.report_handler):
        handler.setFormatter(capture.formatter)


def pytest_exception_interact(call: pytest.CallInfo[Any], report: Any) -> None:
    """A broker of this process that did not answer in time: what its thread, and all others, are doing."""
    error = call.excinfo.value if call.excinfo else None
    while error is not None and not isinstance(error, TimeoutError | RequestTimedOutError):
        error = error.__cause__ or error.__context__
    if error is not None and isinstance(report, pytest.TestReport):
        with tempfile.TemporaryFile("w+") as stacks:
            faulthandler.dump_traceback(stacks)
            stacks.seek(0)
            report.sections.append(("Threads", stacks.read()))
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None and (seen := silent_broker.look()):
            crash.message += f" [{seen}]"


OUTSIDE_CLIENTS = {"chaos", "clients", "jvm", "node"}
"""The folders whose tests run kafka-python in this process."""
KAFKA_PYTHON_S = 5
"""How long its threads may take to end after their client."""


@pytest.fixture(scope="module", autouse=True)
def _sockets_of_outside_clients(request: pytest.FixtureRequest) -> Iterator[None]:
    """A client of kafka-python that could not connect leaves its sockets open. They are collected here, and
    not in a later test, which would fail for what it has not done.
    """
    yield
    if "kafka" in sys.modules and request.path.parent.name in OUTSIDE_CLIENTS:
        for thread in threading.enumerate():
            if thread.name.startswith("kafka-io-"):  # it holds its client until it has seen that it is closed
                thread.join(KAFKA_PYTHON_S)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"unclosed <(socket|ssl)\.", ResourceWarning)
            gc.collect()


# --- brokers in processes of their own


class Owners:
    """What runs now: tests, and fixtures that are made for them. A broker ends with the innermost one.

    A plugin and not hooks of this file: pytest asks no `conftest.py` below its root about fixtures of the
    whole session.
    """

    def __init__(self) -> None:
        self.running: list[Any] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        return (yield from self._while_it_runs(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        return (yield from self._while_it_runs(fixturedef))

    def _while_it_runs(self, owner: Any) -> Iterator[Any]:
        self.running.append(owner)
        try:
            return (yield)
        finally:
            self.running.pop()


owners = Owners()


@pytest.fixture(scope="session")
def serve() -> Callable[..., ServeProcess]:
    """Starts further brokers of a test's own: `serve(data_dir, "--set", "key=value")`. One that still runs
    when the test ends, or the fixture that has started it, is killed then: a test that failed leaves none
    behind. One that is started `instead_of` another lives as long as that one would have.
    """
    ending_with: dict[ServeProcess, list[ServeProcess]] = {}

    def start(
        data_dir: Path, *options: str, instead_of: ServeProcess | None = None, **how: Any
    ) -> ServeProcess:
        server = ServeProcess(data_dir, *options, **how)
        if instead_of is None:
            together: list[ServeProcess] = []
            owners.running[-1].addfinalizer(lambda: [each.kill() for each in together if each.runs])
        else:
            together = ending_with[instead_of]
        together.append(server)
        ending_with[server] = together
        return server

    return start


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, serve: Callable[..., ServeProcess]) -> Iterator[Broker]:
    """A broker for the whole session:
    ours in a process of its own, or the one that BARNABAS_TEST_BOOTSTRAP names.
    """
    elsewhere = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if elsewhere:
        host, _, port = elsewhere.rpartition(":")
        yield Broker(host, int(port))
        return
    server = serve(tmp_path_factory.mktemp("broker") / "data")
    yield server.wait_until_ready()
    code = server.stop()
    assert code == 0, f"barnabas serve ended with {code} on SIGTERM; its log ends:\n{server.tail()}"


@pytest.fixture
def join_cluster(tmp_path: Path, serve: Callable[..., ServeProcess]) -> Callable[..., ServeProcess]:
    """Starts brokers of one cluster, on one store:
    `join_cluster(1)`, `join_cluster(2, "--set", "key=value")`.
    """
    store = f"barnabas.metadata.path={tmp_path / 'metadata.sqlite'}"

    # The last broker of a cluster has nobody to hand its partitions to, and tries three times.
    quick = "controlled.shutdown.retry.backoff.ms=100"
    common = ("--set", store, "--set", quick)

    def join(broker_id: int, *options: str, **how: Any) -> ServeProcess:
        return serve(tmp_path / str(broker_id), "--id", str(broker_id), *common, *options, **how)

    return join


@pytest.fixture
def two_brokers(join_cluster: Callable[..., ServeProcess]) -> Iterator[list[ServeProcess]]:
    """A cluster of brokers 1 and 2. They talk to each other on the listener INTERNAL, clients come to
    CLIENTS. The first one is the controller.
    """
    servers = []
    for broker_id in (1, 2):
        servers.append(join_cluster(broker_id, listeners=("INTERNAL", "CLIENTS")))
        servers[-1].wait_until_ready()
    yield servers
    for server in servers:
        if server.runs:
            assert server.stop() == 0, server.tail()


@pytest.fixture(scope="session")
def topic_name() -> Callable[[str], str]:
    """Makes a topic name of its own for a test, so that tests share one broker in any order."""
    started = f"{os.getpid()}-{time.time_ns() // 1_000_000 % 1_000_000_000}"
    counts: dict[str, int] = {}

    def name(stem: str = "topic") -> str:
        counts[stem] = counts.get(stem, 0) + 1
        return f"{stem}-{started}-{counts[stem]}"

    return name


# --- a fake cluster, for clients, tools and the command line


@pytest.fixture
def run() -> Callable[..., Any]:
    """Runs a coroutine to its end, in a time that is bounded."""

    def run_bounded(work: Coroutine[Any, Any, Any], seconds: float = 20) -> Any:
        return asyncio.run(asyncio.wait_for(work, seconds))

    return run_bounded


@pytest.fixture
def fake():
    """``async with fake(nodes) as cluster``: a cluster on the test's own event loop."""
    from fake_cluster import FakeCluster

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
    """A running fake cluster of one on a thread of its own, for synchronous clients."""
    from fake_cluster import FakeCluster

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    cluster = asyncio.run_coroutine_threadsafe(FakeCluster().start(), loop).result(5)
    yield cluster
    asyncio.run_coroutine_threadsafe(cluster.stop(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
