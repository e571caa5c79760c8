"""GSSAPI on running brokers, with a KDC on this machine: clients, brokers among themselves, refusals."""

import asyncio
import contextlib

import pytest

from barnabas.admin import AsyncAdmin
from barnabas.admin.types import NewTopic
from barnabas.client import AsyncConsumer, AsyncProducer
from barnabas.core.errors import BarnabasError, ConfigError
from barnabas.network.sasl.kerberos import logins
from barnabas.network.sasl.kerberos.exchange import GssapiServer
from barnabas.node.broker_node import BrokerNode
from kerberos_realm import REALM, realm_or_skip

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def realm(tmp_path_factory):
    with realm_or_skip(tmp_path_factory.mktemp("kerberos")) as made:
        yield made


@pytest.fixture(scope="module")
def lines(realm):
    return {
        "broker": realm.line("kafka/localhost", serviceName="kafka"),
        "alice": realm.line("alice"),
        "svc": realm.line("svc-bob/host1"),
    }


def settings(tmp_path, lines, number=1, **more):
    return {
        "broker.id": str(number),
        "log.dirs": str(tmp_path / f"data-{number}"),
        "barnabas.metadata.path": str(tmp_path / "store"),
        "listeners": "K://localhost:0",
        "listener.security.protocol.map": "K:SASL_PLAINTEXT",
        "inter.broker.listener.name": "K",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.k.gssapi.sasl.jaas.config": lines["broker"],
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:kafka;User:alice",
        **more,
    }


def client(node, line, **more):
    return {
        "bootstrap.servers": f"localhost:{node.endpoints[0].port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": line,
        **more,
    }


@contextlib.asynccontextmanager
async def running(*configs):
    nodes = []
    try:
        for config in configs:
            node = BrokerNode(config)
            await node.start()
            nodes.append(node)
        yield nodes
    finally:
        for node in reversed(nodes):
            await node.stop()


def test_clients_and_brokers_log_in_with_key_tabs(tmp_path, lines):
    async def scenario():
        pair = [settings(tmp_path, lines, number) for number in (1, 2)]
        async with running(*pair) as nodes:
            options = client(nodes[0], lines["alice"])
            async with AsyncAdmin(options) as admin:
                while len((await admin.cluster.describe()).brokers) < 2:
                    pass
                await admin.topics.create(NewTopic("t", assignment={0: [2, 1]}))
            async with AsyncProducer(options, acks="all") as producer:
                await producer.send("t", b"one")
            async with AsyncConsumer(
                {**options, "auto.offset.reset": "earliest", "group.id": "g"}
            ) as consumer:
                consumer.subscribe(["t"])
                while not (records := await consumer.poll(timeout_ms=100)):
                    pass
            assert [record.value for record in records] == [b"one"]

    asyncio.run(scenario())


def test_rules_make_the_name_that_may(tmp_path, lines):
    rules = r"RULE:[2:$1@$0](svc-.*@EXAMPLE\.TEST)s/svc-(.*)@.*/$1/U,DEFAULT"
    more = {"sasl.kerberos.principal.to.local.rules": rules, "super.users": "User:kafka;User:BOB"}

    async def scenario():
        async with running(settings(tmp_path, lines, **more)) as (node,):
            async with AsyncAdmin(client(node, lines["svc"])) as admin:
                await admin.topics.create(NewTopic("of-bob"))
            async with AsyncAdmin(client(node, lines["alice"])) as admin:
                with pytest.raises(BarnabasError, match="Authorization failed"):
                    await admin.topics.create(NewTopic("of-alice"))

    asyncio.run(scenario())


def test_a_client_without_a_ticket_says_why(tmp_path, lines):
    stranger = lines["alice"].replace(f"alice@{REALM}", f"stranger@{REALM}")

    async def scenario():
        async with running(settings(tmp_path, lines)) as (node,):
            for options in (
                client(node, stranger),
                client(node, lines["alice"], **{"sasl.kerberos.service.name": "other"}),
            ):
                with pytest.raises(BarnabasError, match="got no ticket for"):
                    async with AsyncAdmin(options):
                        pass

    asyncio.run(scenario())


def test_a_session_ends_and_is_renewed(tmp_path, lines, monkeypatch):
    users = []

    class Counting(GssapiServer):
        def evaluate(self, token):
            answer = super().evaluate(token)
            if self.user is not None:
                users.append(self.user)
            return answer

    monkeypatch.setattr(logins, "GssapiServer", Counting)

    async def scenario():
        config = settings(tmp_path, lines, **{"connections.max.reauth.ms": "300"})
        async with running(config) as (node,), AsyncAdmin(client(node, lines["alice"])) as admin:
            while users.count("alice") < 3:
                await admin.topics.list()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"{MODULE} required;", "it has no principal and keyTab"),
        (
            f"{MODULE} required keyTab=/nowhere principal=kafka/localhost;",
            "kafka/localhost with /nowhere",
        ),
        ("org.example.Module required;", f"GSSAPI logs in with {MODULE}"),
    ],
)
def test_a_broker_that_could_let_nobody_in_does_not_start(tmp_path, realm, lines, line, problem):
    more = {"listener.name.k.gssapi.sasl.jaas.config": line}

    async def scenario():
        node = BrokerNode(settings(tmp_path, lines, **more))
        await node.start()

    with pytest.raises(ConfigError, match=r"gssapi\.sasl\.jaas\.config") as refused:
        asyncio.run(scenario())
    assert problem in str(refused.value)
