"""Kills at any moment: kill -9 of real brokers while they start, lose their session, carry load, roll and
stop.

    python tests/chaos/kills.py --kills 1000 --seed 1 [--brokers 1, 2 or 3] [--compacted] [--moves] [--lanes
    2] [--keep FOLDER]

A round is a new cluster of one broker, of two on a shared store with a partition of each topic on each, or of
three that copy all partitions from each other. With `--compacted`, the log cleaner never rests: there is a
compacted topic too, and brokers are also killed while they clean. With `--moves`, each broker has two log
directories, partitions move between them all the time, and brokers are also killed at some step of a move.
The load never pauses: an idempotent producer, a plain one with acks=all, and a committer. Brokers are killed
at a moment that the seed chooses: while one carries load, at a new segment, during its clean stop, or after
it hung beyond its session; and then several times more while it starts. After that it has to come up, and
hold all that was ever acknowledged; see `kill_load`. In the end the copies of a partition are the same; see
`copies`. The seed decides every choice. The machine's timing is not in its hands, so a failure may take
several tries to come back.
"""

import argparse
import json
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import rounds_report
from confluent_kafka.admin import AdminClient, NewTopic
from copies import differences, partition_directories
from kill_load import PARTITIONS, Commits, KeyedStream, Reader, Stream
from moments import NAMES, NEW_FILES, NEW_NAMES, Moments
from mover import Mover
from sequences import disorder

from barnabas.node.offload import end_with_the_parent
from serving import ServeProcess, free_port

SESSION_MS = 1500
LIMIT_S = 60
SETTINGS = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "log.segment.bytes": 8192,
    "log.index.size.max.bytes": 1024,
    "log.retention.ms": -1,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 8192,
    "offsets.topic.replication.factor": 1,
    "log.flush.offset.checkpoint.interval.ms": 1000,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "controlled.shutdown.retry.backoff.ms": 100,
    "log.initial.task.delay.ms": 100,
    "log.cleaner.backoff.ms": 200,
}
CLEANED_ALL_THE_TIME = {
    "log.initial.task.delay.ms": 0,
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.segment.delete.delay.ms": 0,
}
COMPACTED = {"__consumer_offsets", "latest"}
WHILE_IT_RUNS = {"load": 5, "roll": 5, "stop": 5, "session": 1}
"""How often each moment is chosen."""
KILLS_A_ROUND = 40
REPLICAS = {1: 1, 2: 1, 3: 3}
"""By the number of brokers."""
_ORPHAN = re.compile(
    r'Traceback .*\n  File "<string>", line 1, in <module>\n  File .* in spawn_main\n(?:  .*\n)*(?!  ).*\n'
)
"""What a child says that was starting when its broker was killed."""
_EVENT = re.compile(r"^\S+ \S+ (WARNING|ERROR) (\S+) (\S+)", re.MULTILINE)


class Victim:
    """One broker: its folder, its process, and what its log says."""

    def __init__(self, number, folder, port, options, *, moves=False):
        self.number = number
        self.folder = folder / f"data-{number}"
        self.folder.mkdir()
        self.log_dirs = [self.folder / "one", self.folder / "two"] if moves else [self.folder]
        self.port = port
        self.server = None
        self.start_events = 120
        """How many file events its last whole start made, about."""
        self._options = ["--id", str(number), *options]
        if moves:
            self._options += ["--set", f"log.dirs={','.join(map(str, self.log_dirs))}"]
        self._read = 0

    def spawn(self):
        self.server = ServeProcess(self.folder, *self._options, port=self.port)
        return self.server.process

    @property
    def process(self):
        return self.server.process

    @property
    def alive(self):
        return self.server is not None and self.process.poll() is None

    def kill(self):
        """Whether it was alive to be killed."""
        alive = self.alive
        self.server.kill()
        return alive

    def new_log(self):
        """What the log got since this was asked last."""
        with self.server.log.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        self._read += len(text)
        return text.decode(errors="replace")


