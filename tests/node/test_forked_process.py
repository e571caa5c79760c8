"""`ForkedProcess`: what a child shares with its parent, and how it ends.

The parent is a process of its own, as it must have one thread.
"""

import json
import signal
import subprocess
import sys

PARENT = """
import asyncio, json, logging, os, signal, sys
from pathlib import Path
from barnabas.node.machine.forked_process import fork

shared = ["made before"]

def look():
    loop_of_its_own = asyncio.run(asyncio.sleep(0, "ran"))
    descriptors = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    # One more is that of the listing itself.
    print(json.dumps({
        "shared": shared, "loop": loop_of_its_own, "descriptors": descriptors[:-1],
        "session": os.getsid(0) == os.getpid(),
        "name": Path("/proc/self/comm").read_text().strip(), "handlers": len(logging.getLogger().handlers),
        "term": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "stdin": sys.stdin.read(),
    }))

def fail():
    raise ValueError("what went wrong")

async def life(run):
    process = await fork("a-name-of-more-than-15", run)
    out, err = await process.stdout.read(), await process.stderr.read()
    return {"out": out.decode(), "err": err.decode(), "code": await process.wait()}

async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    logging.basicConfig()
    waiting = await fork("waits", signal.pause)
    waiting.send_signal(signal.SIGTERM)
    ended = await waiting.wait()
    waiting.send_signal(signal.SIGTERM)
    print(json.dumps({
        "looked": await life(look), "exit": await life(lambda: sys.exit(3)), "failed": await life(fail),
        "ended": ended, "left": sorted(os.listdir("/proc/self/fd")),
    }))

asyncio.run(main())
"""


def test_a_child_has_its_parents_memory_and_nothing_else_of_it():
    done = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert json.loads(said["looked"].pop("out")) == {
        "shared": ["made before"],
        "loop": "ran",
        "descriptors": [0, 1, 2],
        "session": True,
        "name": "a-name-of-more-",
        "handlers": 0,
        "term": True,
        "stdin": "",
    }
    assert said["looked"] == {"err": "", "code": 0}
    assert said["exit"] == {"out": "", "err": "", "code": 3}
    assert said["failed"]["code"] == 1
    assert said["failed"]["err"].endswith("ValueError: what went wrong\n")
    assert said["ended"] == -signal.SIGTERM


LEFT_OVER = """
import asyncio, os
from barnabas.node.machine.forked_process import fork

async def main():
    for number in range(20):
        process = await fork("short", lambda: None)
        await process.stdout.read()
        await process.stderr.read()
        assert await process.wait() == 0
        if number == 0:
            first = len(os.listdir("/proc/self/fd"))
    assert len(os.listdir("/proc/self/fd")) == first, "descriptors are left over"

asyncio.run(main())
"""


def test_nothing_is_left_of_children_that_have_ended():
    subprocess.run([sys.executable, "-c", LEFT_OVER], check=True)


FEW_DESCRIPTORS = """
import asyncio, errno, os, resource
from barnabas.node.machine.forked_process import fork

async def main():
    for room in range(9):
        asyncio.get_running_loop()
        before = len(os.listdir("/proc/self/fd"))  # with that of the listing itself
        resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1 + room, 4096))
        try:
            process = await fork("short", lambda: print("ran"))
        except OSError as error:
            assert error.errno == errno.EMFILE, error
            print(room, "refused")
        else:
            said = await process.stdout.read(), await process.stderr.read(), await process.wait()
            process.close()
            print(room, said)
        await asyncio.sleep(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
        assert len(os.listdir("/proc/self/fd")) == before, "descriptors are left over"

asyncio.run(main())
"""


def test_a_fork_without_descriptors_leaves_none_open():
    """The first pipe stayed when there was none left for the second, at each start that was tried again."""
    done = subprocess.run(
        [sys.executable, "-c", FEW_DESCRIPTORS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    refused = [f"{room} refused" for room in range(4)]
    forked = [f"{room} (b'ran\\n', b'', 0)" for room in range(4, 9)]
    assert done.stdout.splitlines() == refused + forked
