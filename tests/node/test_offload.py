"""Work in a child process: values, errors and a child that dies."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.offload import ChildEndedError
from barnabas.node.broker_node import wait
from barnabas.node.offload import LINES_MAX, ProcessOffload


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


def test_a_child_that_dies_each_time_is_a_failure_with_a_reason():
    with pytest.raises(ChildEndedError, match="a child process of the broker was killed"):
        asyncio.run(run(die))


def die_once(marker, value):
    if not Path(marker).exists():
        Path(marker).touch()
        die()
    return value


def test_work_whose_child_was_killed_is_begun_again(tmp_path, caplog):
    assert asyncio.run(run(die_once, str(tmp_path / "marker"), 5)) == 5
    assert [record.getMessage().split()[0] for record in caplog.records] == ["offload.child_ended"]


def test_after_a_child_has_died_others_do_the_work():
    async def die_and_go_on():
        offload = ProcessOffload(asyncio.get_running_loop())
        try:
            with pytest.raises(ChildEndedError):
                await wait(offload.run(die))
            return await wait(offload.run(divmod, 7, 2))
        finally:
            offload.close()

    assert asyncio.run(die_and_go_on()) == (3, 1)


def test_all_work_that_a_dead_child_takes_along_is_done_by_others(tmp_path):
    async def several():
        offload = ProcessOffload(asyncio.get_running_loop())
        try:
            work = [offload.run(die_once, str(tmp_path / "marker"), number) for number in range(8)]
            return [await wait(each) for each in work]
        finally:
            offload.close()

    assert asyncio.run(several()) == list(range(8))


def log_and_fail(path, code):
    events = EventLog("log.recovery")
    events.debug("not.asked_for")
    events.warning("segment.truncated", segment=path, lost_bytes=7)
    try:
        divmod(7, 0)
    except ZeroDivisionError:
        events.error("gone.wrong", exc_info=True)
    if code is not None:
        raise KafkaError(code, f"in {path}")


def log_a_lot():
    for number in range(LINES_MAX + 10):
        EventLog("log.recovery").warning("line", number=number)


@pytest.mark.parametrize("code", [None, ErrorCode.CORRUPT_MESSAGE])
def test_what_the_work_logs_comes_back_with_its_time_and_level(caplog, code):
    before_s = time.time()
    if code is None:
        asyncio.run(run(log_and_fail, "/data/orders-0/0", code))
    else:
        with pytest.raises(KafkaError, match="in /data/orders-0/0") as caught:
            asyncio.run(run(log_and_fail, "/data/orders-0/0", code))
        assert caught.value.code is code
        assert "log_and_fail" in caught.value.__notes__[0], "where in the child it was raised"
    cut, failed = [record for record in caplog.records if record.name == "barnabas.log.recovery"]

    assert (cut.levelname, cut.message) == (
        "WARNING",
        "segment.truncated segment=/data/orders-0/0 lost_bytes=7",
    )
    assert before_s <= cut.created <= time.time()
    assert (failed.levelname, failed.message) == ("ERROR", "gone.wrong")
    assert "ZeroDivisionError" in failed.exc_text


def test_more_lines_than_a_log_wants_are_counted(caplog):
    asyncio.run(run(log_a_lot))
    lines = [record.message for record in caplog.records if record.name.startswith("barnabas")]

    assert lines[:-1] == [f"line number={number}" for number in range(LINES_MAX)]
    assert lines[-1] == "offload.lines_left_out lines=10"


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
