"""How many small requests a second machines of brokers take beside each other, and Apache Kafka beside them.

python -m bench.machine_rate [--brokers 1,2] [--rounds 9] [--seconds 1] [--compiled PATH] [--without-kafka]

The client in C (bench/floor/client.c) keeps 25 requests in flight on each of eight connections, spread over
the brokers by leader. All run at once, one is driven at a time, in an order that is turned every round; a
ratio is taken within a round. The client runs on the same cores: where a request takes b seconds of a broker
and c of the client, n cores bear n / (b + c) requests a second, and one broker 1 / b. The last two columns
have how many cores' time brokers and client have got together, and what the measured costs would allow. Where
fewer cores are used than there are, something else had them, or nobody had anything to do.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.admin import Admin
from barnabas.core.processors import cores
from bench.machine import Driven, create_load_topics, drive, machine
from bench.mood import mood_meter
from bench.rounds import in_order
from bench.sides import CHECKOUT, Installation, Trees, UnavailableError, running_sides

KAFKA: Final = "Apache Kafka 3.9.2"
WARM_S: Final = 20
"""A JVM is three times slower cold than warm."""


class Driveable(NamedTuple):
    """What takes requests."""

    ports: Sequence[int]
    used_s: Callable[[], float]


class Turn(NamedTuple):
    """What one of them did in a round."""

    requests_per_s: float
    broker_us: float
    """Processor time of all brokers for a request."""
    client_us: float


def turn_of(one: Driveable, seconds: float) -> Turn:
    drive(one.ports, seconds / 10)  # it has stood still while the others were driven
    before = one.used_s()
    driven: Driven = drive(one.ports, seconds)
    used = one.used_s() - before
    return Turn(driven.requests_per_s, used / driven.requests * 1e6, driven.client_s / driven.requests * 1e6)


@contextlib.contextmanager
def started(asked: argparse.Namespace) -> Iterator[dict[str, Driveable]]:
    """All of them, by name."""
    installation = Installation.at(asked.compiled)
    found: dict[str, Driveable] = {}
    with contextlib.ExitStack() as stack:
        for brokers in map(int, asked.brokers.split(",")):
            one = stack.enter_context(machine(brokers, installation))
            found[f"{brokers} of ours"] = Driveable(one.ports, one.used_s)
        if not asked.without_kafka:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (side,) = stack.enter_context(running_sides(folder / "kafka", ["kafka"], Trees()))
            found[KAFKA] = Driveable([side.running.port], lambda: side.processor_time().total_s)
        for each in found.values():
            with Admin(f"127.0.0.1:{each.ports[0]}") as admin:
                create_load_topics(admin, each.ports)
        yield found


def table(rounds: Sequence[dict[str, Turn]]) -> list[str]:
    """Medians, and what two figures within each round have to each other."""
    first = next(iter(rounds[0]))
    lines = [
        "| | requests/s | to the first | brokers, a request | client, a request | cores | at most |",
        "|---" * 7 + "|",
    ]
    for name in rounds[0]:
        turns = [each[name] for each in rounds]
        rate, broker_us, client_us = (statistics.median(column) for column in zip(*turns, strict=True))
        ratio = statistics.median(each[name].requests_per_s / each[first].requests_per_s for each in rounds)
        used = statistics.median(each.requests_per_s * (each.broker_us + each.client_us) for each in turns)
        brokers = 0 if name == KAFKA else int(name.partition(" ")[0])
        # Of our brokers each has one core at most.
        bound = min([cores() / (broker_us + client_us), *([brokers / broker_us] if brokers else [])]) * 1e6
        costs = f"{broker_us:.2f} us | {client_us:.2f} us"
        lines.append(f"| {name} | {rate:,.0f} | {ratio:.2f}x | {costs} | {used / 1e6:.2f} | {bound:,.0f} |")
    return lines


def main() -> int:
    """Prints the table; 2 where Kafka is not to be had."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.machine_rate", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--brokers", default="1,2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--compiled", type=Path, default=CHECKOUT, metavar="PATH", help="another tree")
    asked = parser.parse_args()
    print(f"Barnabas, {Installation.at(asked.compiled).form}; {cores()} cores")
    try:
        with mood_meter() as meter, started(asked) as found:
            if KAFKA in found:
                drive(found[KAFKA].ports, WARM_S)
            moods, rounds = [meter.look()], []
            for number in range(asked.rounds):
                turns = {name: turn_of(found[name], asked.seconds) for name in in_order([*found], number)}
                rounds.append({name: turns[name] for name in found})
                moods.append(meter.look())
    except UnavailableError as missing:
        print(f"bench: {missing} (--without-kafka leaves it out)", file=sys.stderr)
        return 2
    print("\n".join(table(rounds)))
    fast = sum(each.fast for each in moods)
    print(f"The machine: {moods[0]} to {moods[-1]}; {fast} of {len(moods)} looks fast.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
