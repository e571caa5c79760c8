"""``barnabas serve --brokers N``: the brokers of a machine, their parent, and what becomes of them."""

import asyncio
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.processors import processor_s
from barnabas.node.machine.broker_processes import RESTARTS_MAX, parent_is_gone
from machine_parent import MachineParent
from serving import READY_SECONDS, die_with_parent, free_port, free_ports
from waiting import until

API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


@pytest.fixture
def start(tmp_path):
    machines = []

    def make(*options, data="data"):
        machines.append(MachineParent(tmp_path / data, *options))
        return machines[-1]

    yield make
    for machine in machines:
        machine.end()


def test_three_brokers_serve_one_cluster_and_end_with_their_parent(start, tmp_path):
    machine = start("--brokers", "3", "--port", "0", "--rack", "here").wait_until_ready()
    with Admin(machine.bootstrap) as admin:
        admin.topics.create(NewTopic("t", 6, 2))
        brokers = admin.cluster.describe().brokers
    assert sorted(each.node_id for each in brokers) == [1, 2, 3]
    assert {each.rack for each in brokers} == {"here"}
    with Producer(machine.bootstrap) as producer:
        for partition in range(6):
            producer.send("t", b"", partition=partition).result()
    assert sorted(machine.children()) == [1, 2, 3]
    assert machine.end() == 0
    assert machine.children() == {}
    assert all((tmp_path / "data" / each / ".kafka_cleanshutdown").exists() for each in "123")


def test_a_broker_that_is_killed_comes_back_at_its_port(start):
    machine = start("--brokers", "2", "--port", "0").wait_until_ready()
    before = machine.children()
    with Admin(machine.bootstrap) as admin:
        admin.topics.create(NewTopic("t", 1, assignment={0: [2]}))
        os.kill(before[2], signal.SIGKILL)
        until(lambda: machine.children().get(2) not in (None, before[2]))
        until(lambda: len(admin.cluster.describe().brokers) == 2)
    with Producer(machine.addresses[1]) as producer:
        assert producer.send("t", b"").result().offset == 0
    assert "broker.ended" in machine.errors.read_text()
    assert machine.children()[1] == before[1]


def test_brokers_end_in_order_when_their_parent_is_killed(start, tmp_path):
    machine = start("--brokers", "2", "--port", "0").wait_until_ready()
    brokers = machine.children().values()
    assert machine.end(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in brokers))
    assert all((tmp_path / "data" / each / ".kafka_cleanshutdown").exists() for each in "12")


def test_more_brokers_later_and_fewer_are_refused(start):
    assert start("--brokers", "1", "--port", "0").wait_until_ready().end() == 0
    assert start("--brokers", "2", "--port", "0").wait_until_ready().end() == 0
    machine = start("--brokers", "1", "--port", "0")
    assert machine.process.wait(READY_SECONDS) == 1
    assert "has data of broker 2, left out by --brokers 1: start all of them" in machine.errors.read_text()


def test_a_port_of_the_range_that_is_taken_ends_all_with_one_reason(start):
    first = free_port()
    taken = socket.socket()
    taken.bind(("127.0.0.1", first + 1))
    taken.listen()
    try:
        machine = start("--brokers", "3", "--port", str(first))
        assert machine.process.wait(READY_SECONDS) == 1
        assert re.search(
            r"^Error: broker 2 ended with exit code 1: .*in use", machine.errors.read_text(), re.MULTILINE
        )
        until(lambda: machine.children() == {})
    finally:
        taken.close()


@pytest.mark.parametrize("number", ["0", "-1", "1000", "two", ""])
def test_a_number_that_cannot_be(start, number):
    machine = start("--brokers", number)
    assert machine.process.wait(READY_SECONDS) != 0
    assert "a number up to 256, or auto" in machine.errors.read_text()


def test_a_setting_that_cannot_be_is_said_before_any_broker_starts(start):
    machine = start("--brokers", "2", "--set", "num.partitions=many")
    assert machine.process.wait(READY_SECONDS) == 1
    assert machine.errors.read_text().startswith("Error: Invalid value many for configuration num.partitions")


