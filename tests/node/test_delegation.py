"""Delegation tokens on running brokers: made by a user, and shown by others who act as the user."""

import asyncio
import base64
import contextlib

import pytest
from confluent_kafka.admin import AdminClient as ConfluentAdmin

from barnabas.admin import Admin, AsyncAdmin
from barnabas.admin.types import NewTopic
from barnabas.client import AsyncProducer
from barnabas.core.errors import KafkaError
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.node.broker_node import BrokerNode

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def settings(tmp_path, number, **more):
    return {
        "broker.id": str(number),
        "log.dirs": str(tmp_path / f"data-{number}"),
        "barnabas.metadata.path": str(tmp_path / "store"),
        "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.outer.plain.sasl.jaas.config": f'{PLAIN} required user_alice="a" user_bob="b";',
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:alice;User:ANONYMOUS",
        "delegation.token.secret.key": "sesame",
        **more,
    }


@contextlib.asynccontextmanager
async def running(tmp_path, count=1, **more):
    nodes = []
    try:
        for number in range(count):
            node = BrokerNode(settings(tmp_path, number, **more))
            await node.start()
            nodes.append(node)
        yield nodes
    finally:
        for node in reversed(nodes):
            await node.stop()


def client(node, user="alice", password="a"):
    return {
        "bootstrap.servers": f"127.0.0.1:{node.endpoints[1].port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="{user}" password="{password}";',
    }


def with_token(node, token, mechanism="SCRAM-SHA-256", password=None):
    password = base64.b64encode(token.hmac).decode() if password is None else password
    line = f'{SCRAM} required username="{token.information.token_id}" password="{password}" tokenauth="true";'
    return {**client(node), "sasl.mechanism": mechanism, "sasl.jaas.config": line}


async def until(holds):
    while not await holds():  # noqa: ASYNC110 - what is waited for happens in another broker
        await asyncio.sleep(0.01)


async def is_known(node, token):
    """Whether a broker lets in who has the token: the others hear of it, and of its end, a moment later."""
    try:
        async with AsyncAdmin(with_token(node, token)) as bearer:
            await bearer.topics.list()
    except SaslAuthenticationError:
        return False
    return True


def test_others_act_as_the_owner_of_a_token_on_every_broker(run, tmp_path):
    async def scenario():
        async with running(tmp_path, 2) as (first, second), AsyncAdmin(client(first)) as alice:
            await alice.topics.create(NewTopic("t"))
            token = await alice.delegation_tokens.create(renewers=["User:bob"])
            for node in (first, second):
                await until(lambda node=node: is_known(node, token))
            # Alice is a super user, and so is who has her token.
            for node in (first, second):
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                    async with AsyncProducer(with_token(node, token, mechanism)) as producer:
                        await producer.send("t", b"x")
            with pytest.raises(SaslAuthenticationError):
                await AsyncAdmin(with_token(first, token, password="x")).topics.list()
            async with AsyncAdmin(with_token(second, token)) as bearer:
                with pytest.raises(KafkaError, match="not allowed"):
                    await bearer.delegation_tokens.create()
            # Its id is no user: nobody logs in with it but as a token.
            plain = with_token(first, token)
            plain["sasl.jaas.config"] = plain["sasl.jaas.config"].replace(' tokenauth="true"', "")
            with pytest.raises(SaslAuthenticationError):
                await AsyncAdmin(plain).topics.list()

            async with AsyncAdmin(client(second, "bob", "b")) as bob:
                renewed = await bob.delegation_tokens.renew(token.hmac, 3_600_000)
                (seen,) = await bob.delegation_tokens.describe()
                assert (seen.information.expires_ms, seen.information.owner) == (renewed, "User:alice")
                with pytest.raises(KafkaError, match="authorization failed"):
                    await bob.delegation_tokens.create(owner="User:alice")
                await bob.delegation_tokens.expire(token.hmac)

            async def refused():
                return not await is_known(first, token)

            await until(refused)
            assert await alice.delegation_tokens.describe(["User:alice"]) == []

    run(scenario(), 60)


def test_a_session_ends_with_the_token_and_the_controller_removes_it(run, tmp_path):
    more = {"delegation.token.expiry.time.ms": "1500", "delegation.token.expiry.check.interval.ms": "100"}

    async def scenario():
        async with running(tmp_path, **more) as (node,), AsyncAdmin(client(node)) as alice:
            token = await alice.delegation_tokens.create()
            async with AsyncAdmin(with_token(node, token)) as bearer:
                assert await bearer.topics.list() == []

                async def gone():
                    return not await alice.delegation_tokens.describe()

                await until(gone)

                async def refused():
                    try:
                        await bearer.topics.list()
                    except SaslAuthenticationError:
                        return True
                    return False

                await until(refused)

    run(scenario(), 60)


def test_the_face_without_await_and_a_client_of_others(run, tmp_path):
    def others(node):
        with Admin(client(node)) as alice:
            token = alice.delegation_tokens.create(max_lifetime_ms=60_000)
            assert token.information.max_ms - token.information.issued_ms == 60_000
        found = ConfluentAdmin(
            {
                "bootstrap.servers": f"127.0.0.1:{node.endpoints[1].port}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "no-such-token",
                "sasl.password": "x",
            }
        )
        with pytest.raises(Exception, match="transport failure"):
            found.list_topics(timeout=2)

    async def scenario():
        async with running(tmp_path) as (node,):
            await asyncio.to_thread(others, node)

    run(scenario(), 60)
