"""Thousands of wrong log-ins, and rights that are taken, beside clients that have done nothing wrong."""

import asyncio
import contextlib
import functools
import sqlite3
import time

import pytest

from barnabas.admin import Admin, AsyncAdmin, NewTopic
from barnabas.admin.quotas import (
    ClientQuotaAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from barnabas.client import AsyncConsumer, AsyncProducer
from barnabas.core.acl import AclFilter, Operation, Resource
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from serving import free_port
from wrong_logins import (
    AT_ONCE,
    GROWTH_BYTES_MAX,
    asked,
    attack,
    is_let_in,
    login,
    resident_bytes,
    rules,
    secured,
    while_a_store_stalls,
)

MANY = 100_000
LOGINS_A_SECOND_MIN = 50
"""Of what a busy machine is given time for."""


def flags(settings):
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


@pytest.fixture
def secure(serve, tmp_path):
    """A broker, its port, and what options a user connects with."""
    port = free_port()
    server = serve(tmp_path / "data", *flags(secured(port)), port=port)
    server.wait_until_ready()
    options_of = functools.partial(login, port)
    with Admin(options_of("admin")) as admin:
        admin.topics.create(NewTopic("orders", 1, 1))
        admin.quotas.alter_scram_credentials(
            [UserScramCredentialUpsertion("alice", "SCRAM-SHA-256", "other")]
        )
    yield server, port, options_of
    assert server.stop() == 0


def seconds_for(attempts):
    return 100 + attempts // LOGINS_A_SECOND_MIN


@pytest.mark.timeout(20 + seconds_for(1500))
def test_thousands_of_wrong_logins_hurt_nobody(secure, run):
    attacked_beside_a_producer(secure, run, 1500)


@pytest.mark.campaign
@pytest.mark.timeout(20 + seconds_for(MANY))
def test_a_hundred_thousand_wrong_logins_hurt_nobody(secure, run):
    attacked_beside_a_producer(secure, run, MANY)


def attacked_beside_a_producer(secure, run, attempts):
    """Strangers come while somebody writes: all are refused, each record is taken, and memory is flat."""
    server, port, options_of = secure
    with Admin(options_of("admin")) as admin:
        admin.acls.create(rules(Operation.WRITE, Operation.READ))

    async def scenario():
        async with AsyncProducer(options_of("alice")) as producer:
            # What a broker has for many connections at once it keeps.
            await attack(port, AT_ONCE * 2)
            before = resident_bytes(server.process.pid)
            running = asyncio.create_task(attack(port, attempts))
            written = 0
            while not running.done():
                await producer.send_and_wait("orders", b"%d" % written)
                written += 1
            return await running, written, resident_bytes(server.process.pid) - before

    refusals, written, growth = run(scenario(), seconds_for(attempts))
    assert refusals == [ErrorCode.SASL_AUTHENTICATION_FAILED] * attempts
    assert written > attempts // AT_ONCE
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


def test_while_the_store_stalls_nobody_new_gets_in_and_nobody_else_waits(secure, run):
    """Another process has the embedded store: no write goes through until it lets go."""
    server, port, _ = secure

    @contextlib.contextmanager
    def stalled():
        with contextlib.closing(sqlite3.connect(server.data_dir / "metadata.sqlite")) as store:
            store.execute("BEGIN IMMEDIATE")
            yield
            store.rollback()

    run(while_a_store_stalls(server, port, stalled), 60)


async def may_describe(reader, writer, topic):
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = (await asked(reader, writer, request, 9)).topics
    return found.error_code == ErrorCode.NONE


HEARD_WITHIN_S = 1.0
"""What a broker is told holds on all of them within this, where the machine has time for them."""
PATIENCE_S = 15.0
TURNS = 2


def test_what_one_broker_is_told_holds_on_the_other(join_cluster, run):
    """Access rules and quotas on a connection that was open before, users for the next log-in of one."""
    first, second = ports = [free_port(), free_port()]
    short = {"listener.name.clients.scram-sha-256.connections.max.reauth.ms": "1500"}
    servers = [
        join_cluster(number, *flags({**secured(port), **short}), port=port)
        for number, port in enumerate(ports, 1)
    ]
    for server in servers:
        server.wait_until_ready()
    bob = login(second, "bob", "SCRAM-SHA-256", "other")
    waits = []

    async def until(look, wanted):
        began = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            while await look() is not wanted:  # noqa: ASYNC110 - what is waited for happens in another process
                await asyncio.sleep(0.005)
        waits.append(time.monotonic() - began)

    async def scenario(admin):
        reader, writer = await asyncio.open_connection("127.0.0.1", second)
        await asked(reader, writer, SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await asked(reader, writer, SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
        await admin.topics.create(NewTopic("orders", 1, 2))
        may = functools.partial(may_describe, reader, writer, "orders")
        assert not await may()
        for _ in range(TURNS):
            await admin.acls.create(rules(Operation.DESCRIBE))
            await until(may, True)
            await admin.acls.delete([AclFilter(principal="User:alice")])
            await until(may, False)

        gets_in = functools.partial(is_let_in, bob)
        assert not await gets_in()
        for _ in range(TURNS):
            await admin.quotas.alter_scram_credentials(
                [UserScramCredentialUpsertion("bob", "SCRAM-SHA-256", "other")]
            )
            await until(gets_in, True)
            async with AsyncAdmin(bob) as inside:
                await inside.topics.list()
                await admin.quotas.alter_scram_credentials(
                    [UserScramCredentialDeletion("bob", "SCRAM-SHA-256")]
                )
                await until(gets_in, False)
                # He was in before: he is out when his session ends.
                async with asyncio.timeout(PATIENCE_S):
                    with pytest.raises(SaslAuthenticationError):
                        await stay_in(inside)

        waited = functools.partial(is_throttled, reader, writer)
        assert not await waited()
        of_alice = functools.partial(ClientQuotaAlteration, {"user": "alice"})
        await admin.quotas.alter(of_alice({"request_percentage": 0.001}))
        await until(waited, True)
        await admin.quotas.alter(of_alice({"request_percentage": None}))
        async with asyncio.timeout(PATIENCE_S):
            while await waited():  # each answer is followed by a second of silence
                pass
        writer.close()

    async def with_admin():
        async with AsyncAdmin(login(first, "admin")) as admin:
            await scenario(admin)

    run(with_admin(), 100)
    assert sorted(waits)[len(waits) // 2] < HEARD_WITHIN_S, waits
    for server in servers:
        assert server.stop() == 0


async def stay_in(admin):
    while True:
        await admin.topics.list()


async def is_throttled(reader, writer):
    return (await asked(reader, writer, MetadataRequest(topics=[]), 9)).throttle_time_ms > 0