def test_brokers_that_stand_still_end_in_order_with_the_others(start, tmp_path):
    """As those of a debugger or of Ctrl-Z; one of them is the controller."""
    machine = start("--brokers", "3", "--port", "0").wait_until_ready()
    with Admin(machine.bootstrap) as admin:
        admin.topics.create(NewTopic("t", 6, 2))
    brokers = machine.children()
    for broker in (1, 2):
        os.kill(brokers[broker], signal.SIGSTOP)
    assert machine.end() == 0
    assert "broker.killed" not in machine.errors.read_text()
    assert all((tmp_path / "data" / each / ".kafka_cleanshutdown").exists() for each in "123")


def test_a_second_signal_does_not_wait(start):
    machine = start("--brokers", "2", "--port", "0").wait_until_ready()

    def ended():
        for pid in machine.children().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)  # they cannot end by themselves: the parent continues them once
        machine.process.send_signal(signal.SIGTERM)
        return machine.process.poll() is not None

    until(ended)
    assert machine.children() == {}


def test_a_signal_while_brokers_start_leaves_none(start):
    machine = start("--brokers", "2", "--port", "0")
    until(lambda: len(machine.children()) == 2)
    assert machine.end() == 0
    assert machine.children() == {}


ONCE_READY = """
import asyncio, pathlib, sys
from barnabas.node.machine.broker_processes import BrokerProcesses

lives = pathlib.Path(sys.argv[1])

def live(_id, _port):
    with lives.open("a") as file:
        file.write("x")
    if lives.stat().st_size == 1:
        print("ready PLAINTEXT://127.0.0.1:1 broker=1")
        sys.exit(0)
    print("Error: the disk is gone", file=sys.stderr)
    sys.exit(3)

async def run():
    machine = BrokerProcesses([1], live, restart_ms_min=1)
    await machine.start()
    print(await machine.failed())
    await machine.stop()
    print(machine.pids)

asyncio.run(run())
"""


def test_a_broker_that_ends_at_once_each_time_is_given_up_with_its_reason(tmp_path):
    """It was ready once, so it is tried again, with longer and longer pauses, and not for ever."""
    lives = tmp_path / "lives"
    done = subprocess.run(
        [sys.executable, "-c", ONCE_READY, str(lives)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["broker 1 ended with exit code 3: the disk is gone", "{}"]
    assert lives.stat().st_size == 1 + RESTARTS_MAX
    said = [line for line in done.stderr.splitlines() if line.startswith("[1]")]
    assert said == ["[1] Error: the disk is gone"] * RESTARTS_MAX


NO_PROCESS = """
import asyncio, errno, sys
from barnabas.node.machine import broker_processes
from barnabas.node.machine.broker_processes import BrokerProcesses

def live(_id, _port):
    print("x" * (4 << 20), file=sys.stderr)
    print("the end", file=sys.stderr)
    print("ready PLAINTEXT://127.0.0.1:1 broker=1")

async def run():
    machine = BrokerProcesses([1], live, restart_ms_min=1)
    await machine.start()

    async def fork(*_, **__):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    broker_processes.fork = fork
    print(await machine.failed())
    await machine.stop()

asyncio.run(run())
"""


def test_a_line_without_an_end_does_not_stop_a_broker_and_a_fork_that_fails_is_tried_again():
    """The parent read no further after a line that was too long, and gave a broker up without a word."""
    done = subprocess.run(
        [sys.executable, "-c", NO_PROCESS], capture_output=True, text=True, check=True, timeout=READY_SECONDS
    )
    assert done.stdout.endswith(": it cannot be forked: Resource temporarily unavailable\n")
    assert "[1] the end\n" in done.stderr
    assert done.stderr.count("broker.ended") == RESTARTS_MAX


SLOW = """
import asyncio, pathlib, sys, time
from barnabas.node import start_progress
from barnabas.node.machine import broker_processes
from barnabas.node.machine.broker_processes import BrokerProcesses, MachineError

broker_processes.PROGRESS_LOOK_S = float(sys.argv[3])
looks, done = [], pathlib.Path(sys.argv[2])

def processor_s(_pid):
    looks.append(0)
    if len(looks) == 4:
        done.touch()
    return float(len(looks)) if sys.argv[1] == "works" else 0.5

start_progress.processor_s = processor_s

def live(_id, _port):
    while not done.exists():
        time.sleep(0.01)
    print("ready PLAINTEXT://127.0.0.1:1 broker=1")

async def run():
    machine = BrokerProcesses([1], live)
    try:
        await machine.start()
        print(machine.addresses)
    except MachineError as error:
        print(error)
    await machine.stop()

asyncio.run(run())
"""


@pytest.mark.parametrize(
    ("does", "ready_s", "said"),
    [
        ("works", "0.2", "{1: 'PLAINTEXT://127.0.0.1:1'}"),
        ("works", "0", "{1: 'PLAINTEXT://127.0.0.1:1'}"),  # the first look is before the fork
        ("waits", "0.2", "not ready, and without work for 0.2 s: broker 1"),
    ],
)
def test_a_start_may_take_as_long_as_a_broker_works(does, ready_s, said, tmp_path):
    """Logs after a crash took longer than two minutes, and were ended then, again and again."""
    command = [sys.executable, "-c", SLOW, does, str(tmp_path / "done"), ready_s]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=READY_SECONDS)
    assert done.stdout.splitlines() == [said]
    assert ("broker.not_ready_yet" in done.stderr) == (does == "works")


def test_what_a_broker_and_its_children_work_is_counted():
    spin = "import time\nwhile time.process_time() < 0.3: pass\n"
    command = (
        f"import subprocess, sys\n{spin}subprocess.run([sys.executable, '-c', {spin!r}])\nprint()\ninput()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", command], start_new_session=True, **pipes) as child:
        child.stdout.readline()
        assert 0.5 < processor_s(child.pid) < 5
        child.communicate(b"\n")
    assert processor_s(child.pid) == 0


