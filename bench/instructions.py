"""Instructions that a broker takes for a request, counted by valgrind's callgrind.

    python -m bench.instructions [--rows many,one,perf,fetch] [--sides compiled,floor] [--compiled PATH]
        [--quick] [--functions 30]

The mood of the machine changes no count: a difference of one per cent means something, and a run takes
a minute a side. Counted is what the broker's process does outside of the system: not its system calls, and
nothing before the requests or after them. ``--functions`` names those that take most, without what they call.

A program runs fifty times slower under valgrind. A broker that handles one peer's requests for two
milliseconds at most would then end its turns after a few, so `bench/floor/slow_clock.c` holds its clock. The
memory allocator, which valgrind may replace, is Python's own. Needs valgrind and a compiler.
"""

import collections
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench import options, wire
from bench.raw import RawClient
from bench.sides import (
    ONE_RECORD,
    TITLES,
    Trees,
    UnavailableError,
    built,
    installation_of,
    kafka_harness,
    wait_until_serving,
)

WINDOW: Final = 200
PERF_RECORDS: Final = 1_200
"""What kafka-producer-perf-test puts into a batch of 128 KB."""
TOPIC: Final = "instructions"
PLAIN: Final = "-march=x86-64-v3"
"""What valgrind knows of a processor's instructions."""
READY_S: Final = 600.0
FULL, QUICK = 2000, 400
"""Requests that are counted; multiples of the window."""


class Count(NamedTuple):
    """What requests took."""

    requests: int
    instructions: int
    functions: "collections.Counter[str]"
    """Instructions of each function, without those of what it calls."""


def _in_flight(frame: bytes, client: RawClient, requests: int, window: int) -> None:
    """Sends so many equal requests, `window` at once, and then reads their answers, which have one length."""
    answer_size = len(client.ask(frame)) + 4
    for _ in range(requests // window):
        client.socket.sendall(frame * window)
        client.receive(answer_size * window)


def _produce(client: RawClient, requests: int, window: int, records: int = 1) -> None:
    before = client.base_offset_of_one(TOPIC, ONE_RECORD)
    _in_flight(wire.produce(TOPIC, wire.batch(b"x" * 100, records)), client, requests, window)
    after = client.base_offset_of_one(TOPIC, ONE_RECORD)
    # `_in_flight` asks once more than it counts.
    sent, appended = (requests + 1) * records, after - before - 1
    if appended != sent:
        raise RuntimeError(f"{sent} records were sent, {appended} were appended")


def _fetch(client: RawClient, requests: int, window: int) -> None:
    first = client.base_offset_of_one(TOPIC, ONE_RECORD)
    frame = wire.fetch(TOPIC, first, len(ONE_RECORD))
    if len(wire.fetched_records(TOPIC, client.ask(frame))) != len(ONE_RECORD):
        raise RuntimeError("a fetch was not answered with the one batch that it asked for")
    _in_flight(frame, client, requests, window)


@dataclass(frozen=True)
class Row:
    """A kind of request."""

    title: str
    drive: Callable[[RawClient, int], None]
    besides: int
    """Requests that `drive` makes more than it was told."""


ROWS: Final[dict[str, Row]] = {
    "many": Row("one-record produce, acks=1, 200 in flight", partial(_produce, window=WINDOW), 3),
    "one": Row("one-record produce, acks=1, one in flight", partial(_produce, window=1), 3),
    "perf": Row(
        f"produce of a batch of {PERF_RECORDS:,} records of 100 B, acks=1, five in flight",
        partial(_produce, window=5, records=PERF_RECORDS),
        3,
    ),
    "fetch": Row("fetch of one batch of one record, 200 in flight", partial(_fetch, window=WINDOW), 3),
}


class Counted:
    """A broker that valgrind runs."""

    def __init__(self, folder: Path, environment: Sequence[str], program: Sequence[str], port: int) -> None:
        self._results = folder / "callgrind"
        self._held = folder / "held"
        clock = built("slow_clock", "-shared", "-fPIC")
        held = [*environment, f"LD_PRELOAD={clock}", f"SLOW_FROM={self._held}"]
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self._results}"]
        self.server = kafka_harness.Server([*held, *valgrind, *program], port, folder / "broker.log")
        self._dumps = 0

    def count(self, row: Row, requests: int) -> Count:
        """What so many requests take; once before, for what is made at first use."""
        with RawClient(self.server.port) as client:
            row.drive(client, WINDOW)
            self._held.touch()
            self._control("--zero")
            row.drive(client, requests)
            self._control("--dump")
        self._dumps += 1
        return read_dump(Path(f"{self._results}.{self._dumps}"), requests + row.besides)

    def create_topic(self) -> None:
        with RawClient(self.server.port) as client:
            client.create_topic(TOPIC)

    def _control(self, what: str) -> None:
        subprocess.run(["callgrind_control", what, str(self.server.pid)], check=True, capture_output=True)


