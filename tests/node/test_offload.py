"""Work in a child process: values, errors and a child that dies."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas.node.broker_node import wait
from barnabas.node.offload import ProcessOffload


def own_pid():
    return os.getpid()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


async def run(function, *args):
    offload = ProcessOffload(asyncio.get_running_loop())
    try:
        return await wait(offload.run(function, *args))
    finally:
        offload.close()


def test_work_runs_in_another_process():
    assert asyncio.run(run(own_pid)) != os.getpid()
    assert asyncio.run(run(divmod, 7, 2)) == (3, 1)


def test_an_exception_comes_back():
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run(divmod, 7, 0))


def test_a_child_that_dies_is_a_failure():
    with pytest.raises(Exception, match="terminated abruptly"):
        asyncio.run(run(die))


PARENT = """
import asyncio, os, time
from barnabas.node.broker_node import wait
from barnabas.node.offload import ProcessOffload

async def main():
    print(await wait(ProcessOffload(asyncio.get_running_loop()).run(os.getpid)), flush=True)
    time.sleep(60)

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    # A file, because a spawned child imports its parent's main module.
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    with parent:
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    deadline = time.monotonic() + 20
    while is_alive(child):
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.02)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
