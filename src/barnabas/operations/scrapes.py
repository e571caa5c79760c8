"""What brokers and ZooKeeper servers say of themselves: Prometheus' text, and the four letters ``mntr``."""

import asyncio
import re
import time
import urllib.request
from collections.abc import Mapping
from typing import Final, TypeAlias

from barnabas.core.errors import BarnabasError
from barnabas.operations.errors import OperationError

Figures: TypeAlias = dict[str, float]

_BYTES_MAX: Final = 16 << 20
_MNTR_BYTES_MAX: Final = 1 << 20
_LINE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^}]*\})?\s+(\S+)")
_BROKER: Final = {
    "request_queue_size": re.compile(
        r"kafka_network_requestchannel_requestqueuesize(_value)?", re.IGNORECASE
    ),
    "network_idle": re.compile(
        r"kafka_network_socketserver_networkprocessoravgidlepercent(_value)?", re.IGNORECASE
    ),
    "handler_idle": re.compile(
        r"kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent(_oneminuterate|_value)?",
        re.IGNORECASE,
    ),
}
"""The names that the JMX exporter makes of Kafka's MBeans."""
_ZOOKEEPER: Final = {
    "zk_outstanding_requests": "outstanding_requests",
    "zk_watch_count": "watch_count",
    "zk_num_alive_connections": "alive_connections",
    "zk_approximate_data_size": "data_size",
    "zk_packets_sent": "packets_sent",
}


async def broker_figures(url: str, timeout_s: float) -> Figures:
    """The figures of a broker's metrics at this URL. Raises OperationError where they cannot be read."""
    if not url.startswith(("http://", "https://")):
        raise OperationError(f"{url} is no URL of metrics: it begins with http:// or https://")
    try:
        text = await asyncio.to_thread(_read, url, timeout_s)
    except (OSError, ValueError) as error:
        raise OperationError(f"the metrics at {url} cannot be read: {error}") from error
    found: Figures = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.match(line)
        if match is None:
            continue
        for name, pattern in _BROKER.items():
            if pattern.fullmatch(match[1]):
                found[name] = float(match[2])
    return found


def _read(url: str, timeout_s: float) -> str:
    # The scheme was looked at.
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310
        data: bytes = answer.read(_BYTES_MAX)
    return data.decode(errors="replace")


class BrokerScraper:
    """Reads the metrics of brokers; the URL of each by its id."""

    def __init__(self, urls: Mapping[int, str], timeout_s: float = 5.0) -> None:
        self._urls = urls
        self._timeout_s = timeout_s

    async def __call__(self) -> dict[int, Figures | BarnabasError]:
        """What each says, or why it says nothing."""
        answers = await asyncio.gather(
            *(broker_figures(url, self._timeout_s) for url in self._urls.values()), return_exceptions=True
        )
        return dict(zip(self._urls, map(_or_error, answers), strict=True))


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
                    while more := await reader.read(_MNTR_BYTES_MAX):
                        text += more.decode(errors="replace")
                finally:
                    writer.close()
        except (OSError, TimeoutError, ValueError) as error:
            raise OperationError(
                f"ZooKeeper at {server} does not answer mntr: {error or 'too slow'}"
            ) from error
        if "whitelist" in text:
            raise OperationError(f"ZooKeeper at {server} refuses mntr: add it to 4lw.commands.whitelist")
        return self._figures(server, text)

    def _figures(self, server: str, text: str) -> Figures:
        values = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
        found = {ours: float(values[theirs]) for theirs, ours in _ZOOKEEPER.items() if theirs in values}
        found["is_leader"] = float(values.get("zk_server_state") in {"leader", "standalone"})
        now, sent = time.monotonic(), found.pop("packets_sent", None)
        if sent is not None:
            then, before = self._sent.get(server, (now, sent))
            self._sent[server] = (now, sent)
            found["sent_rate"] = max(sent - before, 0) / (now - then) if now > then else 0.0
        return found


def _or_error(answer: Figures | BaseException) -> Figures | BarnabasError:
    if isinstance(answer, BarnabasError):
        return answer
    if isinstance(answer, BaseException):
        raise answer
    return answer