class Round:
    """One cluster, from its first start to its end."""

    def __init__(self, folder, seed, brokers, *, compacted=False, moves=False):
        self.kills = Counter()
        self.events = Counter()
        self.starts_ms = [300]
        self.problems = []
        self._rng = random.Random(f"{seed}/{brokers}")
        self._name = f"--seed {seed} --brokers {brokers}{' --compacted' * compacted}{' --moves' * moves}"
        self._compacted = compacted
        self._moves = moves
        self._mover = None
        self._while_it_runs = (
            WHILE_IT_RUNS | ({"clean": 8} if compacted else {}) | ({"move": 8} if moves else {})
        )
        self._folder = folder
        self._store = folder / "store" / "metadata.sqlite"
        self._sessions = folder / "store" / "metadata.sqlite.sessions"
        self._replicas = REPLICAS[brokers]
        settings = SETTINGS | {
            "barnabas.metadata.path": self._store,
            "offsets.topic.replication.factor": self._replicas,
            "replica.fetch.backoff.ms": 100,
            "replica.lag.time.max.ms": 2000,
        }
        if compacted:
            settings |= CLEANED_ALL_THE_TIME
        if moves:
            settings |= {"log.segment.delete.delay.ms": 100}
        options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        numbers = range(1, brokers + 1)
        self._victims = [Victim(number, folder, free_port(), options, moves=moves) for number in numbers]
        self._bootstrap = ",".join(f"127.0.0.1:{each.port}" for each in self._victims)
        self._clients = []

    # --- a round ------------------------------------------------------------------------------------------

    def run(self, kills, on_kill=lambda _: None):
        """So many kills, then everything that was acknowledged is looked for."""
        self._on_kill = on_kill
        try:
            self._store.parent.mkdir()
            for victim in self._victims:
                for _ in range(self._rng.randint(0, 2)):
                    self._kill_at_start(victim)
                self._start(victim)
            self._begin_load()
            while self.kills.total() < kills and not self.problems:
                self._strike()
            self._end()
        except AssertionError as error:
            self._problem(str(error))
        finally:
            self._close()
        return self

    def _begin_load(self):
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        names = ["once", "often"]
        topics = [NewTopic(each, PARTITIONS, self._replicas) for each in names]
        if self._compacted:
            policy = {"cleanup.policy": "compact", "delete.retention.ms": "200"}
            topics.append(NewTopic("latest", PARTITIONS, self._replicas, config=policy))
        for each in admin.create_topics(topics).values():
            each.result(LIMIT_S)
        self._streams = [Stream(self._bootstrap, each, idempotent=each == "once") for each in names]
        if self._compacted:
            self._streams.append(KeyedStream(self._bootstrap, "latest"))
        self._commits = Commits(self._bootstrap, "once")
        self._reader = Reader(self._bootstrap)
        if self._moves:
            folders = {victim.number: victim.log_dirs for victim in self._victims}
            self._mover = Mover(self._bootstrap, [each.topic for each in self._streams], folders, self._name)

    def _strike(self):
        """Kills one broker (or both, at times) while it runs, then while it starts, and wants it back."""
        both = self._rng.random() < 0.2
        victims = self._victims if both else [self._rng.choice(self._victims)]
        for victim in victims:
            kinds = self._while_it_runs
            kind = self._rng.choices(list(kinds), kinds.values())[0]
            self._until_loaded()
            getattr(self, f"_kill_at_{kind}")(victim)
        for victim in victims:
            for _ in range(self._rng.choice([0, 1, 1, 2, 3])):
                self._kill_at_start(victim)
        for victim in victims:
            self._start(victim)
        self._check()

    def _until_loaded(self):
        """Waits until brokers take records again."""
        if not any(each.alive for each in self._victims):
            return
        before = [each.count for each in self._streams]
        deadline = time.monotonic() + LIMIT_S
        while len(self._victims) == sum(each.alive for each in self._victims):
            if all(each.count > count for each, count in zip(self._streams, before, strict=True)):
                return
            assert time.monotonic() < deadline, "brokers that run take no records"
            time.sleep(0.005)

    # --- kills --------------------------------------------------------------------------------------------

    def _kill_at_start(self, victim):
        process = victim.spawn()
        with Moments(victim.folder, self._store.parent) as moments:
            rng = self._rng
            last = victim.start_events
            match rng.choice(["clock", "session", "anywhere", "ready"]):
                case "clock":
                    moments.wait(sys.maxsize, process, rng.uniform(0, max(self.starts_ms[-1] / 1000, 0.001)))
                case "session":
                    moments.wait(rng.randint(1, 70), process, LIMIT_S)
                case "anywhere":
                    moments.wait(rng.randint(1, last), process, LIMIT_S)
                case "ready":
                    moments.wait(rng.randint(max(1, last - 60), last), process, LIMIT_S)
        self._kill(victim, "start")

    def _kill_at_load(self, victim):
        time.sleep(self._rng.uniform(0, 0.15))
        self._kill(victim, "load")

    def _kill_at_roll(self, victim):
        with Moments(victim.folder, events=NEW_FILES) as moments:
            suffix = self._rng.choice([".log", ".index", ".timeindex", ".snapshot.tmp", ""])
            moments.wait(self._rng.randint(1, 3), victim.process, 1, suffix)
        self._kill(victim, "roll")

    def _kill_at_clean(self, victim):
        # Its names come, change and go; between two of them it writes and syncs.
        with Moments(victim.folder, events=NAMES) as moments:
            suffix = self._rng.choice(
                [".cleaned", ".swap", ".deleted", ".log", "cleaner-offset-checkpoint.tmp"]
            )
            moments.wait(self._rng.randint(1, 8), victim.process, 2, suffix)
        self._kill(victim, "clean")

    def _kill_at_move(self, victim):
        with Moments(victim.folder, events=NEW_NAMES) as moments:
            suffix = self._rng.choice(["-future", "-delete"])
            moments.wait(self._rng.randint(1, 4), victim.process, 2, suffix)
        self._kill(victim, "move")

    def _kill_at_stop(self, victim):
        with Moments(victim.folder, self._store.parent) as moments:
            victim.process.send_signal(signal.SIGTERM)
            # Other brokers write too; a stop that is over before the moment comes is a clean one.
            moments.wait(self._rng.randint(1, 150), victim.process, LIMIT_S)
        if victim.alive:
            self._kill(victim, "stop")
        else:
            code = victim.server.stop()
            if code:
                self._problem(f"broker {victim.number} ended with {code} on SIGTERM")

    def _kill_at_session(self, victim):
        os.kill(victim.process.pid, signal.SIGSTOP)
        time.sleep(SESSION_MS / 1000 * self._rng.uniform(0.9, 1.3))
        os.kill(victim.process.pid, signal.SIGCONT)
        with Moments(self._sessions) as moments:
            moments.wait(self._rng.randint(1, 8), victim.process, self._rng.uniform(0, 0.3))
        self._kill(victim, "session")

    def _kill(self, victim, kind):
        if not victim.kill():
            self._problem(f"broker {victim.number} ended by itself: {victim.server.tail()[-600:]}")
        self.kills[kind] += 1
        self._take_log(victim)
        self._on_kill(kind)

    # --- what has to hold ---------------------------------------------------------------------------------

    def _start(self, victim):
        """A start that has to succeed."""
        began = time.monotonic()
        with Moments(victim.folder, self._store.parent) as moments:
            victim.spawn()
            try:
                victim.server.wait_until_ready(LIMIT_S)
            except BaseException as error:  # pytest's failure is no Exception
                self._take_log(victim)
                raise AssertionError(f"broker {victim.number} does not start: {str(error)[-600:]}") from None
            moments.take()
            victim.start_events = max(120, moments.count)
        self.starts_ms.append(int(1000 * (time.monotonic() - began)))
        self._take_log(victim)

    def _take_log(self, victim):
        text = _ORPHAN.sub("", victim.new_log())
        self.events.update(f"{level} {event}" for level, _, event in _EVENT.findall(text))
        if "Traceback" in text:
            self._problem(
                f"broker {victim.number} logs a traceback: {text[text.index('Traceback') :][:1500]}"
            )

    def _check(self):
        """All that is cheap to ask: the logs' ends, the offsets, the sessions' files."""
        for stream in self._streams:
            promised = stream.ends()
            found = self._reader.ends(stream.topic)
            deadline = time.monotonic() + LIMIT_S
            while any(there < said for there, said in zip(found, promised, strict=True)):
                if time.monotonic() > deadline:
                    self._problem(f"{stream.topic} ends at {found}, acknowledged was {promised}")
                    break
                time.sleep(0.02)
                found = self._reader.ends(stream.topic)
        for problem in self._commits.check(self._reader.consumer):
            self._problem(problem)
        self._check_session_files()

    def _check_session_files(self):
        deadline = time.monotonic() + 3 * SESSION_MS / 1000
        while len(names := sorted(each.name for each in self._sessions.iterdir())) > 2 * len(self._victims):
            if time.monotonic() > deadline:
                self._problem(f"session files pile up: {names}")
                return
            time.sleep(0.05)

    def _end(self):
        """The load ends; then every record and offset is looked at, and the brokers stop cleanly."""
        for stream in self._streams:
            stream.end()
        self._check()
        for stream in self._streams:
            for problem in stream.check(self._reader.read(stream.topic)):
                self._problem(problem)
        self._commits.end()
        self._reader.close()
        if self._mover is not None:
            self._mover.end()
            self._until_moved()
        self._until_in_sync()
        for victim in self._victims:
            code = victim.server.stop()
            self._take_log(victim)
            if code:
                self._problem(f"broker {victim.number} ended with {code} on SIGTERM")
        left = [str(each) for each in self._folder.rglob("*") if each.suffix in (".tmp", ".swap", ".cleaned")]
        if left:
            self._problem(f"left behind: {left[:5]}")
        for stream in self._streams:
            if stream.idempotent and stream.topic not in COMPACTED:
                self._look_at_sequences(stream.topic)
        self._compare_copies()

    def _look_at_sequences(self, topic):
        for victim in self._victims:
            for name, places in sorted(partition_directories(victim.log_dirs).items()):
                for problem in disorder(places[0]) if name.startswith(f"{topic}-") else ():
                    self._problem(f"broker {victim.number}: {problem}")

    def _until_moved(self):
        """Waits until no partition is on its way, and what it left is gone."""
        deadline = time.monotonic() + LIMIT_S
        # os.walk passes over a directory that is renamed or removed while it is read.
        while left := [
            f"{folder}/{name}"
            for folder, names, _ in os.walk(self._folder)
            for name in names
            if name.endswith(("-future", "-delete"))
        ]:
            assert time.monotonic() < deadline, f"moves do not end: {left}"
            time.sleep(0.05)

    def _until_in_sync(self):
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        deadline = time.monotonic() + LIMIT_S
        while True:
            topics = admin.list_topics(timeout=LIMIT_S).topics.values()
            behind = [
                f"{topic.topic}-{number}: {part.isrs}"
                for topic in topics
                for number, part in topic.partitions.items()
                if len(part.isrs) < len(part.replicas)
            ]
            if not behind:
                return
            assert time.monotonic() < deadline, f"replicas do not catch up: {behind}"
            time.sleep(0.05)

    def _compare_copies(self):
        folders = {victim.number: victim.log_dirs for victim in self._victims}
        for problem in differences(folders, COMPACTED):
            self._problem(problem)

    def _problem(self, text):
        """Notes what is wrong; the round ends at the next chance."""
        self.problems.append(f"{self._name}, after {self.kills.total()} kills: {text}")

    def _close(self):
        for victim in self._victims:
            if victim.alive:
                victim.kill()

    def report(self):
        """The figures of this round, as plain values."""
        return {
            "kills": self.kills,
            "events": self.events,
            "starts_ms": self.starts_ms[1:],
            "acknowledged": sum(each.count for each in self._streams) if hasattr(self, "_streams") else 0,
            "commits": self._commits.count if hasattr(self, "_commits") else 0,
            "compacted": sum(getattr(each, "compacted", 0) for each in getattr(self, "_streams", ())),
            "moves": 0 if self._mover is None else self._mover.asked,
            "problems": self.problems,
        }


