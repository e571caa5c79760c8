"""What the embedded metadata store of a machine bears: writes of N sessions, and a stall under N brokers.

python -m bench.embedded_store [--sessions 1,4,16] [--seconds 3] [--stall 25] [--brokers 16]

Each session is a process, as a broker's is, with one write of 100 bytes in flight; one more session watches
a znode that the first of them writes. A stall is a lock on the file that somebody holds for longer than a
session lasts, as a process that stands still in the middle of a write does, while librdkafka produces.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from barnabas.admin import Admin, NewTopic
from barnabas.client.types import LATEST_TIMESTAMP
from barnabas.cluster.store.contract import Create, SetData
from barnabas.cluster.store.sqlite import SqliteStore
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.node.environment import METADATA_FILE
from bench.machine import machine
from bench.sides import CHECKOUT, Installation

DATA: Final = b"x" * 100
WATCHED: Final = "/written-0"
TOPIC: Final = "load"
PAUSE_S: Final = 0.01
LONG_S: Final = 120.0


async def _done(pending: Pending[Any]) -> Any:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pending.when_done(lambda _: answer.set_result(None))
    await answer
    return pending.result()


async def _session(path: Path) -> SqliteStore:
    store = SqliteStore(path, asyncio.get_running_loop().call_soon_threadsafe)
    await _done(store.start())
    return store


def _write(path: Path, number: int, seconds: float, all_there: Any, answer: Any) -> None:
    """A process that writes its own znode again and again; its writes, processor time and latencies."""

    async def run() -> tuple[int, float, list[float]]:
        store = await _session(path)
        await _done(store.multi([Create(f"/written-{number}", DATA)]))
        # Processes begin together; this one's loop has nothing else to do.
        all_there.wait(LONG_S)
        took: list[float] = []
        before, end = time.process_time(), time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            await _done(store.multi([SetData(f"/written-{number}", b"%.6f" % began + DATA)]))
            took.append(time.monotonic() - began)
        used = time.process_time() - before
        await _done(store.close())
        return len(took), used, took

    answer.put(asyncio.run(run()))


async def _watch(path: Path, seconds: float) -> list[float]:
    """How long after its write began a watcher has read each value that it saw."""
    store = await _session(path)
    changed, late, end = asyncio.Event(), [], time.monotonic() + seconds
    while time.monotonic() < end:
        changed.clear()
        if await _done(store.exists(WATCHED, lambda _: changed.set())) is not None:
            data, _ = await _done(store.get(WATCHED))
            if data[:1] != b"x":
                late.append(time.monotonic() - float(data.partition(b"x")[0]))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), 0.5)
    await _done(store.close())
    return late


def writes(sessions: int, seconds: float) -> str:
    """A row of the table."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path, answers, all_there = Path(folder) / METADATA_FILE, spawn.Queue(), spawn.Barrier(sessions + 1)
        processes = [
            spawn.Process(target=_write, args=(path, number, seconds, all_there, answers))
            for number in range(sessions)
        ]
        for each in processes:
            each.start()
        all_there.wait(LONG_S)
        late = asyncio.run(_watch(path, seconds))
        found = [answers.get(timeout=LONG_S) for _ in processes]
        for each in processes:
            each.join()
    count, used = sum(each[0] for each in found), sum(each[1] for each in found)
    took = sorted(one for each in found for one in each[2])
    watched = f"{statistics.median(late) * 1e3:.1f} ms" if late else "none"
    return (
        f"| {sessions} | {count / seconds:,.0f}/s | {used / count * 1e6:,.0f} us | "
        f"{took[len(took) // 2] * 1e3:.1f} ms | {took[len(took) * 99 // 100] * 1e3:.0f} ms | {watched} |"
    )


def stall(brokers: int, seconds: float) -> str:
    """What a machine does while nobody can write to its store, and behind it."""
    with machine(brokers, Installation.at(CHECKOUT)) as one:
        address = one.address
        store = Path(one.folder) / "data" / METADATA_FILE
        with Admin(address) as admin:
            admin.topics.create(NewTopic(TOPIC, 4 * brokers, 1))
        gaps, refused, answered = [0.0], [0], [time.monotonic()]

        def delivered(error: object, _record: object) -> None:
            refused[0] += error is not None
            now = time.monotonic()
            gaps.append(now - answered[0])
            answered[0] = now

        producer = Producer({"bootstrap.servers": address, "linger.ms": 1, "log_level": 0})
        lock = sqlite3.connect(store, timeout=LONG_S, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            producer.produce(TOPIC, DATA, on_delivery=delivered)
            producer.poll(PAUSE_S)
        lock.execute("ROLLBACK")
        lock.close()
        free, during = time.monotonic(), max(gaps)
        with Admin(address, default_api_timeout_ms=LONG_S * 1000) as admin:
            admin.topics.create(NewTopic("after", brokers, 1))
            back = time.monotonic() - free
            whole = len(admin.cluster.describe().brokers)
            producer.flush(LONG_S)
            taken = len(gaps) - 1 - refused[0]
            partitions = {TopicPartition(TOPIC, each): LATEST_TIMESTAMP for each in range(4 * brokers)}
            there = sum(each.offset for each in admin.offsets.list(partitions).values())
        return (
            f"{brokers} brokers, the store locked for {seconds:g} s: {taken} records taken, {there} there,"
            f" {refused[0]} refused, the longest gap {during:.2f} s; a topic is made {back:.2f} s after its"
            f" end, and {whole} brokers are there\nsaid: {_said(Path(one.folder) / 'log')}"
        )


def _said(log: Path) -> str:
    """How often brokers said what, of warnings and errors: ``[ID] DATE TIME LEVEL LOGGER EVENT ...``."""
    lines = [line.split() for line in log.read_text().splitlines()]
    events = Counter(words[5] for words in lines if words[3:4] in (["WARNING"], ["ERROR"]))
    return ", ".join(f"{event} {times}" for event, times in events.most_common()) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.embedded_store", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--sessions", default="1,4,16")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--stall", type=float, default=25)
    parser.add_argument("--brokers", type=int, default=16)
    asked = parser.parse_args()
    if asked.seconds:
        print("| sessions | writes | processor time a write | median | p99 | seen by a watch |")
        print("|---|---|---|---|---|---|")
        for sessions in map(int, asked.sessions.split(",")):
            print(writes(sessions, asked.seconds), flush=True)
    if asked.stall:
        print(stall(asked.brokers, asked.stall))


if __name__ == "__main__":
    main()
