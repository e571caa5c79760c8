"""A soak: a producer and a group of three, on three brokers that are restarted in turn, for so many minutes.

    python -m bench.soak [--minutes 60] [--roll-every 10] [--rate 600] [--protocol consumer]

Three brokers of ours share a metadata store; the topic has three copies of each partition. Every --roll-every
minutes each broker in turn is ended with SIGTERM, started again, and waited for until every partition has its
three copies again. The end says what was sent, lost and read twice, and for each process its memory and its
lines of log, when the soak had begun (after a tenth of it, at most a minute) and at the end: memory that grew
and lines that keep coming are what an hour shows and a test does not. The command fails where a record is
lost, a delivery failed, or a program did not end well.
"""

import argparse
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple

from barnabas.admin import Admin, NewTopic
from barnabas.core.errors import BarnabasError
from bench.processes import resident_mb
from bench.sides import kafka_harness
from bench.soak.programs import GROUP, PARTITIONS, TOPIC, judged

BROKERS: Final = (1, 2, 3)
MEMBERS: Final = 3
PATIENCE_S: Final = 120
"""For one broker to stop, for copies to be whole, for the group to read all."""
SETTINGS: Final = (
    "offsets.topic.replication.factor=3",
    "offsets.topic.num.partitions=6",
    "min.insync.replicas=2",
    "auto.create.topics.enable=false",
)