JUST_FORKED = """
import asyncio, os, signal, sys
from barnabas.node.machine import broker_processes
from barnabas.node.machine.broker_processes import BrokerProcesses

real, forked, children = broker_processes.fork, asyncio.Event(), []

async def fork(*given, **more):
    process = await real(*given, **more)
    children.append(process)
    forked.set()
    for _ in range(20):  # nobody has its pid yet
        await asyncio.sleep(0)
    return process

broker_processes.fork = fork

async def run():
    machine = BrokerProcesses([1], lambda *_: signal.pause())
    starting = asyncio.ensure_future(machine.start())
    await forked.wait()
    starting.cancel()
    if sys.argv[1] == "kill":
        machine.kill()
    await machine.stop()
    print([process.returncode for process in children])

asyncio.run(run())
"""


@pytest.mark.parametrize(("how", "code"), [("stop", -signal.SIGTERM), ("kill", -signal.SIGKILL)])
def test_a_signal_right_after_a_fork_leaves_no_broker(how, code):
    done = subprocess.run(
        [sys.executable, "-c", JUST_FORKED, how],
        capture_output=True,
        text=True,
        check=True,
        timeout=READY_SECONDS,
    )
    assert done.stdout == f"[{int(code)}]\n", done.stderr


def test_a_second_machine_does_not_share_the_first_ones_address(start):
    port = free_port()
    with socket.socket() as first:  # a broker of another machine
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            first.setsockopt(socket.SOL_SOCKET, option, 1)
        first.bind(("127.0.0.1", port))
        first.listen()
        machine = start("--brokers", "2", "--port", "0", "--bootstrap", str(port))
        assert machine.process.wait(READY_SECONDS) == 1
    said = machine.errors.read_text()
    assert f"Error: --bootstrap {port}: somebody listens at this port already" in said
    assert said.count("\n") == 1


def test_the_parent_that_forks_has_one_thread(start):
    """The name of the host that serves metrics was looked up in a thread, which stayed."""
    options = ["--host", "localhost", "--port", "0", "--set", "metrics.port=0"]
    machine = start("--brokers", "1", *options).wait_until_ready()
    assert len([*Path(f"/proc/{machine.process.pid}/task").iterdir()]) == 1