def run_round(seed, kills, brokers, keep=None, *, compacted=False, moves=False):
    """One round in a folder of its own; its report."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if keep is None else keep / f"{seed}-{brokers}"
        folder.mkdir(parents=True, exist_ok=True)
        return Round(folder, seed, brokers, compacted=compacted, moves=moves).run(kills).report()


def run_rounds(
    seed,
    kills,
    brokers=(1, 2, 3),
    *,
    compacted=False,
    moves=False,
    each=KILLS_A_ROUND,
    lanes=2,
    keep=None,
    say=lambda _: None,
):
    """Rounds of one, two and three brokers in turn, some side by side, until there were so many kills."""
    rounds = [min(each, kills - done) for done in range(0, kills, each)]
    began = time.monotonic()
    total = {
        "kills": Counter(),
        "events": Counter(),
        "starts_ms": [],
        "acknowledged": 0,
        "commits": 0,
        "compacted": 0,
        "moves": 0,
        "problems": [],
    }
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(lanes, mp_context=spawn, initializer=end_with_the_parent) as pool:
        tasks = [
            pool.submit(
                run_round,
                seed + number,
                count,
                brokers[number % len(brokers)],
                keep,
                compacted=compacted,
                moves=moves,
            )
            for number, count in enumerate(rounds)
        ]
        for number, task in enumerate(as_completed(tasks), start=1):
            for key, value in task.result().items():
                total[key] += value
            kinds = " ".join(f"{kind} {count}" for kind, count in sorted(total["kills"].items()))
            say(
                f"{time.monotonic() - began:.0f} s: round {number} of {len(rounds)}, "
                f"{total['kills'].total()} kills ({kinds}), {total['acknowledged']} records acknowledged, "
                f"{len(total['problems'])} problems"
            )
            for problem in task.result()["problems"]:
                say(f"  {problem}")
    return total


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, choices=[1, 2, 3], help="rounds with so many brokers only")
    parser.add_argument("--compacted", action="store_true", help="with the log cleaner at work all the time")
    parser.add_argument(
        "--moves", action="store_true", help="with partitions that move between log directories"
    )
    parser.add_argument("--lanes", type=int, default=2, help="rounds side by side")
    parser.add_argument("--keep", type=Path, help="leave the folders of all brokers here")
    given = parser.parse_args()
    brokers = (given.brokers,) if given.brokers else (1, 2, 3)
    total = run_rounds(
        given.seed,
        given.kills,
        brokers,
        compacted=given.compacted,
        moves=given.moves,
        lanes=given.lanes,
        keep=given.keep,
        say=rounds_report.say,
    )
    starts = sorted(total.pop("starts_ms"))
    total["whole_starts"] = len(starts)
    if starts:
        total["start_ms"] = {"median": starts[len(starts) // 2], "longest": starts[-1]}
    sys.stdout.write(json.dumps(total, indent=2) + "\n")
    return 1 if total["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
