"""Thousands of wrong log-ins, and rights that are taken, beside clients that have done nothing wrong."""

import asyncio
import contextlib
import functools
import itertools
import os
import sqlite3
from pathlib import Path

import pytest

from barnabas.admin import Admin, AsyncAdmin, NewTopic
from barnabas.admin.quotas import UserScramCredentialDeletion, UserScramCredentialUpsertion
from barnabas.client import AsyncConsumer, AsyncProducer
from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
)
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from serving import free_port

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
ATTEMPTS = int(os.environ.get("BARNABAS_TEST_LOGINS", "1500"))
LOGINS_S = 100 + ATTEMPTS // 50
AT_ONCE = 150
GROWTH_BYTES_MAX = 24 << 20
FIRST_OF_SCRAM = b"n,,n=%s,r=fyko+d2lbbFgONRv9qkxdawL"


def secured(port):
    """A broker with an authorizer, as flags of `barnabas serve`."""
    users = " ".join(f'user_{user}="{user}-secret"' for user in ("admin", "alice"))
    settings = {
        "listeners": f"CLIENTS://127.0.0.1:{port},INNER://127.0.0.1:{free_port()}",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN} required {users};",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def login(port, user, mechanism="PLAIN", password=None):
    """What options a user connects with."""
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password or f"{user}-secret"}";',
    }


@pytest.fixture
def secure(serve, tmp_path):
    """A broker, its port, and what options a user connects with."""
    port = free_port()
    server = serve(tmp_path / "data", *secured(port), port=port)
    server.wait_until_ready()
    options_of = functools.partial(login, port)
    with Admin(options_of("admin")) as admin:
        admin.topics.create(NewTopic("orders", 1, 1))
        admin.quotas.alter_scram_credentials(
            [UserScramCredentialUpsertion("alice", "SCRAM-SHA-256", "other")]
        )
    yield server, port, options_of
    assert server.stop() == 0


def rules(*operations, resource=Resource.TOPIC, name="orders"):
    pattern = ResourcePattern(resource, name, PatternType.LITERAL)
    return [
        AclBinding(pattern, AccessControlEntry("User:alice", "*", operation, Permission.ALLOW))
        for operation in operations
    ]


async def asked(reader, writer, request, version):
    writer.write(b"".join(encode_request(RequestHeader(request.api, version, 1, "x"), request)))
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    return decode_response(request.api, version, memoryview(bytearray(frame)))[1]


