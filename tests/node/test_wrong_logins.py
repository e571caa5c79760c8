"""Thousands of wrong log-ins, and rights that are taken, beside clients that have done nothing wrong."""

import asyncio
import contextlib
import itertools
import os
from pathlib import Path

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.admin.quotas import UserScramCredentialUpsertion
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
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from serving import free_port

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
ATTEMPTS = int(os.environ.get("BARNABAS_TEST_LOGINS", "1500"))
AT_ONCE = 150
GROWTH_BYTES_MAX = 24 << 20
FIRST_OF_SCRAM = b"n,,n=%s,r=fyko+d2lbbFgONRv9qkxdawL"


@pytest.fixture
def secure(serve, tmp_path):
    """A broker with an authorizer, its port, and what options a user connects with."""
    port = free_port()
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
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    server = serve(tmp_path / "data", *options, port=port)
    server.wait_until_ready()

    def options_of(user):
        return {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="{user}" password="{user}-secret";',
        }

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

    refusals, written, growth = run(scenario(), 120)
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