NOT_ENDING = """
import asyncio, os, signal, time
from barnabas.node.machine import broker_processes
from barnabas.node.machine.broker_processes import BrokerProcesses
from barnabas.node.machine.forked_process import ForkedProcess

broker_processes.STOP_S = broker_processes.KILL_S = broker_processes.LAST_WORDS_S = 0.2
send = ForkedProcess.send_signal
ForkedProcess.send_signal = lambda self, number: None  # as for one that waits for its disk

def live(id, _port):
    print(f"ready PLAINTEXT://127.0.0.1:{id} broker={id}")
    signal.pause()

async def run():
    machine = BrokerProcesses([1, 2], live)
    await machine.start()
    for stop_all_at_once in (False, True):
        if stop_all_at_once:
            machine.kill()
        await machine.stop()
    pids = machine.pids
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    print(machine.failure.replace(str(pids[2]), "PID"))

asyncio.run(run())
"""


def test_a_broker_that_the_system_does_not_end_is_left_behind_with_a_line():
    """The parent waited for it without an end, and so did whoever had started the parent."""
    done = subprocess.run(
        [sys.executable, "-c", NOT_ENDING], capture_output=True, text=True, check=True, timeout=READY_SECONDS
    )
    words = "broker 2, process PID, has not ended 0.2 s after SIGKILL: it may wait for a disk that does not"
    assert done.stdout.startswith(words)
    assert done.stderr.count("broker.left_behind broker=1 ") == 2


OPEN_PIPE = """
import asyncio, os, signal, sys, time
from barnabas.node.machine import broker_processes
from barnabas.node.machine.broker_processes import BrokerProcesses

broker_processes.LAST_WORDS_S = broker_processes._ENDED_LOOK_S = 0.1
lives = sys.argv[1]

def live(_id, _port):
    with open(lives, "a") as file:
        file.write("x")
    if os.path.getsize(lives) == 1 and not os.fork():
        while os.path.exists(lives):  # a child of the broker, which has its pipes
            time.sleep(0.05)
        os._exit(0)
    print("ready PLAINTEXT://127.0.0.1:1 broker=1")
    if os.path.getsize(lives) == 1:
        os._exit(1)
    signal.pause()

async def run():
    machine = BrokerProcesses([1], live, restart_ms_min=1)
    await machine.start()
    while os.path.getsize(lives) < 2:
        await asyncio.sleep(0.01)
    os.remove(lives)
    await machine.stop()
    print(machine.failure)

asyncio.run(run())
"""


def test_a_child_that_holds_a_brokers_pipes_does_not_keep_it_from_coming_back(tmp_path):
    command = [sys.executable, "-c", OPEN_PIPE, str(tmp_path / "lives")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=READY_SECONDS)
    assert done.stdout == "None\n"


def test_why_a_start_failed_is_said_though_it_was_to_end_meanwhile(start):
    """A signal that came while the other brokers were ended made a start that failed one that was stopped."""
    first = free_ports(2)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", first))
        taken.listen()
        machine = start("--brokers", "2", "--port", str(first))
        until(lambda: len(machine.children()) == 2)
        held = machine.children()[2]

        def failed():
            """Whether broker 1 has; 2, which stands still, goes on for a moment, lest it holds the store."""
            with suppress(ProcessLookupError):
                os.kill(held, signal.SIGCONT)
                time.sleep(0.05)
                os.kill(held, signal.SIGSTOP)  # it is waited for
            return "in use" in machine.errors.read_text()

        until(failed)
        # The first asks for an end, a later one for an end at once. Each has time to be heard: one that comes
        # when nobody listens any more would end the parent itself.
        while 2 in machine.children():
            machine.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        assert machine.process.wait(READY_SECONDS) == 1
    assert re.search(
        r"^Error: broker 1 ended with exit code 1: .*in use", machine.errors.read_text(), re.MULTILINE
    )


FAILS_IN_ITS_END = """
import asyncio, signal, sys
from barnabas.node.machine.broker_processes import BrokerProcesses

def live(id, _port):
    def end(*_):
        print(f"Error: the disk of {id} is gone", file=sys.stderr)
        sys.exit(3)
    signal.signal(signal.SIGTERM, end)
    print(f"ready PLAINTEXT://127.0.0.1:{id} broker={id}")
    while True:
        signal.pause()

async def run():
    machine = BrokerProcesses([1, 2], live)
    await machine.start()
    await machine.stop()
    print(machine.failure)

asyncio.run(run())
"""


