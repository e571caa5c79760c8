"""A broker that is frozen beyond its session and goes on: it is fenced, and joins again."""

import signal
import socket
import struct
from pathlib import Path

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from waiting import until

FREEZES = 2


def brokers(server):
    """The brokers that this one, and no other, tells of."""
    request = encode_request(RequestHeader(ApiKey.METADATA, 9, 7, "witness"), MetadataRequest(topics=[]))
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"".join(request))
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        answer, _ = MetadataResponse.decode(stream.read(size), 9, 5)
    return sorted(broker.node_id for broker in answer.brokers)


def descriptors_of_store(server):
    """What a process has open of its metadata store."""
    found = []
    for each in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            target = str(each.readlink())
        except FileNotFoundError:
            continue
        if "metadata.sqlite" in target or "pidfd" in target or "eventfd" in target:
            found.append(target)
    return len(found)


@pytest.mark.parametrize("frozen", [0, 1], ids=["the controller", "another"])
def test_a_frozen_broker_joins_again_with_nothing_left_over(tmp_path, join_cluster, frozen):
    servers = []
    for broker_id in (1, 2):
        servers.append(join_cluster(broker_id, "--set", "zookeeper.session.timeout.ms=3000"))
        servers[-1].wait_until_ready()
    victim, witness = servers[frozen], servers[1 - frozen]
    until(lambda: brokers(witness) == [1, 2], "both are there")
    before = descriptors_of_store(victim)
    for _ in range(FREEZES):
        victim.process.send_signal(signal.SIGSTOP)
        until(lambda: brokers(witness) == [2 - frozen], "its session is over")
        victim.process.send_signal(signal.SIGCONT)
        until(lambda: brokers(witness) == [1, 2], "it is back")
        until(lambda: brokers(victim) == [1, 2], "it knows so itself")

    assert descriptors_of_store(victim) == before
    errors = [line for line in victim.tail().splitlines() if " ERROR " in line]
    assert len(errors) <= FREEZES, errors
    assert len(list((tmp_path / "metadata.sqlite.sessions").iterdir())) == 4
    for server in servers:
        assert server.stop() == 0
