"""`WatchedCluster`: a cluster that the console looks at, on a thread with a loop of its own.

Pages are served on another loop: they read `snapshot`, which is replaced as a whole. What they ask brokers or
the metadata store (`ask`, `ask_records`, `ask_store`) they wait for as long as `Questions` lets them. What
changes something (`use`, `produce`) is waited for until its end. All of it runs on this loop, with clients of
its own.
"""

import asyncio
import contextlib
import copy
import threading
from collections.abc import Awaitable, Callable, Container, Coroutine, Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas.admin import AsyncAdmin
from barnabas.client import AsyncConsumer, AsyncProducer, ClientTimeoutError
from barnabas.client.config import ADMIN_CONFIG, CONSUMER_CONFIG, PRODUCER_CONFIG, client_config
from barnabas.console.collector import BrokersScraper, Collector, Pace, Scraper
from barnabas.console.fair_shares import FairPlaces
from barnabas.console.health.checks import CHECKS
from barnabas.console.health.outcome import Level
from barnabas.console.health.verdict import Verdict, verdict
from barnabas.console.history.sampler import CommitWatch, samples_of
from barnabas.console.kept_admin import KeptAdmin
from barnabas.console.questions import SILENT_MS, LiveAnswer, Question, Questions, UnexpectedError, words_of
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.console.trend import Trend
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.network.errors import AuthenticationError
from barnabas.operations.certificates import CertificateReader
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError
from barnabas.operations.record_times import CLIENT
from barnabas.operations.store_reader import StoreReader, opened

if TYPE_CHECKING:
    import concurrent.futures

    from barnabas.console.alerts.book import AlertBook
    from barnabas.console.health.limits import EditedLimits
    from barnabas.console.history.history import ClusterHistory

T = TypeVar("T")

_log = EventLog("console")
_START_S: Final = 30
_READERS_MAX: Final = 6
CALL_TIMEOUT_S: Final = 30.0
_SESSION_MS: Final = 1_000
"""The session of ZooKeeper that a look in the store asks for."""
_STORE_END_S: Final = 3.0
"""How long a look in the store may take in all."""