class Program:
    """A process with a log of its own; its lines outlive a restart."""

    def __init__(self, name: str, folder: Path, *arguments: str) -> None:
        self.name = name
        self.starts = 0
        self._log = folder / f"{name}.log"
        self._command = [sys.executable, "-m", *arguments]
        self.process: subprocess.Popen[str]

    def start(self) -> None:
        """Starts it, or starts it again."""
        self.starts += 1
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)

    @property
    def output(self) -> IO[str]:
        """What it prints."""
        assert self.process.stdout is not None
        return self.process.stdout

    def stop(self) -> str:
        """SIGTERM; the rest of what it prints. Raises SystemExit where it does not end well."""
        self.process.send_signal(signal.SIGTERM)
        rest, _ = self.process.communicate(timeout=PATIENCE_S)
        if self.process.returncode not in {0, -signal.SIGTERM}:
            raise SystemExit(f"{self.name} ended with exit {self.process.returncode}:\n{self.lines()[-10:]}")
        return rest

    def lines(self) -> list[str]:
        """Its log so far."""
        return self._log.read_text(errors="replace").splitlines()

    def kill(self) -> None:
        """The end of a soak that failed."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.output.close()


class Look(NamedTuple):
    """One process at one moment."""

    memory_mb: float
    lines: int
    starts: int


class Outcome(NamedTuple):
    """What a soak came to."""

    sent: int
    failed: int
    lost: int
    twice: int
    restarts: int
    begun: dict[str, Look]
    ended: dict[str, Look]
    logs: dict[str, list[str]]

    @property
    def holds(self) -> bool:
        """Whether nothing was lost and nothing failed."""
        return self.lost == 0 and self.failed == 0 and self.sent > 0


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for it; raises SystemExit when it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        # Where the broker that was asked is on its way out, the next look tells.
        with contextlib.suppress(BarnabasError):
            if condition():
                return
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {PATIENCE_S} s")
        time.sleep(0.2)


class Soak:
    """Three brokers, a producer and a group of three, in a folder."""

    def __init__(self, folder: Path, rate: float, protocol: str) -> None:
        ports = {number: kafka_harness.free_port() for number in BROKERS}
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        self.brokers = [
            Program(
                f"broker-{number}",
                folder,
                *("barnabas", "serve", "--id", str(number), "--port", str(port)),
                *("--data", str(folder / f"data-{number}"), "--store", str(folder / "store"), *settings),
            )
            for number, port in ports.items()
        ]
        program = "bench.soak.programs"
        self.producer = Program("producer", folder, program, "produce", self.bootstrap, str(rate))
        self.members = [
            Program(f"member-{number}", folder, program, "consume", self.bootstrap, protocol)
            for number in range(1, MEMBERS + 1)
        ]
        self.restarts = 0

    @property
    def programs(self) -> list[Program]:
        return [*self.brokers, self.producer, *self.members]

    @contextlib.contextmanager
    def running(self) -> Iterator[Admin]:
        """Brokers that are ready, with the topic, the producer and a group that reads."""
        try:
            for broker in self.brokers:
                self._start(broker)
            with Admin(self.bootstrap) as admin:
                until(lambda: len(admin.cluster.describe().brokers) == len(BROKERS), "three brokers")
                admin.topics.create(NewTopic(TOPIC, PARTITIONS, len(BROKERS)))
                for client in (self.producer, *self.members):
                    client.start()
                until(lambda: self._members(admin) == MEMBERS, "a group of three")
                yield admin
        finally:
            for program in self.programs:
                if program.starts:
                    program.kill()

    @staticmethod
    def _start(broker: Program) -> None:
        broker.start()
        line = broker.output.readline()
        if not line.startswith("ready"):
            raise SystemExit(f"{broker.name} did not start:\n{broker.lines()[-10:]}")

    @staticmethod
    def _members(admin: Admin) -> int:
        group = admin.groups.describe([GROUP])[GROUP]
        return sum(bool(member.assignment) for member in group.members)

    def roll(self, admin: Admin) -> None:
        """Restarts each broker in turn, the next when every partition has all its copies."""
        for broker in self.brokers:
            broker.stop()
            self._start(broker)
            self.restarts += 1
            until(lambda: _is_whole(admin), f"all copies after the restart of {broker.name}")

    def look(self) -> dict[str, Look]:
        """Every process now."""
        return {
            one.name: Look(resident_mb(one.process.pid), len(one.lines()), one.starts)
            for one in self.programs
        }

    def end(self, admin: Admin, begun: dict[str, Look]) -> Outcome:
        """Ends the producer, has the group read all, ends the members; judges what they have read."""
        ended = self.look()
        produced = json.loads(self.producer.stop())
        sent = dict(enumerate(produced["sent"]))
        until(lambda: _committed(admin) == sent, "the group has read all")
        read = [json.loads(member.stop())["runs"] for member in self.members]
        by_number = [{int(partition): runs for partition, runs in one.items()} for one in read]
        lost, twice = judged(sent, by_number)
        logs = {one.name: one.lines() for one in self.programs}
        return Outcome(sum(sent.values()), produced["failed"], lost, twice, self.restarts, begun, ended, logs)


def _is_whole(admin: Admin) -> bool:
    topics = admin.topics.describe([one.name for one in admin.topics.list(internal=True)])
    return all(len(one.isr) == len(BROKERS) for topic in topics.values() for one in topic.partitions)


def _committed(admin: Admin) -> Mapping[int, int]:
    return {tp.partition: one.offset for tp, one in admin.groups.offsets([GROUP])[GROUP].items()}


def soak(folder: Path, *, seconds: float, roll_every_s: float, rate: float, protocol: str) -> Outcome:
    """Runs it; there is at least one rolling restart."""
    run = Soak(folder, rate, protocol)
    with run.running() as admin:
        began = time.monotonic()
        time.sleep(min(60.0, seconds / 10))
        begun = run.look()
        next_roll = began + min(roll_every_s, seconds / 2)
        while (left := began + seconds - time.monotonic()) > 0 or not run.restarts:
            if time.monotonic() >= next_roll:
                run.roll(admin)
                next_roll = time.monotonic() + roll_every_s
            else:
                time.sleep(max(0.0, min(left, next_roll - time.monotonic())))
        return run.end(admin, begun)


def report(outcome: Outcome) -> Iterator[str]:
    """The lines that the command prints."""
    yield f"| {outcome.sent:,} records sent | failed | lost | read twice | restarts of a broker |"
    yield "|---|---|---|---|---|"
    yield f"| | {outcome.failed} | {outcome.lost} | {outcome.twice} | {outcome.restarts} |"
    yield ""
    yield "| process | starts | memory, begun | at the end | lines of log, begun | at the end |"
    yield "|---|---|---|---|---|---|"
    for name, then in outcome.begun.items():
        now = outcome.ended[name]
        memory = f"{then.memory_mb:.1f} MB | {now.memory_mb:.1f} MB"
        yield f"| {name} | {now.starts} | {memory} | {then.lines} | {now.lines} |"
    for name, lines in outcome.logs.items():
        if lines:
            yield f"\nlast of {name}:"
            yield from (f"  {line}" for line in lines[-5:])


def main() -> None:
    """Runs it and prints what it came to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--roll-every", type=float, default=10, help="minutes between two rolling restarts")
    parser.add_argument("--rate", type=float, default=600, help="records a second")
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="barnabas-soak-"))
    try:
        outcome = soak(
            folder,
            seconds=given.minutes * 60,
            roll_every_s=given.roll_every * 60,
            rate=given.rate,
            protocol=given.protocol,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(report(outcome)))
    raise SystemExit(not outcome.holds)


if __name__ == "__main__":
    main()
