"""Appends batches to a table and dies before each single step of it, one death after the other.

append_killed.py FOLDER prints a line of JSON for each death: the step that was not done, and what the table
held before the next start, and after that start had appended the same batch.
"""

import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

from barnabas.spark.pipeline.tables import parquet

# Every call by which an append changes the folder. What is imported by name is replaced where it is used.
STEPS = [
    (Path, "mkdir"), (Path, "write_text"), (Path, "replace"), (os, "fsync"), (shutil, "rmtree"),
    (os, "rmdir"), (os, "unlink"), (Path, "unlink"),
]  # fmt: skip


def die_before(step):
    """Has the process end itself, as by kill -9, before its so-manieth step."""
    left = step

    def guarded(name, original):
        def call(*args, **kwargs):
            nonlocal left
            left -= 1
            if left < 0:
                os.write(report, f"{name} {Path(str(args[0])).name if args else ''}".encode())
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return call

    for owner, name in STEPS:
        setattr(owner, name, guarded(name, getattr(owner, name)))


def append(folder, batch):
    """Appends a batch of two files, unless it is there: what the sink does with a batch that Spark plans."""
    with parquet.ParquetFolder(folder) as table:
        if table.has("query", batch):
            return

        def write(staging):
            for part in ("day=1", "day=2"):
                (staging / part).mkdir(parents=True)
                (staging / part / "rows.parquet").write_text(f"{batch} {part}\n")
            return ["day=1/rows.parquet", "day=2/rows.parquet"]

        table.append("query", batch, {"fields": []}, ["day"], write)


def rows(folder):
    """What a reader of the table sees."""
    files = [path for path in folder.rglob("*.parquet") if "_barnabas" not in path.parts]
    return sorted(path.read_text().strip() for path in files)


def leftovers(folder):
    """Folders that nothing refers to."""
    return [path.name for path in (folder / "_barnabas").glob("staging-*")]


def in_a_child(step, act):
    """The step that a child died before while it acted, or nothing when it lived to the end."""
    global report  # the child writes to it at its death
    reading, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        die_before(step)
        act()
        os._exit(0)
    os.close(report)
    _, status = os.waitpid(child, 0)
    died = os.read(reading, 1000).decode()
    os.close(reading)
    assert bool(died) == os.WIFSIGNALED(status), (died, status)
    return died


def main(where):
    """Prints the lines."""
    step = 0
    while True:
        folder = where / str(step)
        append(folder, 0)
        died = in_a_child(step, partial(append, folder, 1))
        before, committed = rows(folder), parquet.read_commit(folder).batch
        append(folder, 1)
        line = {"died": died, "before": before, "committed": committed, "after": rows(folder)}
        sys.stdout.write(json.dumps({**line, "left": leftovers(folder)}) + "\n")
        if not died:
            return
        step += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
