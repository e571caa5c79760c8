"""What it costs to tell 10,000 topics page by page (DescribeTopicPartitions, KIP-966), ours beside Apache
Kafka 4.4, and for how long that holds our event loop.

    python -m bench.topic_pages [--topics 10000] [--sizes 20,200,2000] [--pairs 12] [--seconds 0.5]
                                [--warm 10]

One broker of each, with topics of one partition. A client goes through all of them from cursor to cursor, one
page in flight: once without naming any, and once with all their names in each request, as admin clients ask.
The first walk is read and compared with what was created; later ones send the same frames and compare the
lengths of the answers. A pair is a short turn at each broker, in an order that alternates; Kafka is asked for
`--warm` seconds of each kind before. Printed is the median of the processor time a page, of the ratios with
the interval that it lies in at 95 %, and the longest turn of our loop meanwhile in processor time, all that
it did at once, with the budget: 50 ms. For that, our broker runs as `bench.timed_broker` has it.
"""

import argparse
import contextlib
import itertools
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "jvm"))

from kafka_harness import Server, UnavailableError, artifacts, free_port, start_kraft

from barnabas.admin import Admin, NewTopic
from barnabas.core import form
from barnabas.core.chunks import materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from bench.mood import mood_meter
from bench.processes import processor_time
from bench.quotas import median_between
from bench.raw import RawClient
from bench.timed_broker import turns_between

AT_ONCE: Final = 250
"""Topics that are created by one request."""
CREATION_MS: Final = 300_000
HOLD_BUDGET_MS: Final = 50.0
Frames = list[tuple[bytes, int]]
"""Requests, and how long the answer to each is."""


def walk(client: RawClient, topics: Sequence[str], size: int, *, named: bool) -> Frames:
    """Asks for all topics in pages of so many partitions; RuntimeError where a topic is missing or comes
    twice.
    """
    wanted = [TopicRequest(name=name) for name in topics] if named else []
    key, found = ApiKey.DESCRIBE_TOPIC_PARTITIONS, list[str]()
    frames: Frames = []
    cursor: Cursor | None = None
    while cursor or not frames:
        request = DescribeTopicPartitionsRequest(topics=wanted, response_partition_limit=size, cursor=cursor)
        frame = materialize(encode_request(RequestHeader(key, 0, 7, "pages"), request))
        answered = bytes(client.ask(frame))
        frames.append((frame, len(answered)))
        answer = decode_response(key, 0, answered)[1]
        assert isinstance(answer, DescribeTopicPartitionsResponse), answer
        found += [topic.name or "" for topic in answer.topics if not topic.error_code and topic.partitions]
        cursor = answer.next_cursor
    if found != list(topics):
        raise RuntimeError(f"{len(topics)} topics were created, and {len(found)} told, in pages of {size}")
    return frames


class Walker:
    """One that goes through the pages of a broker again and again."""

    def __init__(self, server: Server, topics: Sequence[str], size: int, *, named: bool) -> None:
        self._server = server
        self._client = RawClient(server.port)
        self.frames = walk(self._client, topics, size, named=named)
        self._following = itertools.cycle(self.frames)

    def cost_ms(self, seconds: float) -> float:
        """Processor time of the broker for a page, asked for so long."""
        pages, before = 0, processor_time(self._server.pid).total_s
        until = time.perf_counter() + seconds
        while not pages or time.perf_counter() < until:
            frame, length = next(self._following)
            if len(self._client.ask(frame)) != length:
                raise RuntimeError(f"a page of {self._server!r} is not what it was before")
            pages += 1
        return (processor_time(self._server.pid).total_s - before) / pages * 1000

    def close(self) -> None:
        """Closes its connection."""
        self._client.close()


