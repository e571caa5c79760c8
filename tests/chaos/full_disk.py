"""Brokers on small disks that fill while they compact: real ext4 of 24 MiB with blocks of 1 KiB, in files
(needs root).

    python tests/chaos/full_disk.py --rounds 20 --seed 1 [--brokers 3]

Each broker has a disk of its own and default settings. One producer overwrites and deletes the keys of a
compacted topic of many small segments, another one fills the disks, and the cleaner looks every 15 seconds.
Then the brokers stop, half a MiB is freed as by an operator, and they start again: the last acknowledged
value of each key is there, and no deleted key.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import rounds_report
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kill_load import QUICK, KeyedStream, Reader

from serving import ServeProcess, free_port

DISK_MIB = 24
BALLAST_BYTES = 512 << 10
LOAD_S = 34
"""Three looks of the cleaner: at once, after 15 and after 30 seconds."""
LIMIT_S = 60
EVENTS = (
    "directory.full",
    "log.offline",
    "cleaner.postponed",
    "cleaner.cleaned",
    "cleaner.uncleanable",
    "Traceback",
)


class ManyKeys(KeyedStream):
    """Enough keys for several segments after a cleaning, too."""

    KEYS = 700


class Disk:
    """A file system of its own, mounted; `unmount` in the end."""

    def __init__(self, folder):
        image = folder.with_suffix(".img")
        image.write_bytes(b"")
        os.truncate(image, DISK_MIB << 20)
        folder.mkdir()
        self.path = folder
        _run("mkfs.ext4", "-q", "-b", "1024", "-m", "0", image)
        _run("mount", "-o", "loop", image, folder)
        self.ballast = folder / "ballast"
        self.ballast.write_bytes(os.urandom(BALLAST_BYTES))

    def unmount(self):
        _run("umount", "-l", self.path)


def _run(*command):
    subprocess.run(command, check=True, capture_output=True)


def can_mount():
    """Whether this machine lets us."""
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        return False
    with tempfile.TemporaryDirectory() as temporary:
        try:
            Disk(Path(temporary) / "disk").unmount()
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


class Round:
    """From empty disks to what is found after a stop and a start."""

    def __init__(self, folder, seed, brokers):
        self.problems = []
        self.figures = Counter()
        self._rng = random.Random(seed)
        self._disks = [Disk(folder / f"disk-{number}") for number in range(brokers)]
        self._ports = [free_port() for _ in range(brokers)]
        self._options = [] if brokers == 1 else ["--set", f"barnabas.metadata.path={folder}/metadata.sqlite"]
        self._bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self._servers = []

    def run(self):
        try:
            self._start()
            stream = self._load()
            self._stop()
            for disk in self._disks:
                disk.ballast.unlink()
            self._start()
            self._judge(stream)
            self._stop()
        except AssertionError as error:
            self.problems.append(str(error)[-800:])
        finally:
            for server in self._servers:
                server.kill()
            for disk in self._disks:
                disk.unmount()
        return self

    def _start(self):
        self._servers = [
            ServeProcess(disk.path, "--id", str(number), *self._options, port=port)
            for number, (disk, port) in enumerate(zip(self._disks, self._ports, strict=True), start=1)
        ]
        for server in self._servers:
            server.wait_until_ready(LIMIT_S)

    def _stop(self):
        for server in self._servers:
            code = server.stop()
            if code:
                self.problems.append(f"a broker ended with {code}: {server.tail()[-400:]}")
        for server in self._servers:
            log = server.log.read_text(errors="replace")
            self.figures.update({event: log.count(event) for event in EVENTS})
            if "Traceback" in log:
                self.problems.append(f"a traceback: {log[log.index('Traceback') :][:1200]}")

    def _load(self):
        many = {"cleanup.policy": "compact", "segment.bytes": "16384", "delete.retention.ms": "1000"}
        topics = [
            NewTopic("latest", 2, len(self._servers), config=many),
            NewTopic("filler", 1, len(self._servers), config={"segment.bytes": "262144"}),
        ]
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for each in admin.create_topics(topics).values():
            each.result(LIMIT_S)
        stream = ManyKeys(self._bootstrap, "latest", rate=self._rng.choice([400, 700, 1000]))
        filler = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "message.timeout.ms": 1000,
                "batch.num.messages": 10,
                **QUICK,
            }
        )
        deadline = time.monotonic() + LOAD_S
        # Full at one of the looks, or a little before; and again, as cleanings give some back.
        full_at = time.monotonic() + self._rng.choice([14.5, 15, 16, 29.5, 30])
        while (now := time.monotonic()) < deadline:
            disk = os.statvfs(self._disks[0].path)
            free = disk.f_bavail * disk.f_frsize
            wanted = free * 0.1 / max(0.1, full_at - now)
            while wanted > 0:
                size = self._rng.randint(100, 8000)
                filler.produce("filler", os.urandom(size))
                wanted -= size
            filler.flush(2)
            time.sleep(0.1)
        return stream

    def _judge(self, stream):
        stream._stop.set()
        stream._thread.join()
        stream._producer.purge()
        stream._producer.flush(5)
        # What the full disk refused was never promised.
        for refused in stream.refused:
            refused.clear()
        reader = Reader(self._bootstrap)
        self.problems += stream.check(reader.read(stream.topic))
        reader.close()
        self.figures["acknowledged"] += stream.count
        self.figures["compacted"] += stream.compacted


def run_rounds(seed, rounds, brokers, folder, say=lambda _: None):
    """What went wrong, and figures."""
    problems, figures = [], Counter()
    for number in range(rounds):
        own = folder / f"round-{number}"
        own.mkdir()
        done = Round(own, f"{seed}/{number}", brokers).run()
        problems += [f"round {number}: {each}" for each in done.problems]
        figures += done.figures
        figures["rounds"] += 1
        say(f"round {number}: {dict(done.figures)} {done.problems}")
        shutil.rmtree(own)
    return problems, figures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=1)
    given = parser.parse_args()
    if not can_mount():
        sys.exit("this needs root, mkfs.ext4 and loop devices")
    with tempfile.TemporaryDirectory() as temporary:
        problems, figures = run_rounds(
            given.seed, given.rounds, given.brokers, Path(temporary), rounds_report.say
        )
    rounds_report.end(problems, figures)


if __name__ == "__main__":
    main()