async def wrong_login(port, number):
    """One wrong log-in, in one of four ways; the code of its refusal."""
    ways = (
        ("PLAIN", [b"\0alice\0wrong"]),
        ("PLAIN", [b"\0user-%d\0wrong" % number]),
        ("SCRAM-SHA-256", [FIRST_OF_SCRAM % b"alice", None]),
        ("SCRAM-SHA-256", [FIRST_OF_SCRAM % b"user-%d" % number, None]),
    )
    mechanism, tokens = ways[number % len(ways)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await asked(reader, writer, SaslHandshakeRequest(mechanism=mechanism), 1)
        nonce = b""
        for token in tokens:
            said = token
            if said is None:
                said = b"c=biws,r=%s,p=%s" % (nonce, b"A" * 43 + b"=")
            answer = await asked(reader, writer, SaslAuthenticateRequest(auth_bytes=said), 2)
            nonce = bytes(answer.auth_bytes).partition(b",")[0][2:]
        assert await reader.read() == b""
        return answer.error_code
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def resident_bytes(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


async def attack(port, attempts):
    numbers = itertools.count()

    async def one():
        found = []
        while (number := next(numbers)) < attempts:
            found.append(await wrong_login(port, number))
        return found

    return list(itertools.chain(*await asyncio.gather(*(one() for _ in range(AT_ONCE)))))


@pytest.mark.timeout(20 + LOGINS_S)
def test_thousands_of_wrong_logins_hurt_nobody(secure, run):
    server, port, options_of = secure
    with Admin(options_of("admin")) as admin:
        admin.acls.create(rules(Operation.WRITE, Operation.READ))

    async def scenario():
        async with AsyncProducer(options_of("alice")) as producer:
            # What a broker has for many connections at once it keeps.
            await attack(port, AT_ONCE * 2)
            before = resident_bytes(server.process.pid)
            running = asyncio.create_task(attack(port, ATTEMPTS))
            written = 0
            while not running.done():
                await producer.send_and_wait("orders", b"%d" % written)
                written += 1
            return await running, written, resident_bytes(server.process.pid) - before

    refusals, written, growth = run(scenario(), LOGINS_S)
    assert refusals == [ErrorCode.SASL_AUTHENTICATION_FAILED] * ATTEMPTS
    assert written > ATTEMPTS // AT_ONCE
    assert growth < GROWTH_BYTES_MAX


async def poll_on(consumer):
    while True:
        await consumer.poll(timeout_ms=100)


def test_rights_that_are_taken_end_what_open_connections_do(secure, run):
    _, _, options_of = secure
    admin_of = Admin(options_of("admin"))
    group = rules(Operation.READ, resource=Resource.GROUP, name="readers")

    async def scenario(admin):
        admin.acls.create([*rules(Operation.WRITE, Operation.READ), *group])
        reading = {**options_of("alice"), "group.id": "readers", "auto.offset.reset": "earliest"}
        async with AsyncProducer(options_of("alice")) as producer, AsyncConsumer(reading) as consumer:
            await producer.send_and_wait("orders", b"before")
            consumer.subscribe(["orders"])
            while not await consumer.poll(timeout_ms=100):
                pass
            admin.acls.delete([AclFilter(principal="User:alice", operation=Operation.WRITE)])
            with pytest.raises(KafkaError) as denied:
                await producer.send_and_wait("orders", b"after")
            codes = [denied.value.code]
            # Reading is another right, and is still there.
            assert await consumer.poll(timeout_ms=100) == []
            admin.acls.delete([AclFilter(principal="User:alice", resource=Resource.TOPIC)])
            with pytest.raises(KafkaError) as denied:
                await poll_on(consumer)
            codes.append(denied.value.code)
            admin.acls.create(rules(Operation.WRITE, Operation.READ))
            await producer.send_and_wait("orders", b"again")
            return codes

    with admin_of as admin:
        assert run(scenario(admin), 60) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2


async def is_let_in(options):
    try:
        async with AsyncAdmin(options) as admin:
            await admin.topics.list()
    except SaslAuthenticationError:
        return False
    return True


def test_while_the_store_stalls_nobody_new_gets_in_and_nobody_else_waits(secure, run):
    """Another process has the embedded store: no write goes through until it lets go."""
    server, port, options_of = secure
    known, new = (login(port, user, "SCRAM-SHA-256", "other") for user in ("alice", "bob"))

    async def scenario():
        async with AsyncAdmin(options_of("admin")) as admin, AsyncProducer(options_of("alice")) as producer:
            await admin.acls.create(rules(Operation.WRITE))
            await producer.send_and_wait("orders", b"before")
            with contextlib.closing(sqlite3.connect(server.data_dir / "metadata.sqlite")) as store:
                store.execute("BEGIN IMMEDIATE")
                bob = UserScramCredentialUpsertion("bob", "SCRAM-SHA-256", "other")
                adding = asyncio.create_task(admin.quotas.alter_scram_credentials([bob]))
                refusals = await attack(port, AT_ONCE)
                assert refusals == [ErrorCode.SASL_AUTHENTICATION_FAILED] * AT_ONCE
                for number in range(20):
                    await producer.send_and_wait("orders", b"%d" % number)
                assert (await is_let_in(known), await is_let_in(new)) == (True, False)
                assert not adding.done()
                store.rollback()
            await adding
            while not await is_let_in(new):
                pass

    run(scenario(), 60)


async def may_describe(reader, writer, topic):
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = (await asked(reader, writer, request, 9)).topics
    return found.error_code == ErrorCode.NONE


def test_rules_and_users_that_one_broker_is_told_of_hold_on_the_other(join_cluster, run):
    """On a connection that was open before, and for the next log-in."""
    first, second = ports = [free_port(), free_port()]
    servers = [join_cluster(number, *secured(port), port=port) for number, port in enumerate(ports, 1)]
    for server in servers:
        server.wait_until_ready()
    bob = login(second, "bob", "SCRAM-SHA-256", "other")

    async def until(look, wanted):
        while await look() is not wanted:  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.005)

    async def scenario():
        reader, writer = await asyncio.open_connection("127.0.0.1", second)
        await asked(reader, writer, SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await asked(reader, writer, SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
        async with AsyncAdmin(login(first, "admin")) as admin:
            await admin.topics.create(NewTopic("orders", 1, 2))
            may = functools.partial(may_describe, reader, writer, "orders")
            assert not await may()
            await admin.acls.create(rules(Operation.DESCRIBE))
            await until(may, True)
            await admin.acls.delete([AclFilter(principal="User:alice")])
            await until(may, False)

            gets_in = functools.partial(is_let_in, bob)
            assert not await gets_in()
            await admin.quotas.alter_scram_credentials(
                [UserScramCredentialUpsertion("bob", "SCRAM-SHA-256", "other")]
            )
            await until(gets_in, True)
            await admin.quotas.alter_scram_credentials([UserScramCredentialDeletion("bob", "SCRAM-SHA-256")])
            await until(gets_in, False)
        writer.close()

    run(scenario(), 60)
    for server in servers:
        assert server.stop() == 0