def compare(
    servers: Sequence[Server],
    topics: Sequence[str],
    size: int,
    given: argparse.Namespace,
    longest_ms: Callable[[float, float], float],
    *,
    named: bool,
) -> bool:
    """Prints the line of a row; whether its budget is met. The first server is ours."""
    with contextlib.ExitStack() as stack:
        walkers = []
        began = time.monotonic()
        for server in servers:
            walkers.append(Walker(server, topics, size, named=named))
            stack.callback(walkers[-1].close)
        for walker, seconds in zip(walkers, (given.seconds, given.warm), strict=False):
            walker.cost_ms(seconds)
        costs: list[list[float]] = [[] for _ in walkers]
        for turn in range(given.pairs):
            for which in (range(len(walkers)), reversed(range(len(walkers))))[turn % 2]:
                costs[which].append(walkers[which].cost_ms(given.seconds))
        longest = longest_ms(began, time.monotonic())
    kind = "all named in the request" if named else "none named"
    line = f"{len(topics)} topics, {kind}, {len(walkers[0].frames)} pages of {size}: "
    line += f"{statistics.median(costs[0]):.2f} ms of processor time a page"
    if len(walkers) > 1:
        median, least, most = median_between([a / b for a, b in zip(*costs, strict=True)])
        line += f", Kafka {statistics.median(costs[1]):.2f}: {median:.2f}x ({least:.2f}-{most:.2f})"
    met = longest <= HOLD_BUDGET_MS
    print(f"{line}; longest turn of the loop {longest:.1f} ms ({'met' if met else 'MISSED'})", flush=True)
    return met


def create(server: Server, topics: Sequence[str]) -> None:
    """Creates them; returns when the broker tells them all."""
    with Admin(server.bootstrap, request_timeout_ms=CREATION_MS) as admin:
        for at in range(0, len(topics), AT_ONCE):
            wanted = [NewTopic(name, partitions=1) for name in topics[at : at + AT_ONCE]]
            admin.topics.create(wanted, timeout_ms=CREATION_MS)
        until = time.monotonic() + CREATION_MS / 1000
        while len(admin.topics.list()) < len(topics):
            if time.monotonic() > until:
                raise RuntimeError(f"{server!r} does not tell all topics that were created")
            time.sleep(0.5)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[list[Server], Path]]:
    """Ours and Kafka's, without Kafka where it is not to be had; the file with the turns of our loop."""
    port, turns = free_port(), folder / "turns"
    command = [sys.executable, "-m", "bench.timed_broker", str(turns), "serve", "--port", str(port)]
    servers = [Server([*command, "--data", str(folder / "ours")], port, folder / "barnabas.log")]
    try:
        try:
            artifacts("4.4.0")
            (folder / "kafka").mkdir()
            # Its index files are created as large as they may become.
            servers.append(start_kraft(folder / "kafka", {"log.index.size.max.bytes": 4096}))
        except UnavailableError as missing:
            print(f"nothing to compare with: {missing}", file=sys.stderr)
        for server in servers:
            server.wait_until_listening()
        yield servers, turns
    finally:
        for server in servers:
            server.kill()


def main() -> int:
    """The exit code: 0 where the loop is held for no longer than the budget, 1 otherwise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--sizes", default="20,200,2000")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--warm", type=float, default=10.0)
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # Kafka has three files open a partition
    topics = [f"one-of-many-{number:05}" for number in range(given.topics)]
    good = True
    print(form.describe(), flush=True)
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as place, mood_meter() as meter:
        print(meter.look(), flush=True)
        with running(Path(place)) as (servers, turns):
            for server in servers:
                began = time.monotonic()
                create(server, topics)
                print(f"{server!r}: {given.topics} topics in {time.monotonic() - began:.0f} s", flush=True)

            def longest_ms(began_s: float, ended_s: float) -> float:
                return max(turns_between(turns, began_s, ended_s), default=0.0)

            for size, named in itertools.product(map(int, given.sizes.split(",")), (False, True)):
                good &= compare(servers, topics, size, given, longest_ms, named=named)
        print(meter.look(), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
