"""Kills under load on two machines of two brokers each: single brokers, a parent, a machine, its disks.

    python tests/chaos/machine_kills.py --kills 100 --seed 1 [--java] [--keep FOLDER]

Two parents (``barnabas serve --brokers 2``), each with a rack and a shared address of its own, on one
embedded store. Every partition has a copy on each machine. Clients know the two shared addresses alone, and
produce with acks=all all the time; see `kill_load` for what they remember. `--java` adds Java's producer,
whose printed lines are the memory of another program.

Most strikes kill one broker with -9, or the two that copy each other, at a moment that the seed chooses:
while it carries load, after it hung beyond its session, and again while its parent brings it back. Every
tenth strike is of a whole machine: the parent and all of its brokers in one moment; or the parent alone,
whose brokers then end by themselves; or the machine and then its disks, which come back empty. In the end
everything that was acknowledged is there, and the copies are the same.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "jvm"))

import rounds_report
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from copies import differences
from kill_load import PARTITIONS, Commits, Reader, Stream
from sequences import disorder

from machine_parent import MachineParent
from serving import PATIENCE, free_port, free_ports
from waiting import until

SESSION_MS = 2000
LIMIT_S = 90 * PATIENCE
MACHINE_EVERY = 10
"""So often the strike is of a whole machine."""
JAVA_RATE = 400
PLACES = {"once": [[1, 3], [4, 2]], "often": [[2, 4], [3, 1]], "java": [[1, 4], [3, 2]]}
"""The replicas of each partition, first the leader that it should have: each broker leads some, and no two
are on one machine.
"""
SETTINGS = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 2,
    "log.segment.bytes": 65536,
    "replica.fetch.backoff.ms": 100,
    "replica.lag.time.max.ms": 3000,
    "leader.imbalance.check.interval.seconds": 2,
    "leader.imbalance.per.broker.percentage": 0,
    "controlled.shutdown.retry.backoff.ms": 100,
}
OF_A_BROKER = {"load": 6, "pair": 2, "hang": 1}
OF_A_MACHINE = {"machine": 3, "disks": 1, "parent": 1}
_LINES_LEFT = 1500


class Machine:
    """One parent and its two brokers, over all lives of them."""

    def __init__(self, folder, first_id, store):
        self.folder = folder
        self.ids = (first_id, first_id + 1)
        self.shared = free_port()
        first_port = free_ports(2)
        self.addresses = {each: f"127.0.0.1:{first_port + place}" for place, each in enumerate(self.ids)}
        settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        self._options = [
            *("--brokers", "2", "--id", str(first_id), "--port", str(first_port)),
            *("--bootstrap", str(self.shared), "--rack", folder.name, "--store", str(store)),
            *settings,
        ]
        self._parent = None

    def start(self):
        """Returns when both brokers are ready."""
        self._parent = MachineParent(self.folder, *self._options).wait_until_ready()

    @property
    def errors(self):
        return Path(f"{self.folder}.log")

    @property
    def is_up(self):
        return self._parent is not None and self._parent.process.poll() is None

    def pid(self, broker):
        """The process of a broker, once it has one."""
        return until(lambda: self._parent.children().get(broker), f"broker {broker} has a process", LIMIT_S)

    def kill(self):
        """The parent and its brokers, in one moment: nobody is left to start or to end another."""
        if not self.is_up:
            return
        # One that is stopped forks none meanwhile.
        os.kill(self._parent.process.pid, signal.SIGSTOP)
        pids = list(self._parent.children().values())
        for pid in (self._parent.process.pid, *pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._parent.end()
        _until_gone(pids)

    def kill_parent(self):
        """The parent alone; returns when its brokers have ended by themselves."""
        pids = list(self._parent.children().values())
        self._parent.end(signal.SIGKILL)
        _until_gone(pids)

    def stop(self):
        """In order; the exit code."""
        return self._parent.end()


def _until_gone(pids):
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the brokers end", LIMIT_S)


class TwoMachines:
    """Both machines and their load, through all strikes."""

    def __init__(self, folder, seed, *, java=False):
        self._rng = random.Random(seed)
        self._folder = folder
        store = folder / "store"
        store.mkdir()
        self._machines = [Machine(folder / "east", 1, store), Machine(folder / "west", 3, store)]
        self._bootstrap = ",".join(f"127.0.0.1:{each.shared}" for each in self._machines)
        self._topics = [name for name in PLACES if java or name != "java"]
        self._streams = []
        self._commits = self._reader = self._admin = None
        self.kills = Counter()
        self.acknowledged = {}
        """How many records of each topic were, in the end."""
        self.problems = []

    def run(self, kills, on_strike=lambda _: None):
        """Until so many single brokers were killed; then everything that was acknowledged is looked for."""
        strikes = 0
        try:
            for each in self._machines:
                each.start()
            self._begin_load()
            while self.kills["broker"] < kills or not self.kills["whole"]:
                strikes += 1
                whole = strikes % MACHINE_EVERY == 0 or self.kills["broker"] >= kills
                on_strike(self._strike(OF_A_MACHINE if whole else OF_A_BROKER))
            self._end()
        except AssertionError as error:
            self.problems.append(f"after {strikes} strikes: {str(error)[:_LINES_LEFT]}")
        finally:
            self.acknowledged = self._counts()
            for each in self._streams:
                getattr(each, "close", lambda: None)()
            for each in self._machines:
                each.kill()
        return self

    def _counts(self):
        return {each.topic: each.count for each in self._streams}

    def _begin_load(self):
        self._admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        topics = [
            # Where two copies are asked for, one machine alone takes nothing.
            NewTopic(name, PARTITIONS, replica_assignment=PLACES[name], config=_in_sync_at_least(name))
            for name in self._topics
        ]
        for each in self._admin.create_topics(topics).values():
            each.result(LIMIT_S)
        self._streams = [
            Stream(self._bootstrap, each, idempotent=each == "once", rate=300) for each in ("once", "often")
        ]
        if "java" in self._topics:
            from java_stream import JavaStream

            self._streams.append(JavaStream(self._folder, self._bootstrap, JAVA_RATE, {"batch.size": 500}))
        self._commits = Commits(self._bootstrap, "once")
        self._reader = Reader(self._bootstrap)

    # --- strikes ------------------------------------------------------------------------------------------

    def _strike(self, kinds):
        """One strike, and what was struck runs again; which it was."""
        kind = self._rng.choices(list(kinds), kinds.values())[0]
        if kind == "disks" or self._rng.random() < 0.5:
            # Else what is behind from the strike before may be all that a partition has.
            self._until_in_sync()
        self._until_moving()
        time.sleep(self._rng.uniform(0, 0.2))
        getattr(self, f"_strike_{kind}")()
        for machine in self._machines:
            assert machine.is_up, f"a parent gave up: {machine.errors.read_text()[-_LINES_LEFT:]}"
        return kind

    def _strike_load(self):
        self._kill_and_bring_back(self._rng.choice(self._brokers()))

    def _strike_pair(self):
        """Two that copy each other: what they have in common has no leader until one is back."""
        first, second = self._rng.choice(PLACES["once"] + PLACES["often"])
        self._kill(first)
        self._kill(second)
        for each in (first, second):
            self._until_ready(each)

    def _strike_hang(self):
        """Its session ends while it stands still, and it is killed when it finds that out."""
        broker = self._rng.choice(self._brokers())
        pid = self._machine_of(broker).pid(broker)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(SESSION_MS / 1000 * self._rng.uniform(0.9, 1.5))
        os.kill(pid, signal.SIGCONT)
        time.sleep(self._rng.uniform(0, 0.3))
        self._kill_and_bring_back(broker)

    def _strike_machine(self):
        machine = self._rng.choice(self._machines)
        machine.kill()
        self.kills["whole"] += 1
        time.sleep(self._rng.choice([0, 0, 0.5, 1.5 * SESSION_MS / 1000]))
        self._start(machine)

    def _strike_parent(self):
        machine = self._rng.choice(self._machines)
        machine.kill_parent()
        self.kills["parent"] += 1
        self._start(machine)

    def _strike_disks(self):
        """A machine that never comes back as it was: its ids return with empty disks."""
        lost, left = self._rng.sample(self._machines, 2)
        lost.kill()
        self.kills["whole"] += 1
        self.kills["disks"] += 1
        # The copies that are left are the ISR: an empty one must not lead.
        self._until_isr(lambda isr, _: set(isr) <= set(left.ids), "the lost copies leave the ISR")
        shutil.rmtree(lost.folder)
        self._start(lost)

    def _kill_and_bring_back(self, broker):
        """Kills it; and at times once or twice more while its parent starts it again."""
        self._kill(broker)
        # A parent gives up after five starts that failed, so there are never so many.
        for _ in range(self._rng.choice([0, 0, 1, 2])):
            self._machine_of(broker).pid(broker)
            time.sleep(self._rng.uniform(0, 0.5))
            self._kill(broker)
        self._until_ready(broker)

    def _kill(self, broker):
        pid = self._machine_of(broker).pid(broker)
        os.kill(pid, signal.SIGKILL)
        _until_gone([pid])
        self.kills["broker"] += 1

    def _start(self, machine):
        machine.start()
        for each in machine.ids:
            self._until_ready(each)

    def _brokers(self):
        return [each for machine in self._machines for each in machine.ids]

    def _machine_of(self, broker):
        return next(each for each in self._machines if broker in each.ids)

    # --- what has to hold ---------------------------------------------------------------------------------

    def _until_ready(self, broker):
        """It answers metadata, which it does to nobody before it knows its cluster."""
        address = self._machine_of(broker).addresses[broker]

        def answers():
            try:
                AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=2)
            except KafkaException:
                return False
            return True

        until(answers, f"broker {broker} is back", LIMIT_S)

    def _until_moving(self):
        before = [each.count for each in self._streams]
        until(
            lambda: all(each.count > count for each, count in zip(self._streams, before, strict=True)),
            lambda: f"records are taken: {before} before, {self._counts()} now",
            LIMIT_S,
        )

    def _until_in_sync(self):
        self._until_isr(lambda isr, replicas: len(isr) == len(replicas), "all copies are in sync")

    def _until_isr(self, is_good, what):
        def bad():
            try:
                topics = self._admin.list_topics(timeout=5).topics.values()
            except KafkaException as error:
                return [str(error)]
            return [
                f"{topic.topic}-{number}: leader {part.leader}, in sync {part.isrs}"
                for topic in topics
                for number, part in topic.partitions.items()
                if not is_good(part.isrs, part.replicas)
            ]

        until(lambda: not bad(), lambda: f"{what}: {bad()}", LIMIT_S)

    def _end(self):
        self._until_in_sync()
        self._until_moving()
        for each in self._streams:
            each.end()
        for each in self._streams:
            self.problems += each.check(self._reader.read(each.topic))
        self.problems += self._commits.check(self._reader.consumer)
        self._commits.end()
        self._reader.close()
        self._until_in_sync()
        for machine in reversed(self._machines):
            if code := machine.stop():
                self.problems.append(f"{machine.folder.name} ended with {code} on SIGTERM")
            text = machine.errors.read_text()
            if "Traceback" in text:
                self.problems.append(text[text.index("Traceback") :][:_LINES_LEFT])
        folders = {each: [machine.folder / str(each)] for machine in self._machines for each in machine.ids}
        self.problems += differences(folders, {"__consumer_offsets"})
        for each in folders.values():
            for partition in each[0].glob("once-*"):
                self.problems += disorder(partition)


def _in_sync_at_least(topic):
    return {"min.insync.replicas": "1" if topic == "often" else "2"}


def run_strikes(seed, kills, *, folder=None, java=False, **options):
    """On new machines; what came of it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        place = Path(folder or temporary)
        place.mkdir(parents=True, exist_ok=True)
        return TwoMachines(place, seed, java=java).run(kills, **options)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100, help="of single brokers; machines come on top")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--java", action="store_true", help="with Java's producer as a third")
    parser.add_argument("--keep", type=Path, help="a folder that stays")
    given = parser.parse_args()
    began = time.monotonic()
    done = None

    def report(kind):
        rounds_report.say(f"{time.monotonic() - began:7.1f} s  {kind}")

    done = run_strikes(given.seed, given.kills, folder=given.keep, java=given.java, on_strike=report)
    figures = {"kills": done.kills, "acknowledged": done.acknowledged, "problems": done.problems}
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return bool(done.problems)


if __name__ == "__main__":
    sys.exit(main())
