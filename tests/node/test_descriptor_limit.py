"""A broker that may have few descriptors: connections are refused, and no disk suffers."""

import contextlib
import re
import resource
import select
import socket
from pathlib import Path

import pytest

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.client import Producer
from waiting import until

TIMEOUT_S = 20


def limits_of(pid):
    line = re.search(r"^Max open files +(\d+) +(\d+)", Path(f"/proc/{pid}/limits").read_text(), re.MULTILINE)
    return int(line[1]), int(line[2])


def test_serve_raises_its_soft_limit_to_the_hard_one(tmp_path, serve):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Not far below: this process has files of other tests open.
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1000), hard))
    try:
        server = serve(tmp_path / "data")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    broker = server.wait_until_ready()

    assert limits_of(broker.pid) == (hard, hard)
    assert server.stop() == 0


@pytest.fixture
def idle():
    """Opens connections that send nothing."""
    open_ones = []

    def connect(broker, count):
        open_ones.extend(
            socket.create_connection((broker.host, broker.port), TIMEOUT_S) for _ in range(count)
        )
        return open_ones

    yield connect
    for sock in open_ones:
        sock.close()


def closed_by_the_broker(sockets):
    """How many of these connections the broker has ended."""
    poll = select.poll()
    for sock in sockets:
        poll.register(sock, select.POLLIN)
    return len(poll.poll(0))


def test_idle_connections_up_to_the_limit_leave_a_producer_and_its_segments_unharmed(tmp_path, serve, idle):
    limit, reserve, crowd, rolled = 300, 75, 260, 40
    server = serve(tmp_path / "data", "--log-level", "warning")
    broker = server.wait_until_ready()
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit, limit))
    with Admin(broker.bootstrap) as admin:
        # A segment takes about ten of the records below.
        admin.topics.create(NewTopic("rolls", partitions=1, configs={"segment.bytes": "20000"}))
    with Producer(broker.bootstrap, linger_ms=0) as producer:
        producer.send_and_wait("rolls", b"x" * 2000)
        sockets = idle(broker, crowd)
        # All are accepted or refused; the listener rests in between.
        until(lambda: closed_by_the_broker(sockets) >= crowd - (limit - reserve))
        descriptors = Path(f"/proc/{broker.pid}/fd")
        until(lambda: len(list(descriptors.iterdir())) <= limit - reserve)
        for _ in range(rolled * 10):
            producer.send_and_wait("rolls", b"x" * 2000)
        assert len(list((broker.data_dir / "rolls-0").glob("*.log"))) >= rolled

        # When the crowd has gone, clients are served again.
        for sock in sockets:
            sock.close()
        until(lambda: len(list(descriptors.iterdir())) < limit // 2)
        with contextlib.closing(socket.create_connection((broker.host, broker.port), TIMEOUT_S)) as late:
            late.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff")
            assert late.recv(4)
    log = server.log.read_text()
    assert log.count("network.connections_refused") == 1
    assert "log_dir.failed" not in log
    assert server.stop() == 0