def read_dump(file: Path, requests: int) -> Count:
    """A dump of callgrind. A function is followed by lines of places and costs; one behind ``calls=`` is the
    cost of what was called, and counts there.
    """
    text, names, functions = file.read_text(), dict[str, str](), collections.Counter[str]()
    function, called = "", False
    for line in text.splitlines():
        if line.startswith(("fn=", "cfn=")):
            kind, _, rest = line.partition("=")
            number, _, name = rest.partition(" ")
            found = names.setdefault(number, name.partition("'")[0])
            function = found if kind == "fn" else function
        elif line.startswith("calls="):
            called = True
        elif line[:1].isdigit() or line[:1] in {"+", "-", "*"}:
            if not called:
                functions[function] += int(line.split()[1])
            called = False
    total = re.search(r"^summary: (\d+)", text, re.MULTILINE)
    assert total is not None, f"{file} has no sum"
    return Count(requests, int(total[1]), functions)


def _start(side: str, folder: Path, trees: Trees) -> Counted:
    port, place = kafka_harness.free_port(), folder / side
    place.mkdir()
    if side == "floor":
        return Counted(place, ["env"], [str(built("floor", PLAIN)), str(port), str(place)], port)
    installed = installation_of(side, trees, folder)
    # A loop that polls for 50 us before it sleeps would poll for ever by the clock that is held.
    awake = "--set=barnabas.busy.poll.us=0"
    serve = ["-m", "barnabas", "serve", "--data", str(place / "data"), "--port", str(port), awake]
    command = installed.command(*serve)
    program_at = command.index(installed.python)
    return Counted(place, command[:program_at], command[program_at:], port)


def counts(
    sides: Sequence[str], rows: Sequence[str], trees: Trees, requests: int
) -> Iterator[tuple[str, str, Count]]:
    """Of each side and row, one after the other."""
    folder = Path(tempfile.mkdtemp(prefix="barnabas-instructions-"))
    try:
        for side in sides:
            counted = _start(side, folder, trees)
            try:
                wait_until_serving(counted.server, READY_S)
                counted.create_topic()
                for row in rows:
                    yield side, row, counted.count(ROWS[row], requests)
            finally:
                counted.server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _table(found: Sequence[tuple[str, str, Count]], sides: Sequence[str]) -> str:
    lines = [f"| row | {' | '.join(TITLES[side] for side in sides)} |", "|---" * (len(sides) + 1) + "|"]
    for row in dict.fromkeys(row for _, row, _ in found):
        counted = {side: count for side, of, count in found if of == row}
        cells = [f"{counted[side].instructions / counted[side].requests:,.0f}" for side in sides]
        lines.append(f"| `{row}`, {ROWS[row].title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _functions(count: Count, most: int) -> str:
    """Those that take most of their own, in instructions a request."""
    lines = []
    for name, cost in count.functions.most_common(most):
        lines.append(f"  {cost / count.requests:8,.0f} {cost / count.instructions:6.1%} {name}")
    return "\n".join(lines)


def main() -> int:
    """Counts, and prints a table; 2 where a side, valgrind or a compiler is missing."""
    parser = options.parser_of(
        "python -m bench.instructions", __doc__.partition("\n")[0], ROWS, "compiled,floor"
    )
    parser.add_argument(
        "--functions", type=int, default=0, metavar="N", help="name the N dearest of each row"
    )
    asked = parser.parse_args()
    rows, sides = list(options.chosen_rows(asked.rows, ROWS)), options.chosen_sides(asked.sides)
    if shutil.which("valgrind") is None:
        print("bench: valgrind is not installed", file=sys.stderr)
        return 2
    found = []
    try:
        for side, row, count in counts(sides, rows, options.trees(asked), QUICK if asked.quick else FULL):
            found.append((side, row, count))
            print(f"{side}, {row}: {count.instructions / count.requests:,.0f}", file=sys.stderr, flush=True)
            if asked.functions:
                print(_functions(count, asked.functions), file=sys.stderr, flush=True)
    except UnavailableError as missing:
        print(f"bench: nothing to count: {missing}", file=sys.stderr)
        return 2
    print(_table(found, sides))
    return 0


if __name__ == "__main__":
    sys.exit(main())
