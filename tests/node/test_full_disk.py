"""A broker whose disk is full:
producers wait, readers go on, and records are taken again when there is room. So are users and access rules.
"""

import contextlib
import ctypes
import os
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from barnabas.admin.admin import Admin
from barnabas.admin.quotas import UserScramCredentialDeletion, UserScramCredentialUpsertion
from barnabas.admin.types import NewTopic
from barnabas.core.acl import Operation
from barnabas.core.errors import ErrorCode, KafkaError
from serving import free_port
from transactional_ids import coordinated, init
from waiting import until
from wrong_logins import is_let_in, login, rules, secured

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

from wire_peer import WirePeer

ROOM = 12 << 20
VALUE = bytes(10_000)
TIMEOUT_S = 60


@pytest.fixture
def small_disk(tmp_path):
    """A file system in memory of so many bytes. The broker's log is beside it, where there is room."""
    libc = ctypes.CDLL(None, use_errno=True)
    path = tmp_path / "data"
    path.mkdir()
    if libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, b"size=%d" % ROOM):
        pytest.skip(f"no file system can be mounted here: {os.strerror(ctypes.get_errno())}")
    yield path
    lazily = 2  # MNT_DETACH: a broker that did not stop may still hold it
    libc.umount2(os.fsencode(path), lazily)


def read_all(bootstrap, end):
    """The values from the beginning up to the offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    found = []
    deadline = time.monotonic() + TIMEOUT_S
    try:
        consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
        while len(found) < end:
            assert time.monotonic() < deadline, f"{len(found)} of {end} records can be read"
            found += [record.value() for record in consumer.consume(500, 1) if not record.error()]
    finally:
        consumer.close()
    return found


@pytest.mark.timeout(240)
def test_a_full_disk_refuses_records_serves_what_it_has_and_goes_on_when_there_is_room(serve, small_disk):
    server = serve(small_disk)
    server.wait_until_ready()
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("t", 1, 1, configs={"segment.bytes": "1000000"}))
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 << 20))
    acknowledged = []
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": TIMEOUT_S * 1000,
        }
    )

    def send(number):
        value = b"%d:" % number + VALUE
        producer.produce(
            "t", value, partition=0, on_delivery=lambda error, _: error or acknowledged.append(value)
        )

    # More than fits beside the ballast, by a megabyte, and less than the whole disk takes.
    total = 3 * ROOM // 4 // len(VALUE)
    for number in range(total):
        send(number)
    deadline = time.monotonic() + TIMEOUT_S
    while "directory.full" not in server.tail():
        assert time.monotonic() < deadline
        producer.poll(0.1)
    while producer.poll(0.5):
        pass
    fitted = list(acknowledged)
    assert 0 < len(fitted) < total
    assert read_all(server.bootstrap, len(fitted))[: len(fitted)] == fitted

    ballast.unlink()
    assert producer.flush(TIMEOUT_S) == 0
    assert len(acknowledged) == total
    assert read_all(server.bootstrap, total) == acknowledged
    assert "offline" not in server.tail()
    assert server.stop() == 0
    again = serve(small_disk)
    again.wait_until_ready()
    assert read_all(again.bootstrap, total) == acknowledged
    assert again.stop() == 0


@pytest.mark.timeout(240)
def test_a_full_disk_below_the_state_of_transactions(serve, small_disk):
    """Nothing counts that could not be written; with room again everything goes on."""
    server = serve(small_disk, "--set", "transaction.state.log.num.partitions=1")
    server.wait_until_ready()
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("t", 1, 1))
    with WirePeer(server.port) as peer:
        coordinated(peer)
        assert peer.ask(init("clerk"), 2).error_code == 0
        room = small_disk / "ballast"
        with room.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(bytes(4096)):
                pass
        # A few still fit into the last pages of the files.
        answers = (peer.ask(init(f"clerk-{number}"), 2) for number in range(2_000))
        refusal = next(ErrorCode(answer.error_code) for answer in answers if answer.error_code)
        assert refusal in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        room.unlink()
        until(lambda: peer.ask(init("clerk"), 2).error_code == 0)
    assert server.stop() == 0
    again = serve(small_disk)
    again.wait_until_ready()
    with WirePeer(again.port) as peer:
        coordinated(peer)
        assert peer.ask(init("clerk"), 2).producer_epoch == 2


@pytest.mark.timeout(240)
def test_a_full_disk_below_the_users_leaves_them_as_they_are(serve, small_disk, run):
    """A user who could not be written is none, one who could not be removed is still there."""
    port = free_port()
    settings = [word for pair in secured(port).items() for word in ("--set", "{}={}".format(*pair))]
    server = serve(small_disk, *settings, port=port)
    server.wait_until_ready()

    def added(user):
        return UserScramCredentialUpsertion(user, "SCRAM-SHA-256", f"{user}-password")

    def who_is_let_in():
        ways = {user: login(port, user, "SCRAM-SHA-256", f"{user}-password") for user in ("alice", "bob")}
        return [user for user, way in ways.items() if run(is_let_in(way), TIMEOUT_S)]

    removed = UserScramCredentialDeletion("alice", "SCRAM-SHA-256")
    with Admin(login(port, "admin")) as admin:
        admin.quotas.alter_scram_credentials([added("alice")])
        room = small_disk / "ballast"
        with room.open("wb", buffering=0) as ballast:
            for size in (4096, 1):
                with contextlib.suppress(OSError):
                    while ballast.write(bytes(size)):
                        pass
        for change in (added("bob"), removed):
            with pytest.raises(KafkaError):
                admin.quotas.alter_scram_credentials([change])
        with pytest.raises(KafkaError):
            admin.acls.create(rules(Operation.WRITE))
        assert who_is_let_in() == ["alice"]
        room.unlink()
        admin.quotas.alter_scram_credentials([added("bob"), removed])
        assert who_is_let_in() == ["bob"]
    log = server.log.read_text()
    assert "is full: free some space there" in log
    assert "password" not in log
    assert "Traceback" not in log
    assert server.stop() == 0
