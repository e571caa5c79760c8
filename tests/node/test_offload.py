"""Work in a child process: values, errors and a child that dies."""

import asyncio
import os
import signal

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
