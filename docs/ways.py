"""Measures five requests on their way from the socket to the answer, and writes the table of
docs/architecture.md.

    python docs/ways.py              the commit `BEFORE` beside this tree; writes the page
    python docs/ways.py --measure    this tree only, as JSON; with PYTHONPATH another one
    python docs/ways.py --show NAME  the functions of one way, in the order of their first calls

Theory of operation
-------------------
``barnabas serve`` runs in the main thread under `sys.setprofile`. A client in a second thread sends one
request at a time. The way of a request is every call of a function of `barnabas` in the main thread between
its first byte and the last ``send`` of its answer. Each request is made `TRIES` times, each time for a new
group or partition. The try with the fewest calls counts: the others also hold work that comes once (a codec
is compiled) or by accident (a timer).

A function counts once, where it is first called, because that is how a reader meets it. Its lines are those
from ``def`` to its end. An *entry* is a step from one file to another in that order, a *return* is an entry
into a file where the way has been before.
"""

import argparse
import ast
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from barnabas.cli.main import main as barnabas_command
from barnabas.core.chunks import materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

BEFORE: Final = "5969cec"
"""The commit before the code was cut again."""
DOCS: Final = Path(__file__).resolve().parent
PAGE: Final = DOCS / "architecture.md"
TRIES: Final = 6
READY_SECONDS: Final = 30
QUIET_SECONDS: Final = 0.1
"""Before each request, so that the work of the one before is over."""
SETTINGS: Final = {
    "barnabas.busy.poll.us": "0",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}
PACKAGE: Final = f"{os.sep}barnabas{os.sep}"
_TABLE = re.compile(r"(<!-- ways: .*? -->\n).*?(<!-- end of ways -->)", re.DOTALL)


class Figures(NamedTuple):
    """How much a reader has to read, and how often he turns to another file."""

    files: int
    functions: int
    lines: int
    entries: int
    returns: int


class Ask(NamedTuple):
    """A request; one without a name prepares the next one and is not measured."""

    name: str
    version: int
    request: Request
    deciding: str = ""
    """The folder that decides what the answer is."""


Asks = Generator[Ask, Response, None]
Way = tuple[list[CodeType], str]
"""The functions in the order of their calls, and the folder that decides."""


def asks(number: int) -> Asks:
    """The five requests. `number` names a group and a partition that were in none before."""
    yield Ask(
        "FindCoordinator", 4, FindCoordinatorRequest(coordinator_keys=[f"classic-{number}"]), "coordinator"
    )

    subscription = ConsumerProtocolSubscription(topics=["ways"]).to_bytes(1)
    joining = JoinGroupRequest(
        group_id=f"classic-{number}",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    # KIP-394: the first answer only gives a member id.
    answer = yield Ask("", 9, joining)
    joining.member_id = answer.member_id  # type: ignore[attr-defined]
    yield Ask("JoinGroup", 9, joining, "coordinator")

    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=f"consumer-{number}",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["ways"],
        topic_partitions=[],
    )
    yield Ask("ConsumerGroupHeartbeat", 0, heartbeat, "coordinator")

    records = bytes(build_batch([Record(0, int(time.time() * 1000), None, b"value")]))
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="ways", partition_data=[data])
    yield Ask("Produce", 9, ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[topic]), "replica")

    state = LeaderAndIsrPartitionState(
        partition_index=number, controller_epoch=1, leader=0, isr=[0], replicas=[0], is_new=True
    )
    led = LeaderAndIsrTopicState(topic_name="led", topic_id=b"ways of requests", partition_states=[state])
    yield Ask("LeaderAndIsr", 7, LeaderAndIsrRequest(controller_epoch=1, topic_states=[led]), "replica")