class WatchedCluster:
    """Begins to look with `start`; `close` ends it."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        pace: Pace | None = None,
        *,
        brokers: BrokersScraper | None = None,
        zookeeper: Scraper | None = None,
        store: Path | None = None,
        zookeeper_connect: str | None = None,
    ) -> None:
        """`store` is the folder or the file of an embedded metadata store. `options` are those of an admin
        client, ``bootstrap.servers`` among them; its security is the consumer's too.
        """
        self.name = name
        self.bootstrap: str = options["bootstrap.servers"]
        self.pace = pace or Pace()
        self.trend = Trend()
        self.limits: dict[str, float] = {}
        """Limits of checks other than the default ones, by key."""
        self.edited: EditedLimits | None = None
        """Those that were changed in the console, which count before these."""
        self._cut: Callable[[ClusterSnapshot], ClusterSnapshot] | None = None
        self.history: ClusterHistory | None = None
        """What is remembered; a check for a script remembers nothing."""
        self.alerts: AlertBook | None = None
        self._readers = FairPlaces(_READERS_MAX)
        """Who looks at records now: each has a client of its own. Only the loop of the cluster asks it."""
        self._commits = CommitWatch()
        self._verdict: tuple[int, str | None, Verdict] | None = None
        self._options = {key.replace(".", "_"): value for key, value in options.items()}
        self._scrape_brokers = brokers
        self._scrape_zookeeper = zookeeper
        self._store = store
        self._zookeeper_connect = zookeeper_connect
        self._collector: Collector | None = None
        self.questions = Questions(self._submit)
        self._admin = KeptAdmin(self._options)
        self._asker = ""
        self._problem: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._again: asyncio.Event | None = None
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"barnabas-console-{name}", daemon=True)
        self._rounds = threading.Condition()
        self._asked = 0
        self._begun = 0
        """Up to which of those who asked for a round one was begun, or was done:"""
        self._served = 0

    @property
    def snapshot(self) -> ClusterSnapshot:
        """What is known."""
        found = ClusterSnapshot() if self._collector is None else self._collector.snapshot
        return found if self._cut is None else self._cut(found)

    def seen_through(
        self, cut: Callable[[ClusterSnapshot], ClusterSnapshot], reader: str
    ) -> "WatchedCluster":
        """The same cluster for one reader of several: its snapshot is cut down to what they may see, and what
        they ask is asked for them.
        """
        seen = copy.copy(self)
        seen._cut, seen._asker = cut, reader  # noqa: SLF001 - its own
        return seen

    def verdict(self, at_ms: int) -> Verdict:
        """How the cluster is. It walks all partitions and groups, so it is made after each round, on this
        cluster's thread; a page makes it only where there was no round lately.
        """
        kept = self._verdict
        if kept is not None and kept[1] == self._problem and at_ms - kept[0] <= self._verdict_ms():
            return kept[2]
        return self._judge(at_ms)

    def _verdict_ms(self) -> int:
        """How long a verdict counts: as long as what it was made of, also where rounds are long."""
        return self.pace.fresh_ms(took_ms=self.snapshot.round_ms)

    def _judge(self, at_ms: int) -> Verdict:
        edited = self.edited.limits if self.edited is not None else {}
        problem = self._problem
        found = verdict(self.snapshot, at_ms, {**self.limits, **edited}, problem)
        # Limits or rules that do not count leave a cluster unwatched: somebody has to do something.
        kept = (self.edited, self.alerts)
        if problems := [one.problem for one in kept if one is not None and one.problem is not None]:
            level = max(found.level, Level.WARNING, key=list(Level).index)
            found = replace(found, level=level, reasons=[*problems, *found.reasons])
        self._verdict = at_ms, problem, found
        return found

    def judge_again(self) -> None:
        """The next verdict is made when it is asked for: limits have changed."""
        self._verdict = None

    def limit(self, key: str, edited: float | None = None) -> float:
        """The limit of a check, or what it is with an edited one. Raises OperationError where there is no
        such check.
        """
        check = next((one for one in CHECKS if one.key == key), None)
        if check is None:
            raise OperationError(f"there is no check {key!r}")
        return self.limits.get(key, check.limit) if edited is None else edited

    @property
    def problem(self) -> str | None:
        """Why nothing is read: no broker answers, or the options are wrong."""
        return self._problem

    def start(self) -> "WatchedCluster":
        """Begins to look, and does not wait for the first answer."""
        self._thread.start()
        self._running.wait(_START_S)
        return self

    def close(self) -> None:
        """Ends the looks; harmless when repeated."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop has just ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
                self._loop.call_soon_threadsafe(self._wake)
            self._thread.join()
        if self.history is not None:
            self.history.settle()

    def wait_for_round(self, timeout_s: float) -> bool:
        """Waits until a round that begins from now on is over; whether it came. For tests and `--check`."""
        with self._rounds:
            self._asked += 1
            mine = self._asked
            if self._loop is not None and self._again is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._begin_for, mine)
            self._rounds.wait_for(lambda: self._served >= mine or self._problem is not None, timeout_s)
            return self._served >= mine

    async def use(self, work: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
        """What `work` comes to with an admin client of its own, on this cluster's loop. Raises
        BarnabasError.
        """

        async def run() -> T:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                async with AsyncAdmin(**self._options) as admin:
                    return await work(admin)

        return await self._changing(run())

    async def produce(self, work: Callable[[AsyncProducer], Awaitable[T]], **options: Any) -> T:
        """The same with a producer."""

        async def run() -> T:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                async with AsyncProducer(**self._of(PRODUCER_CONFIG, options)) as producer:
                    return await work(producer)

        return await self._changing(run())

    async def ask(
        self,
        key: Hashable,
        work: Callable[[AsyncAdmin], Awaitable[T]],
        *,
        once: bool = False,
        asker: str | None = None,
    ) -> LiveAnswer[T]:
        """What `work` comes to with the admin client of all questions, or what is known instead: as
        `Questions.ask`. It changes nothing. The user is `asker`, or the reader that this is seen by.
        """

        async def run(question: Question) -> T:
            question.silent = lambda: self._named(self._admin.silent_brokers(SILENT_MS))
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await work(await self._admin.get())

        return await self.questions.ask(key, run, once=once, asker=self._asker if asker is None else asker)

    async def ask_records(
        self, key: Hashable, work: Callable[[AsyncConsumer], Awaitable[T]], **options: Any
    ) -> LiveAnswer[T]:
        """The same with a consumer of its own; the answer is kept for one who asks. Few look at records at a
        time, and no user takes the places of all others: OperationError for one more.
        """

        async def run(question: Question) -> T:
            if not self._readers.take(question.asker):
                mine = self._readers.of(question.asker) if question.asker else 0
                who = f"{question.asker} looks at {mine} places" if mine else "too many look at records"
                raise OperationError(f"{who} of this cluster now: try again in a moment")
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    consumer = self._consumer(options)
                    question.silent = lambda: self._named(consumer.silent_brokers(SILENT_MS))
                    async with consumer:
                        return await work(consumer)
            finally:
                self._readers.leave(question.asker)

        return await self.questions.ask(key, run, once=True, asker=self._asker)

    async def ask_store(self, key: Hashable, work: Callable[[StoreReader], Awaitable[T]]) -> LiveAnswer[T]:
        """The same with a reader of the metadata store. Raises OperationError where none was named, and where
        it cannot be read.
        """
        if self._store is None and self._zookeeper_connect is None:
            raise OperationError("the metadata store is not known: name it with --store or --zookeeper")

        async def run(_question: Question) -> T:
            connect = self._zookeeper_connect
            try:
                async with asyncio.timeout(_STORE_END_S), opened(self._store, connect, _SESSION_MS) as reader:
                    return await work(reader)
            except OperationError as error:
                if isinstance(error.__cause__, TimeoutError):
                    raise ClientTimeoutError(str(error)) from error
                raise

        return await self.questions.ask(key, run, who="the metadata store", asker=self._asker)

    def _named(self, silent: list[str]) -> list[str]:
        """Brokers by their ids, where the client has not learnt yet which one is at an address."""
        cluster = self.snapshot.cluster.value
        ids = {f"{one.host}:{one.port}": one.node_id for one in cluster.brokers} if cluster else {}
        return sorted({f"broker {ids[one]}" if one in ids else one for one in silent})

    async def _changing(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` comes to on this cluster's loop, which may change something. Raises BarnabasError."""
        try:
            return await asyncio.wrap_future(self._submit(work))
        except TimeoutError as error:
            raise BarnabasError(f"the cluster did not answer within {CALL_TIMEOUT_S:.0f} s") from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise BarnabasError(
                f"the cluster {self.name} is not looked at any more: whether it was done is not known"
            ) from error
        except BarnabasError:
            raise
        except Exception as error:
            _log.error("console.change", cluster=self.name, error=repr(error), exc_info=True)
            raise UnexpectedError(f"{words_of(error)}: whether it was done is not known") from error
        finally:
            # Also where it failed: a part of it may have been done.
            self.questions.changed()

    def _submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        # What begins while the loop ends would never come to anything.
        is_ending = self._stop is not None and self._stop.is_set()
        if self._loop is None or is_ending or not self._thread.is_alive():
            work.close()
            why = f": {self._problem}" if self._problem else " any more"
            raise BarnabasError(f"the cluster {self.name} is not looked at{why}")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _consumer(self, more: Mapping[str, Any]) -> AsyncConsumer:
        return AsyncConsumer(**self._of(CONSUMER_CONFIG, more))

    def _of(self, table: Container[str], more: Mapping[str, Any]) -> dict[str, Any]:
        """The options that a client of this table knows, and some more."""
        given = {key: value for key, value in self._options.items() if key.replace("_", ".") in table}
        return {**given, **{key.replace(".", "_"): value for key, value in more.items()}}

    def _certificate_reader(self) -> CertificateReader | None:
        """Of a cluster that is reached over TLS."""
        config = client_config(ADMIN_CONFIG, self._options)
        return CertificateReader(config) if config["security.protocol"].upper().endswith("SSL") else None

    # --- the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._life())
        except BaseException as error:
            self._problem = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._running.set()

    async def _life(self) -> None:
        try:
            await self._watch()
        finally:
            await self._admin.close()

    async def _watch(self) -> None:
        self._loop, self._stop, self._again = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._running.set()
        while not self._stop.is_set():
            looking = asyncio.ensure_future(self._look())
            stopped = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait({looking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if not looking.done():
                looking.cancel()
            retry_s = self.pace.retry_s
            try:
                await looking
            except asyncio.CancelledError:
                return
            except Exception as error:
                self._problem = words_of(error)
                if not isinstance(error, (BarnabasError, OSError)):  # a bug of ours must not end the looks
                    _log.error("console.look", cluster=self.name, error=repr(error), exc_info=True)
                if isinstance(error, AuthenticationError):
                    retry_s = self.pace.refused_s
                with self._rounds:
                    self._rounds.notify_all()
                _log.warning("console.unreachable", cluster=self.name, error=error)
            await self._pause(retry_s)

    async def _look(self) -> None:
        """Rounds, for as long as the console lives. Raises BarnabasError where it cannot begin."""
        async with AsyncAdmin(**self._options) as admin, self._consumer(CLIENT) as consumer:
            self._problem = None
            left = None if self._collector is None else self._collector.snapshot
            collector = Collector(
                admin,
                consumer,
                self.pace,
                brokers=self._scrape_brokers,
                zookeeper=self._scrape_zookeeper,
                certificates=self._certificate_reader(),
                snapshot=left,
            )
            self._collector = collector
            while True:
                begun = asyncio.get_running_loop().time()
                self._begun = asked = self._asked
                await collector.round()
                self.trend.add(collector.snapshot)
                # One time for both: the lags of all groups are made once for it.
                at_ms = now_ms()
                self._remember(collector, self._judge(at_ms), at_ms)
                self.questions.forget_old()
                with self._rounds:
                    self._served = asked
                    self._rounds.notify_all()
                await self._pause(self.pace.round_s - (asyncio.get_running_loop().time() - begun))

    def _remember(self, collector: Collector, found: Verdict, at_ms: int) -> None:
        """A sample for the history, where it is time for one."""
        if self.history is None or not self.history.is_due(at_ms):
            return
        samples = samples_of(collector.snapshot, self.trend, found, at_ms)
        if self.alerts is not None:
            self.alerts.judge(at_ms, samples)
        samples |= self._commits.samples(collector.snapshot)
        self.history.remember(at_ms, samples, collector.take_changes())

    async def _pause(self, seconds: float) -> None:
        assert self._again is not None, "only the thread waits"
        # Not `wait_for`, which may lose a cancellation that comes with what it waits for (Python 3.11).
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.01)):
                await self._again.wait()
        self._again.clear()

    def _begin_for(self, asker: int) -> None:
        """Ends a pause for who waits for a round; whoever has one already gets no second one."""
        if self._begun < asker:
            self._wake()

    def _wake(self) -> None:
        """Ends a pause."""
        assert self._again is not None, "made with the loop"
        self._again.set()

    def __repr__(self) -> str:
        return f"<WatchedCluster {self.name} {self.bootstrap} {self._problem or self.snapshot!r}>"
