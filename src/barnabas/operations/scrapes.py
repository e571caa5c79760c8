"""What brokers and ZooKeeper servers say of themselves: Prometheus' text, and the four letters ``mntr``."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar

from barnabas.core.errors import BarnabasError
from barnabas.network.errors import FetchError
from barnabas.network.http_fetch import fetch
from barnabas.operations.broker_metrics import Figures, figures_of
from barnabas.operations.client_pushes import SERIES_MAX, ClientPushes, client_pushes
from barnabas.operations.errors import OperationError

V = TypeVar("V")

_BYTES_MAX: Final = 16 << 20
_CONNECT_S: Final = 2.0
_MNTR_BYTES_MAX: Final = 1 << 20
_ZOOKEEPER: Final = {
    "zk_outstanding_requests": "outstanding_requests",
    "zk_watch_count": "watch_count",
    "zk_num_alive_connections": "alive_connections",
    "zk_approximate_data_size": "data_size",
    "zk_packets_sent": "packets_sent",
}


class BrokerScrape(NamedTuple):
    """What one look at a broker's metrics has brought."""

    figures: Figures
    clients: ClientPushes


async def broker_scrape(url: str, timeout_s: float, series_max: int = SERIES_MAX) -> BrokerScrape:
    """What a broker's metrics at this URL say, with so many series of clients at most. Raises OperationError
    where they cannot be read.
    """
    if not url.startswith(("http://", "https://")):
        raise OperationError(f"{url} is no URL of metrics: it begins with http:// or https://")
    try:
        text = await asyncio.to_thread(_read, url, timeout_s)
    except (FetchError, ValueError) as error:
        raise OperationError(f"the metrics at {url} cannot be read: {error}") from error
    return BrokerScrape(figures_of(text), client_pushes(text, series_max))


def _read(url: str, timeout_s: float) -> str:
    answer = fetch(
        url,
        headers={},
        connect_timeout_s=min(timeout_s, _CONNECT_S),
        timeout_s=timeout_s,
        bytes_max=_BYTES_MAX,
    )
    if answer.status != HTTPStatus.OK:
        raise FetchError(f"the answer is HTTP {answer.status}")
    if answer.body and not answer.body.endswith(b"\n"):
        # Prometheus' text ends with the end of a line: of 12345 there may be 12.
        raise FetchError("the answer breaks off within a line")
    return answer.body.decode(errors="replace")


class BrokerScraper:
    """Reads the metrics of brokers; the URL of each by its id. Each has an equal part of the series of
    clients that are read. What counts since a broker's start is made a rate between two looks:
    ``loop_idle``, the share of a core that its loop did not use, and ``old_requests_per_s``.
    """

    def __init__(
        self,
        urls: Mapping[int, str],
        timeout_s: float = 5.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._urls = urls
        self._timeout_s = timeout_s
        self._clock_s = clock_s
        self._counted: dict[int, tuple[float, Figures]] = {}

    async def __call__(self) -> dict[int, BrokerScrape | BarnabasError]:
        """What each says, or why it says nothing."""
        part = SERIES_MAX // max(len(self._urls), 1)
        answers = await asyncio.gather(
            *(broker_scrape(url, self._timeout_s, part) for url in self._urls.values()),
            return_exceptions=True,
        )
        found = dict(zip(self._urls, map(_or_error, answers), strict=True))
        now = self._clock_s()
        for broker, scrape in found.items():
            if not isinstance(scrape, BarnabasError):
                self._make_rates(broker, scrape.figures, now)
        return found

    def _make_rates(self, broker: int, figures: Figures, now: float) -> None:
        counts = {name: figures.pop(name) for name in _COUNTED if name in figures}
        then, before = self._counted.get(broker, (now, {}))
        self._counted[broker] = now, counts
        for name, count in counts.items():
            # A broker that was started again counts from 0.
            if name in before and count >= before[name] and now > then:
                rate = (count - before[name]) / (now - then)
                figures[_COUNTED[name]] = max(1 - rate, 0.0) if name == "loop_busy_s" else rate


_COUNTED: Final = {"loop_busy_s": "loop_idle", "old_requests": "old_requests_per_s"}


class ZookeeperScraper:
    """Asks ZooKeeper servers for ``mntr``; what they have sent is made a rate between two looks."""

    def __init__(self, connect: str, timeout_s: float = 5.0) -> None:
        """`connect` is that of brokers: ``host:port,host:port/path``."""
        self._servers = [one for one in connect.partition("/")[0].split(",") if one]
        self._timeout_s = timeout_s
        self._sent: dict[str, tuple[float, float]] = {}

    async def __call__(self) -> dict[str, Figures | BarnabasError]:
        """What each says, or why it says nothing."""
        answers = await asyncio.gather(*map(self._ask, self._servers), return_exceptions=True)
        return dict(zip(self._servers, map(_or_error, answers), strict=True))

    async def _ask(self, server: str) -> Figures:
        host, _, port = server.rpartition(":")
        try:
            async with asyncio.timeout(self._timeout_s):
                reader, writer = await asyncio.open_connection(host or server, int(port or 2181))
                try:
                    writer.write(b"mntr")
                    text = (await reader.read(_MNTR_BYTES_MAX)).decode(errors="replace")
                    while len(text) < _MNTR_BYTES_MAX and (more := await reader.read(_MNTR_BYTES_MAX)):
                        text += more.decode(errors="replace")
                finally:
                    writer.close()
        except (OSError, TimeoutError, ValueError) as error:
            raise OperationError(
                f"ZooKeeper at {server} does not answer mntr: {str(error) or 'too slow'}"
            ) from error
        if "whitelist" in text:
            raise OperationError(f"ZooKeeper at {server} refuses mntr: add it to 4lw.commands.whitelist")
        try:
            return self._figures(server, text)
        except ValueError as error:
            raise OperationError(f"ZooKeeper at {server} answers mntr with what is none: {error}") from error

    def _figures(self, server: str, text: str) -> Figures:
        values = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
        found = {ours: _finite(values[theirs]) for theirs, ours in _ZOOKEEPER.items() if theirs in values}
        found["is_leader"] = float(values.get("zk_server_state") in {"leader", "standalone"})
        now, sent = time.monotonic(), found.pop("packets_sent", None)
        if sent is not None:
            then, before = self._sent.get(server, (now, sent))
            self._sent[server] = (now, sent)
            found["sent_rate"] = max(sent - before, 0) / (now - then) if now > then else 0.0
        return found


def _finite(text: str) -> float:
    """The number. Raises ValueError for a text that is none, and for one that nothing is compared with."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no number")
    return value


def _or_error(answer: V | BaseException) -> V | BarnabasError:
    if isinstance(answer, BarnabasError):
        return answer
    if isinstance(answer, BaseException):
        raise answer
    return answer