class Watch:
    """What `sys.setprofile` calls in the broker's thread."""

    def __init__(self) -> None:
        """Notes nothing yet."""
        self._calls: list[CodeType] = []
        self._calls_until_sent = 0
        self._on = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Notes a call of ours, and how many there were at each `send` to a client."""
        if not self._on:
            return
        if event == "call" and PACKAGE in frame.f_code.co_filename:
            self._calls.append(frame.f_code)
        elif event == "c_call" and argument.__name__ in {"send", "sendmsg"}:
            sender = argument.__self__
            if isinstance(sender, socket.SocketType) and sender.family == socket.AF_INET:
                self._calls_until_sent = len(self._calls)

    def of(self, exchange: Callable[[], Response]) -> tuple[list[CodeType], Response]:
        """The calls that an exchange makes, and its answer."""
        time.sleep(QUIET_SECONDS)
        self._calls, self._calls_until_sent = [], 0
        self._on = True
        answer = exchange()
        self._on = False
        return self._calls[: self._calls_until_sent], answer


def measure() -> dict[str, Way]:
    """Every way through the tree that is imported."""
    watch = Watch()
    tries: dict[str, list[Way]] = {}
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        client = threading.Thread(target=_be_a_client, args=(port, watch, tries), daemon=True)
        client.start()
        sets = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
        sys.argv = ["barnabas", "serve", "--data", f"{folder}/data", "--port", str(port), *sets]
        sys.setprofile(watch)
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(sys.stderr):
            barnabas_command()
        sys.setprofile(None)
        client.join()
    return {name: min(ways, key=lambda way: len(way[0])) for name, ways in tries.items()}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _be_a_client(port: int, watch: Watch, tries: dict[str, list[Way]]) -> None:
    try:
        with _connected(port) as connection:
            topic = CreatableTopic(name="ways", num_partitions=1, replication_factor=1)
            _exchange(connection, Ask("", 5, CreateTopicsRequest(topics=[topic], timeout_ms=5_000)))
            # The answer comes before the topic has a leader.
            time.sleep(1)
            for number in range(TRIES):
                _make_requests(asks(number), connection, watch, tries)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def _connected(port: int) -> socket.socket:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=READY_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _make_requests(plan: Asks, connection: socket.socket, watch: Watch, tries: dict[str, list[Way]]) -> None:
    ask = next(plan)
    with contextlib.suppress(StopIteration):
        while True:
            calls, answer = watch.of(lambda: _exchange(connection, ask))  # noqa: B023 - called at once
            if ask.name:
                assert not getattr(answer, "error_code", 0), f"{ask.name}: {answer}"
                tries.setdefault(ask.name, []).append((calls, ask.deciding))
            ask = plan.send(answer)


def _exchange(connection: socket.socket, ask: Ask) -> Response:
    assert ask.request.api is not None
    key = ApiKey(ask.request.api)
    header = RequestHeader(key, ask.version, 1, "ways")
    connection.sendall(materialize(encode_request(header, ask.request)))
    with connection.makefile("rb") as stream:
        size = int.from_bytes(stream.read(4), "big")
        return decode_response(key, ask.version, stream.read(size))[1]


def figures(calls: Sequence[CodeType], folder: str = "") -> Figures:
    """The figures of the calls below a folder of the package."""
    first_calls = dict.fromkeys(code for code in calls if f"{PACKAGE}{folder}" in code.co_filename)
    # A comprehension is part of the function around it.
    functions = [code for code in first_calls if not re.fullmatch(r"<\w*(comp|expr)>", code.co_name)]
    lines = {(code.co_filename, line) for code in functions for line in _lines(code)}
    files = [code.co_filename for code in functions]
    entries = sum(before != file for before, file in zip([None, *files], files, strict=False))
    visited = len(set(files))
    return Figures(visited, len(functions), len(lines), entries, entries - visited)


def _lines(code: CodeType) -> range:
    """The lines of a function's source. A code object knows only where it begins, decorators included."""
    for node in ast.walk(ast.parse(Path(code.co_filename).read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(each.lineno for each in (node, *node.decorator_list))
            if first == code.co_firstlineno:
                return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(code.co_firstlineno, code.co_firstlineno + 1)


def report() -> dict[str, dict[str, Figures]]:
    """The figures of each way and of its decision, by the words of the table."""
    return {
        name: {"all of it": figures(calls), f"decision, `{folder}/`": figures(calls, f"{folder}{os.sep}")}
        for name, (calls, folder) in measure().items()
    }


def table() -> str:
    """The ways through the commit `BEFORE` and through this tree."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        _git("worktree", "add", "--detach", str(tree), BEFORE)
        try:
            before = _measure_tree(tree)
        finally:
            _git("worktree", "remove", "--force", str(tree))
    after = _measure_tree(DOCS.parent)
    lines = [f"| way | part | {' | '.join(Figures._fields)} |", f"|{'---|' * (2 + len(Figures._fields))}"]
    for name, parts in after.items():
        for part, now in parts.items():
            cells = [f"{old} → {new}" for old, new in zip(before[name][part], now, strict=True)]
            lines.append(f"| {name} | {part} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(DOCS.parent), *arguments], check=True, capture_output=True)


def _measure_tree(tree: Path) -> dict[str, dict[str, list[int]]]:
    command = [sys.executable, __file__, "--measure"]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    found: dict[str, dict[str, list[int]]] = json.loads(done.stdout)
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="this tree only, as JSON")
    parser.add_argument("--show", metavar="NAME", help="the functions of one way")
    given = parser.parse_args()
    if given.measure:
        sys.stdout.write(json.dumps(report()))
    elif given.show:
        for code in dict.fromkeys(measure()[given.show][0]):
            file = code.co_filename.split(PACKAGE)[-1]
            sys.stdout.write(f"{file}:{code.co_firstlineno} {code.co_qualname}\n")
    else:
        PAGE.write_text(_TABLE.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", PAGE.read_text()))


if __name__ == "__main__":
    main()
