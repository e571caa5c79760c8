"""Groups on Apache Kafka 3.9 and on Barnabas: the first record, a crowd of heartbeats, a big rebalance.

python -m bench.groups [--quick] [--rows first,rebalance,crowd] [--sides kafka,pure,compiled] [--compiled
PATH]
"""

import argparse
import contextlib
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer

from bench import members, options, report
from bench.figures import Measure
from bench.mood import mood_meter
from bench.raw import produce_p99_ms
from bench.rounds import FULL, QUICK, Effort, Row, Turn
from bench.sides import DELETE_SOON, ONE_RECORD, Side, UnavailableError, running_sides

GROUPS, GROUP_SIZE, CONNECTIONS, PERIOD_S = 5000, 4, 2000, 3.0
BIG_GROUP = 500
WARM_GROUPS = 30
_numbers = itertools.count(1)

# --- an empty group to its first record -------------------------------------------------------------------


@contextlib.contextmanager
def _first_record(side: Side, effort: Effort) -> Iterator[Turn]:
    """From the making of a librdkafka consumer to its first record, in a group that never was: ms."""
    del effort

    def turn() -> Sequence[float]:
        config = {"group.id": f"first-{next(_numbers)}", "auto.offset.reset": "earliest"}
        started = time.perf_counter()
        consumer = Consumer({"bootstrap.servers": side.running.bootstrap, **config})
        try:
            consumer.subscribe(["first"])
            message = consumer.poll(30)
            if message is None or message.error():
                raise RuntimeError(f"{side.name} gave no record: {message and message.error()}")
            return [(time.perf_counter() - started) * 1000]
        finally:
            consumer.close()

    for _ in range(WARM_GROUPS if side.compiles_as_it_runs else 1):
        turn()
    yield turn


# --- a crowd of heartbeats --------------------------------------------------------------------------------


def _produce_p99_ms(side: Side, seconds: float) -> float:
    until = time.perf_counter() + seconds
    with side.connect() as client:
        return produce_p99_ms(client, ONE_RECORD, lambda: time.perf_counter() > until)


@contextlib.contextmanager
def _beating(side: Side, seconds: float) -> Iterator[None]:
    """The members in a process of their own; the body runs while they beat."""
    command = [sys.executable, "-m", "bench.groups", "--crowd", f"{side.running.port}:{seconds}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    try:
        if child.stdout.readline().strip() != "beating":
            raise RuntimeError("the crowd could not form its groups")
        yield
        print(f"  {side.name}: {child.stdout.readline().strip()}", file=sys.stderr, flush=True)
    finally:
        child.kill()
        child.wait()


@contextlib.contextmanager
def _crowd(side: Side, effort: Effort) -> Iterator[Turn]:
    """Processor time of the broker under heartbeats alone in % of a core, of it in the system, and how many
    times longer the p99 of a produce is beside them than alone.
    """
    seconds = effort.crowd_seconds

    def turn() -> Sequence[float]:
        alone = _produce_p99_ms(side, seconds / 2)
        with _beating(side, 2 * seconds + 1):
            before = side.processor_time()
            time.sleep(seconds)
            after = side.processor_time()
            beside = _produce_p99_ms(side, seconds)
        cores = [(end - start) / seconds * 100 for start, end in zip(before, after, strict=True)]
        return [*cores, alone, beside, beside / alone]

    _produce_p99_ms(side, 3)
    yield turn


def run_crowd(port: int, seconds: float) -> None:
    """What the child process does."""
    groups = [f"crowd-{number}" for number in range(GROUPS)]
    members.wait_for_coordinator(port, [f"warm-{number}" for number in range(200)])
    connections = members.connect(port, CONNECTIONS)
    everybody = [
        members.Member(group, connections[(number * GROUP_SIZE + place) % CONNECTIONS])
        for number, group in enumerate(groups)
        for place in range(GROUP_SIZE)
    ]
    members.form(everybody)
    print("beating", flush=True)
    sent, lost = members.beat(everybody, PERIOD_S, seconds)
    members.leave(everybody)  # the next round forms the same groups
    print(f"{sent / seconds:.0f} heartbeats a second, {lost:.1f} s lost", flush=True)


# --- a big rebalance --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _rebalance(side: Side, effort: Effort) -> Iterator[Turn]:
    """From the newcomer's JoinGroup until all 501 have their assignment: seconds."""
    del effort

    def turn() -> Sequence[float]:
        group = f"big-{next(_numbers)}"
        members.wait_for_coordinator(side.running.port, [group])
        connections = members.connect(side.running.port, BIG_GROUP + 1)
        try:
            everybody = [members.Member(group, connection) for connection in connections]
            members.form(everybody[:-1])
            return [members.rejoin(everybody[:-1], everybody[-1])]
        finally:
            for connection in connections:
                connection.close()

    yield turn


# --- the table --------------------------------------------------------------------------------------------

ROWS: Final[dict[str, Row]] = {
    "first": Row(
        "librdkafka: an empty group to its first record, initial delay 0",
        [Measure("time", "ms", 1.0)],
        _first_record,
    ),
    "rebalance": Row(
        f"a newcomer to a group of {BIG_GROUP}",
        [Measure("JoinGroup until all have their assignment", "s", 1.0, is_ratio=False)],
        _rebalance,
        "long",
    ),
    "crowd": Row(
        f"{GROUPS * GROUP_SIZE:,} members in {GROUPS:,} groups over {CONNECTIONS:,} connections,"
        f" a heartbeat each {PERIOD_S:.0f} s",
        [
            Measure("broker processor time, of one core", "%", 35, is_ratio=False),
            Measure("of it in the system", "%"),
            Measure("p99 of a produce alone", "ms"),
            Measure("p99 of a produce beside them", "ms"),
            Measure("p99 beside them to p99 alone", "times", 2, is_ratio=False),
        ],
        _crowd,
        "longest",
    ),
}


def arguments() -> argparse.Namespace:
    """The command line."""
    summary = __doc__.partition("\n")[0]
    parser = options.parser_of("python -m bench.groups", summary, ROWS, "kafka,pure,compiled")
    parser.add_argument("--crowd", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Runs the rows, each on brokers that suit it; 0 when every budget is met."""
    asked = arguments()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    if asked.crowd:
        port, _, seconds = asked.crowd.partition(":")
        run_crowd(int(port), float(seconds))
        return 0
    rows, sides = options.chosen_rows(asked.rows, ROWS), options.chosen_sides(asked.sides)
    met = True
    with mood_meter() as meter:
        for name, row in rows.items():
            # The members of a row that forms groups at once must find each other: a delay as in production.
            delay = {**DELETE_SOON, "group.initial.rebalance.delay.ms": 0 if name == "first" else 3000}
            folder = Path(tempfile.mkdtemp(prefix="barnabas-bench-"))
            try:
                with running_sides(folder, sides, options.trees(asked), delay) as running:
                    found = report.compare({name: row}, running, QUICK if asked.quick else FULL, meter)
            except UnavailableError as missing:
                print(f"bench: nothing to compare with: {missing}", file=sys.stderr)
                return 2
            print(report.table(found), end="\n\n", flush=True)
            met = met and found.all_met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
