"""A real broker whose disk refuses one call, once, while it starts, takes records, compacts and stops.

    python tests/chaos/refusals.py --rounds 200 --seed 1 [--keep FOLDER]

A small library in C, which needs a compiler, stands between the broker and the system (`refuse.c`). The first
round refuses nothing and counts the calls of each kind: open, write, sync, rename, unlink, truncate, of the
logs and of the metadata store. Each further one refuses one of them, that the seed chooses, with ENOSPC, EIO,
EROFS or EDQUOT; then the broker stops or is killed, and starts on a disk that works. Nothing that was
acknowledged may be missing, no deleted key may be back, and a broker that ended or a directory that is not
served had its line in the log.
"""

import argparse
import errno
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import rounds_report
from confluent_kafka.admin import AdminClient, NewTopic
from kill_load import PARTITIONS, KeyedStream, Reader, Stream
from refusing import Refusal, build

from serving import ServeProcess, free_port

KINDS = ("open", "write", "sync", "rename", "unlink", "truncate")
"""Those that change a disk. What else the library knows is refused to the metadata store:
`store_refusals.py`.
"""
CODES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
LOAD_S = 1.2
ENOUGH = 300
"""So many records are acknowledged meanwhile, unless what is refused keeps them out."""
LIMIT_S = 30
SETTINGS = {
    "log.segment.bytes": 8192,
    "log.index.size.max.bytes": 1024,
    "log.retention.ms": -1,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 8192,
    "log.flush.offset.checkpoint.interval.ms": 200,
    "replica.high.watermark.checkpoint.interval.ms": 100,
    "log.initial.task.delay.ms": 0,
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.segment.delete.delay.ms": 50,
    "zookeeper.session.timeout.ms": 1500,
}


class Round:
    """From a start that may be refused something to a start that is not, of the first of some brokers."""

    def __init__(
        self, folder, library, *, kind=None, place=-1, code=errno.EIO, kill=False, suffix="", brokers=1
    ):
        self.name = "nothing refused" if kind is None else f"{errno.errorcode[code]} at {kind} {place}"
        self.name += ", killed" if kill else ", stopped"
        self.problems = []
        self.acknowledged = self.compacted = 0
        self._kill = kill
        self._is_certain = bool(suffix)
        self._folders = [folder / f"data-{number}" for number in range(brokers)]
        self._refusal = Refusal(folder / "refusal", library, self._folders[0], suffix)
        self._refusal.choose(kind, place, code)
        self._ports = [free_port() for _ in self._folders]
        self._bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        settings = dict(SETTINGS)
        if brokers > 1:
            settings["barnabas.metadata.path"] = folder / "metadata.sqlite"
        self._options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]

    @property
    def calls(self):
        """How many calls of each kind there were."""
        return {kind: self._refusal.calls[kind] for kind in KINDS}

    def run(self):
        """Topics are made, the first broker meets the refusal in its second life, and all are judged in the
        next one.
        """
        for folder in self._folders:
            folder.mkdir()
        servers = self._started()
        copies = len(servers)
        topics = [
            NewTopic("often", PARTITIONS, copies),
            NewTopic(
                "latest",
                PARTITIONS,
                copies,
                config={"cleanup.policy": "compact", "delete.retention.ms": "200"},
            ),
        ]
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        for each in admin.create_topics(topics).values():
            each.result(LIMIT_S)
        self._stop(servers)
        streams = [
            Stream(self._bootstrap, "often", idempotent=True, rate=400),
            KeyedStream(self._bootstrap, "latest", rate=400),
        ]
        try:
            self._meet_the_refusal(streams)
            servers = self._started()
            self._judge(servers, streams)
        except AssertionError as error:
            self.problems.append(f"{self.name}: {str(error)[-800:]}")
        finally:
            for server in servers:
                server.kill()
        return self

    def _spawned(self, number):
        options = ["--id", str(number + 1), *self._options]
        return ServeProcess(self._folders[number], *options, port=self._ports[number])

    def _started(self):
        servers = [self._spawned(number) for number in range(len(self._folders))]
        for server in servers:
            server.wait_until_ready(LIMIT_S)
        return servers

    def _stop(self, servers):
        for server in servers:
            if server.stop():
                self.problems.append(f"{self.name}: a broker did not stop: {server.tail()[-500:]}")

    def _meet_the_refusal(self, streams):
        before = dict(os.environ)
        os.environ.update(self._refusal.environment)
        try:
            server = self._spawned(0)
        finally:
            os.environ.clear()
            os.environ.update(before)
        others = [self._spawned(number) for number in range(1, len(self._folders))]
        # On a busy machine a start takes its time. What is refused at a certain name comes sooner or later,
        # the rest may not.
        enough = sum(stream.count for stream in streams) + ENOUGH
        deadline = time.monotonic() + (LIMIT_S if self._is_certain else 3 * LOAD_S)
        while time.monotonic() < deadline and server.runs:
            came = b"refused: " in server.log.read_bytes() if self._is_certain else True
            if came and sum(stream.count for stream in streams) >= enough:
                break
            time.sleep(0.05)
        time.sleep(LOAD_S)
        ended = not server.runs
        if self._kill or ended:
            server.kill()
        else:
            server.stop()
        self._stop(others)
        log = server.tail()
        if ended and "rror" not in log:
            self.problems.append(f"{self.name}: the broker ended without a word: {log[-500:]}")
        if "Traceback" in log and "refused: " not in log.rpartition("Traceback")[2][:3000]:
            self.problems.append(f"{self.name}: a traceback: {log[log.index('Traceback') :][:1500]}")

    def _judge(self, servers, streams):
        time.sleep(0.3)
        for stream in streams:
            stream.end()
        reader = Reader(self._bootstrap)
        for stream in streams:
            self.problems += [f"{self.name}: {each}" for each in stream.check(reader.read(stream.topic))]
            self.acknowledged += stream.count
            self.compacted += getattr(stream, "compacted", 0)
        reader.close()
        self._stop(servers)


def run_rounds(seed, rounds, folder, say=lambda _: None):
    """So many refusals; what went wrong, and figures. None without a compiler."""
    library = build(folder)
    if library is None:
        return None
    rng = random.Random(seed)
    figures, problems, calls = Counter(), [], None
    for number in range(rounds + 1):
        own = folder / f"round-{number}"
        own.mkdir()
        if calls is None:
            done = Round(own, library).run()
            calls = done.calls
            say(f"calls: {calls}")
            assert all(calls.values()), f"no call of some kind: {calls}"
        else:
            kind = KINDS[number % len(KINDS)]
            place, code, kill = rng.randrange(calls[kind]), rng.choice(CODES), rng.random() < 0.5
            done = Round(own, library, kind=kind, place=place, code=code, kill=kill).run()
            figures[kind] += done.calls[kind] > place
        figures["acknowledged"] += done.acknowledged
        figures["compacted"] += done.compacted
        problems += done.problems
        say(f"round {number}: {done.name}, {done.acknowledged} acknowledged, {done.problems}")
        if not done.problems:
            shutil.rmtree(own)
    return problems, figures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="leave the folders of rounds with problems here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        done = run_rounds(given.seed, given.rounds, folder, rounds_report.say)
    if done is None:
        sys.exit("there is no C compiler (cc, gcc)")
    problems, figures = done
    rounds_report.end(problems, figures)


if __name__ == "__main__":
    main()
