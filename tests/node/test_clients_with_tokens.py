"""Running brokers that take tokens: our clients, those of others, and brokers among themselves."""

import asyncio
import contextlib
import json
import time

import pytest
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

try:
    from kafka.sasl.oauth import AbstractTokenProvider
except ImportError:
    from kafka.net.sasl.oauth import AbstractTokenProvider

from access_tokens import LOGIN, MODULE, OTHER_RSA, RSA, VALIDATOR, AuthorizationServer, jwks, signed
from barnabas.admin import AsyncAdmin
from barnabas.admin.types import NewTopic
from barnabas.client import AsyncConsumer, AsyncProducer, Producer
from barnabas.core.errors import ConfigError
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.node.broker_node import BrokerNode, StartError

BROKER = 'unsecuredLoginStringClaim_sub="broker"'


@pytest.fixture
def issuer():
    server = AuthorizationServer()
    yield server
    server.close()


def settings(tmp_path, issuer, number=1, **more):
    return {
        "broker.id": str(number),
        "log.dirs": str(tmp_path / f"data-{number}"),
        "barnabas.metadata.path": str(tmp_path / "store"),
        "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "INNER:SASL_PLAINTEXT,OUTER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.inner.oauthbearer.sasl.jaas.config": f"{MODULE} required {BROKER};",
        "listener.name.outer.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
        "listener.name.outer.oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
        "listener.name.outer.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "0",
        **more,
    }


@contextlib.asynccontextmanager
async def running(*configs):
    started = []
    try:
        for each in configs:
            node = BrokerNode(each)
            await node.start()
            started.append(node)
        yield started
    finally:
        for node in reversed(started):
            await node.stop()


def client(node, token, **more):
    return {
        "bootstrap.servers": f"127.0.0.1:{node.endpoints[1].port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": token,
        **more,
    }


def test_clients_with_signed_tokens_and_brokers_with_their_own(run, tmp_path, issuer):
    issuer.gives(jwks(one=RSA))

    async def scenario():
        configs = (settings(tmp_path, issuer, 1), settings(tmp_path, issuer, 2))
        async with running(*configs) as (first, second):
            options = client(first, signed)
            async with AsyncAdmin(options) as admin:
                await admin.topics.create(NewTopic("t", partitions=2, replication_factor=2))
            async with AsyncProducer(options) as producer:
                await producer.send("t", b"one")
            options = client(second, signed, **{"auto.offset.reset": "earliest", "group.id": "g"})
            async with AsyncConsumer(options) as consumer:
                consumer.subscribe(["t"])
                while not (records := await consumer.poll(timeout_ms=100)):
                    pass
                assert [record.value for record in records] == [b"one"]
            for token in (lambda: signed(OTHER_RSA), lambda: signed(exp=time.time() - 60, iat=1)):
                with pytest.raises(SaslAuthenticationError, match=r'\{"status":"invalid_token"\}'):
                    await AsyncAdmin(client(first, token)).topics.list()

    run(scenario(), 60)


def test_a_session_ends_with_its_token_and_our_client_goes_on(run, tmp_path, issuer):
    issuer.gives(jwks(one=RSA))

    async def scenario():
        given = []

        def token():
            given.append(1)
            return signed(exp=time.time() + 2, iat=time.time())

        async with (
            running(settings(tmp_path, issuer)) as (node,),
            AsyncProducer(client(node, token)) as producer,
        ):
            async with AsyncAdmin(client(node, token)) as admin:
                await admin.topics.create(NewTopic("t"))
            while len(given) < 4:
                await producer.send("t", b"x")
                await asyncio.sleep(0.05)

    run(scenario(), 60)


def test_our_tools_ask_a_server_for_tokens(run, tmp_path, issuer):
    issuer.gives(jwks(one=RSA))

    async def scenario():
        async with running(settings(tmp_path, issuer)) as (node,):
            issuer.gives({"access_token": signed()})
            line = f'{MODULE} required clientId="me" clientSecret="secret";'
            more = {
                "sasl.jaas.config": line,
                "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/token",
                "sasl.login.retry.backoff.max.ms": "10",
            }
            assert await asyncio.to_thread(send, client(node, LOGIN, **more)) is None
            issuer.gives({"error": "invalid_client"}, 401)
            with pytest.raises(SaslAuthenticationError, match="invalid_client") as refused:
                await asyncio.to_thread(send, client(node, LOGIN, **more))
            assert "secret" not in str(refused.value)

    def send(options):
        with Producer(options) as producer:
            producer.send("t", b"x").result(10)

    run(scenario(), 60)


def test_clients_of_others(run, tmp_path, issuer):
    issuer.gives(jwks(one=RSA))

    class Tokens(AbstractTokenProvider):
        key = RSA

        def token(self):
            return signed(self.key)

    def others(bootstrap):
        options = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
        }
        producer = KafkaProducer(**options, sasl_oauth_token_provider=Tokens())
        producer.send("t", b"one").get(10)
        producer.close()
        wrong = Tokens()
        wrong.key = OTHER_RSA
        with pytest.raises(PythonKafkaError):
            KafkaConsumer(**options, sasl_oauth_token_provider=wrong, bootstrap_timeout_ms=2000).topics()
        found = ConfluentAdmin(
            {
                "bootstrap.servers": bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda _: (signed(), time.time() + 600),
            }
        )
        found.poll(1)
        assert "t" in found.list_topics(timeout=10).topics

    async def scenario():
        async with running(settings(tmp_path, issuer)) as (node,):
            await asyncio.to_thread(others, f"127.0.0.1:{node.endpoints[1].port}")

    run(scenario(), 60)


def test_a_server_of_keys_that_hangs_holds_nobody(run, tmp_path, issuer):
    issuer.gives(jwks(one=RSA))

    async def scenario():
        async with running(settings(tmp_path, issuer)) as (node,):
            issuer.hold.clear()
            with pytest.raises(SaslAuthenticationError):
                await AsyncAdmin(client(node, lambda: signed(kid="two"))).topics.list()
            while len(issuer.requests) < 2:  # noqa: ASYNC110 - the server is on threads
                await asyncio.sleep(0.005)
            assert await AsyncAdmin(client(node, signed)).topics.list() == []
            issuer.hold.set()

    run(scenario(), 60)


def test_a_broker_without_the_keys_for_tokens_does_not_start(run, tmp_path, issuer):
    issuer.gives({"keys": []})

    async def scenario():
        with pytest.raises(StartError, match="/keys has no keys for tokens: it has no key that can be used"):
            await BrokerNode(settings(tmp_path, issuer)).start()

    run(scenario(), 60)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"listener.name.outer.oauthbearer.sasl.jaas.config": "x required;"}, "OAUTHBEARER logs in with"),
        ({"listener.name.inner.oauthbearer.sasl.jaas.config": f"{MODULE} required;"}, "who this client is"),
        ({"listener.name.outer.oauthbearer.sasl.server.callback.handler.class": "a.B"}, "This version has"),
        ({"listener.name.outer.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": "ftp://x"}, "ftp://x for"),
        ({"listener.name.outer.oauthbearer.sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "at least 1"),
    ],
)
def test_settings_for_tokens_that_cannot_be(run, tmp_path, issuer, changes, words):
    async def scenario():
        with pytest.raises(ConfigError, match=words):
            BrokerNode(settings(tmp_path, issuer, **changes))

    run(scenario())
    assert json.dumps(changes)
