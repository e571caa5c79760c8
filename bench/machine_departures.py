"""What the end of a broker costs a machine of N brokers: seconds until all is as before, and processor time.

python -m bench.machine_departures [--brokers 1,2,4,8,16] [--partitions 1000] [--rounds 3] [--compiled PATH]

The broker that is the controller is killed; then another is told to end. The parent starts either again after
half a second. Partitions have two replicas where there are two brokers, and are led by those that should lead
them before each round. All is as before when each partition has all its replicas in sync. Processor time is
that of the parent and all brokers, from the signal on; the one that ended is in it with what it used since.
"""

import argparse
import os
import signal
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.admin import Admin, NewTopic
from barnabas.core.errors import BarnabasError
from bench.machine import Machine, machine
from bench.mood import mood_meter
from bench.sides import CHECKOUT, Installation

TOPIC: Final = "many"
SETTLE_S: Final = 3
LOOK_S: Final = 0.1
LONG_S: Final = 120.0
_numbers = count(1)


class Departure(NamedTuple):
    """Of one broker."""

    made_s: float
    """Until a topic can be made."""
    led_s: float
    """Until each partition has a leader that lives."""
    whole_s: float
    """Until all replicas are in sync again."""
    used_s: float
    """Processor time."""


def departure(one: Machine, *, of_controller: bool, by: signal.Signals) -> Departure:
    """Has a broker end, and waits until all is as before."""
    with Admin(one.address) as admin:
        with suppress(BarnabasError):  # all are led by those that should
            admin.partitions.elect_leaders()
        described = admin.cluster.describe()
    assert described.controller is not None, "it serves"
    controller = described.controller.node_id
    brokers = {each.node_id: each.port for each in described.brokers}
    gone = controller if of_controller else next((each for each in brokers if each != controller), controller)
    # Asked are those that stay, if there are any.
    port = next((port for broker, port in brokers.items() if broker != gone), brokers[gone])
    pid = one.pid_of(gone)
    assert pid is not None, "it answered"
    time.sleep(SETTLE_S)
    before, since = one.used_s(), time.monotonic()
    os.kill(pid, by)
    name = f"after-{next(_numbers)}"

    def made(admin: Admin) -> bool:
        admin.topics.create(NewTopic(name, 1, 1))
        return True

    def led(admin: Admin, *, whole: bool) -> bool:
        partitions = admin.topics.describe([TOPIC])[TOPIC].partitions
        back = one.pid_of(gone) not in {None, pid}
        living = brokers.keys() - (set() if back else {gone})
        if whole:
            return back and all(len(each.isr) == len(each.replicas) for each in partitions)
        return all(each.leader in living for each in partitions)

    steps = [made, partial(led, whole=False), partial(led, whole=True)]
    seconds = [_until(_address(port), each) - since for each in steps]
    return Departure(*seconds, one.used_s() - before)


def _until(address: str, done: Callable[[Admin], bool]) -> float:
    """When it was done; asks a new client after each failure, since the old one may wait for who is gone."""
    end = time.monotonic() + LONG_S
    while time.monotonic() < end:
        with (
            suppress(BarnabasError),
            Admin(address, default_api_timeout_ms=10_000, request_timeout_ms=5_000) as admin,
        ):
            while not done(admin):
                time.sleep(LOOK_S)
            return time.monotonic()
        time.sleep(LOOK_S)
    raise RuntimeError("the machine is not as it was before")


def _address(port: int) -> str:
    return f"127.0.0.1:{port}"


def row(brokers: int, asked: argparse.Namespace, installation: Installation) -> str:
    """Medians of a machine, as a line of the table."""
    with machine(brokers, installation) as one:
        with Admin(one.address) as admin:
            admin.topics.create(NewTopic(TOPIC, asked.partitions, min(brokers, 2)))
        time.sleep(SETTLE_S)
        cells = [str(brokers)]
        for of_controller, by in ((True, signal.SIGKILL), (False, signal.SIGTERM)):
            found = [departure(one, of_controller=of_controller, by=by) for _ in range(asked.rounds)]
            made, led, whole, used = (statistics.median(column) for column in zip(*found, strict=True))
            cells += [f"{made:.2f} s", f"{led:.2f} s", f"{whole:.2f} s", f"{used:.2f} s"]
        return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.machine_departures", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--brokers", default="1,2,4,8,16")
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiled", type=Path, default=CHECKOUT, metavar="PATH", help="another tree")
    asked = parser.parse_args()
    installation = Installation.at(asked.compiled)
    print(f"Barnabas, {installation.form}")
    columns = ["a topic is made", "all led", "in sync", "processor"]
    heads = [f"{who}: {each}" for who in ("controller killed", "another ends") for each in columns]
    print(f"| brokers | {' | '.join(heads)} |")
    print("|---" * 9 + "|")
    with mood_meter() as meter:
        before = meter.look()
        for brokers in map(int, asked.brokers.split(",")):
            print(row(brokers, asked, installation), flush=True)
        print(f"The machine: {before} to {meter.look()}.")


if __name__ == "__main__":
    main()
