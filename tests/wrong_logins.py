"""A broker whose clients log in, and strangers who try: wrong log-ins by the hundred, also while the broker's
store stalls.
"""

import asyncio
import contextlib
import itertools
from pathlib import Path

from barnabas.admin import AsyncAdmin
from barnabas.admin.quotas import UserScramCredentialUpsertion
from barnabas.client import AsyncProducer
from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
)
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from serving import free_port

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
AT_ONCE = 150
GROWTH_BYTES_MAX = 24 << 20
LINES_MAX = 20
"""Of the log, about a store that stalls: strangers who are refused write none."""
FIRST_OF_SCRAM = b"n,,n=%s,r=fyko+d2lbbFgONRv9qkxdawL"


def secured(port):
    """The settings of a broker with an authorizer."""
    users = " ".join(f'user_{user}="{user}-secret"' for user in ("admin", "alice"))
    return {
        "listeners": f"CLIENTS://127.0.0.1:{port},INNER://127.0.0.1:{free_port()}",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN} required {users};",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        # All come at once. Who finds no room in the queue of the kernel tries again a second later.
        "socket.listen.backlog.size": 2 * AT_ONCE,
    }


def login(port, user, mechanism="PLAIN", password=None):
    """What options a user connects with."""
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password or f"{user}-secret"}";',
    }


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


async def is_let_in(options):
    try:
        async with AsyncAdmin(options) as admin:
            await admin.topics.list()
    except SaslAuthenticationError:
        return False
    return True


async def while_a_store_stalls(server, port, stalled, *, until=lambda: True):
    """Strangers attack while nothing goes through to the store of a broker, which has the topic `orders` and
    the user alice, known by PLAIN and by SCRAM: she works on, nobody new gets in.
    In the context that `stalled` makes the store stalls; strangers come until `until` says that it is enough.
    """
    known, new = (login(port, user, "SCRAM-SHA-256", "other") for user in ("alice", "bob"))
    async with AsyncAdmin(login(port, "admin")) as admin, AsyncProducer(login(port, "alice")) as producer:
        await admin.acls.create(rules(Operation.WRITE))
        while not await is_sent(producer):
            pass
        # What a broker has for many connections at once it keeps.
        await attack(port, AT_ONCE)
        memory, lines = resident_bytes(server.process.pid), lines_of(server)
        with stalled():
            bob = UserScramCredentialUpsertion("bob", "SCRAM-SHA-256", "other")
            adding = asyncio.create_task(admin.quotas.alter_scram_credentials([bob]))
            refusals = await attack(port, AT_ONCE)
            while not until():
                refusals += await attack(port, AT_ONCE)
            assert set(refusals) == {ErrorCode.SASL_AUTHENTICATION_FAILED}
            for number in range(20):
                await producer.send_and_wait("orders", b"%d" % number)
            assert (await is_let_in(known), await is_let_in(new)) == (True, False)
            assert not adding.done()
        assert resident_bytes(server.process.pid) - memory < GROWTH_BYTES_MAX
        with contextlib.suppress(KafkaError):
            await adding
        while not await is_let_in(new):
            with contextlib.suppress(KafkaError):  # the session with the store may have ended
                await admin.quotas.alter_scram_credentials([bob])
        assert lines_of(server) - lines < LINES_MAX


async def is_sent(producer):
    """Whether a record may be written yet: of a rule each broker hears a moment after it is made."""
    try:
        await producer.send_and_wait("orders", b"before")
    except KafkaError:
        return False
    return True


def lines_of(server):
    return server.log.read_bytes().count(b"\n")