def test_a_broker_that_fails_in_its_end_says_so_to_the_last_line():
    done = subprocess.run(
        [sys.executable, "-c", FAILS_IN_ITS_END], capture_output=True, text=True, check=True
    )
    assert done.stdout == "broker 2 ended with exit code 3: the disk of 2 is gone\n"
    assert {"[1] Error: the disk of 1 is gone", "[2] Error: the disk of 2 is gone"} <= {
        *done.stderr.splitlines()
    }


def serve_with(limits, *options):
    """``barnabas serve`` under this soft and hard limit of descriptors."""

    def before():
        die_with_parent()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    return subprocess.Popen(
        [sys.executable, "-m", "barnabas", "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,  # noqa: PLW1509 - it makes system calls only
    )


def test_too_few_descriptors_for_so_many_brokers_are_said_before_any_starts(tmp_path):
    """Sixteen brokers became ready with 100, and then had none left for each other."""
    refused = serve_with((100, 100), "--brokers", "16", "--port", "0", "--data", str(tmp_path / "data"))
    said = refused.communicate(timeout=READY_SECONDS)[1]
    assert refused.returncode == 1
    assert said.startswith(
        "Error: --brokers 16: each of them needs 160 open files and sockets at least, and may have 100 here"
    )
    assert (said.count("\n"), [*tmp_path.iterdir()]) == (1, [])


def test_what_is_said_to_be_enough_is_and_the_soft_limit_is_raised_to_it(tmp_path):
    machine = serve_with((40, 88), "--brokers", "4", "--port", "0", "--data", str(tmp_path / "data"))
    addresses = re.findall(r"127\.0\.0\.1:\d+", machine.stdout.readline())
    with Admin(",".join(addresses)) as admin, Producer(",".join(addresses), acks="all") as producer:
        admin.topics.create(NewTopic("t", 16, 2))
        for sent in [producer.send("t", b"", partition=each) for each in range(16)]:
            sent.result()
        until(lambda: {len(one.isr) for one in admin.topics.describe(["t"])["t"].partitions} == {2})
    machine.terminate()
    machine.communicate(timeout=READY_SECONDS)
    assert machine.returncode == 0


PATIENCE = """
import sys
from barnabas.cli.main import main
from barnabas.node import start_progress
from barnabas.node.machine import broker_processes

broker_processes.PROGRESS_LOOK_S = float(sys.argv.pop(1))
start_progress.WORK_S = 0.0  # it gets on until it accepts, however little of a processor it has
main()
"""


def test_clients_that_hammer_a_broker_are_no_sign_that_its_start_gets_on(join_cluster, tmp_path):
    """The controller hangs, so the broker never knows its cluster; who asked it kept the machine waiting."""
    controller = join_cluster(9, "--set", "zookeeper.session.timeout.ms=300000")
    controller.wait_until_ready()
    os.kill(controller.process.pid, signal.SIGSTOP)
    port = free_port()
    options = [
        "--brokers",
        "1",
        "--port",
        str(port),
        "--data",
        str(tmp_path / "data"),
        "--store",
        str(tmp_path),
    ]
    command = [sys.executable, "-c", PATIENCE, "2", "serve", *options]
    machine = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes one system call
    )
    try:
        asked = 0
        while machine.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as client:
                client.sendall(API_VERSIONS)
                asked += bool(client.recv(4))
    finally:
        os.kill(controller.process.pid, signal.SIGCONT)
        machine.kill()
    said = machine.communicate()[1]
    assert "Error: not ready, and without work for 2 s: broker 1\n" in said
    assert asked > 0
    assert controller.stop() == 0


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system does not tell of a process's end")
def test_who_waits_for_its_parents_end_sets_no_timer():
    class Timerless(asyncio.SelectorEventLoop):
        def call_at(self, when, callback, *args, context=None):
            raise AssertionError(f"{callback} is to wake the loop")

    async def wait_a_while():
        waiting = asyncio.ensure_future(parent_is_gone(os.getppid()))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    with asyncio.Runner(loop_factory=Timerless) as runner:
        runner.run(wait_a_while())
