"""Key and trust stores of the listener for brokers fit each other, at the start and while they change."""

import asyncio
import contextlib
import logging
import ssl

import pytest

from barnabas.admin import AsyncAdmin
from barnabas.admin.types import ConfigResource, NewTopic
from barnabas.client import AsyncProducer
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.network.tls_context import failed_handshake
from barnabas.node.broker_node import BrokerNode
from tls_certificates import Authority

KEY, TRUST = ("listener.name.inner.ssl.keystore.location", "listener.name.inner.ssl.truststore.location")
ME = ConfigResource.broker(1)


def trust(path, *authorities):
    path.write_text("".join(each.pem_text for each in authorities))


@pytest.fixture
def old():
    return Authority("old")


@pytest.fixture
def new():
    return Authority("new")


@pytest.fixture
def given(tmp_path, old):
    """The settings of a broker that others reach by TLS with certificates, and clients without."""
    old.sign("127.0.0.1").pem(tmp_path / "key.pem")
    trust(tmp_path / "trust.pem", old)
    return {
        "broker.id": "1",
        "log.dirs": str(tmp_path / "data"),
        "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "INNER:SSL,OUTER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "ssl.client.auth": "required",
        KEY: str(tmp_path / "key.pem"),
        TRUST: str(tmp_path / "trust.pem"),
    }


@pytest.mark.parametrize("client_auth", ["required", "none"])
def test_a_broker_whose_trust_store_does_not_know_its_key_does_not_start(
    run, tmp_path, given, new, client_auth
):
    trust(tmp_path / "trust.pem", new)

    async def scenario():
        node = BrokerNode(broker_config({**given, "ssl.client.auth": client_auth}))
        words = "A client SSLEngine created with the provided settings can't connect to a server SSLEngine"
        with pytest.raises(ConfigError, match=words) as refused:
            await node.start()
        assert "certificate verify failed" in str(refused.value)

    run(scenario(), 30)


def test_a_listener_of_clients_alone_may_have_a_key_that_its_trust_store_does_not_know(
    run, tmp_path, given, new
):
    trust(tmp_path / "trust.pem", new)

    async def scenario():
        node = BrokerNode(broker_config({**given, "inter.broker.listener.name": "OUTER"}))
        await node.start()
        await node.stop()

    run(scenario(), 30)


def test_an_authority_is_replaced_in_three_steps_and_not_in_one(run, tmp_path, given, old, new, caplog):
    """Trust in both, the new key, trust in the new one alone: at each step the brokers of before reach this
    one, and it them.
    """
    key, ca = tmp_path / "key.pem", tmp_path / "trust.pem"
    first = key.read_text()
    caplog.set_level(logging.INFO, "barnabas.node.dynamic_listeners")

    async def scenario():
        node = BrokerNode(broker_config(given))
        await node.start()
        try:
            inner, outer = node.endpoints

            async with AsyncAdmin({"bootstrap.servers": f"127.0.0.1:{outer.port}"}) as admin:

                async def change(setting, path):
                    before = caplog.text.count("listener.keys_renewed")
                    await admin.configs.alter({ME: {setting: str(path)}})
                    while caplog.text.count("listener.keys_renewed") == before:  # noqa: ASYNC110 - a notice
                        await asyncio.sleep(0.01)

                words = "Validation of dynamic config update of SSLFactory failed"
                refused = pytest.raises(
                    KafkaError, match=rf"ConfigResource\(type=BROKER, name='1'\): {words}"
                )
                new.sign("127.0.0.1").pem(key)
                with refused as same:
                    await change(KEY, key)
                assert same.value.code is ErrorCode.INVALID_CONFIG
                with pytest.raises(KafkaError, match=f"^{words}") as moved:
                    await change(KEY, key.rename(tmp_path / "other.pem"))
                assert moved.value.code is ErrorCode.INVALID_REQUEST
                key.write_text(first)
                trust(ca, new)
                with refused:
                    await change(TRUST, ca)
                # Both at once fit each other, and nobody else.
                new.sign("127.0.0.1").pem(key)
                with refused:
                    await change(KEY, key)
                key.write_text(first)
                trust(ca, old, new)
                await change(TRUST, ca)
                new.sign("127.0.0.1").pem(key)
                await change(KEY, key)
                trust(ca, new)
                await change(TRUST, ca)
            context = ssl.create_default_context(cadata=new.pem_text)
            _, writer = await asyncio.open_connection("127.0.0.1", inner.port, ssl=context)
            writer.close()
        finally:
            await node.stop()

    run(scenario(), 60)


def test_a_broker_shows_its_new_key_to_the_others(run, tmp_path, given, old, new, caplog):
    """A follower fetches from a leader that does not know the authority of its first key any more."""
    trust(tmp_path / "trust.pem", old, new)
    trust(tmp_path / "trust-2.pem", old, new)
    new.sign("127.0.0.1").pem(tmp_path / "key-2.pem")
    store = {"barnabas.metadata.path": str(tmp_path / "store"), "replica.lag.time.max.ms": "3000"}
    other = {
        "broker.id": "2",
        "log.dirs": str(tmp_path / "data-2"),
        KEY: str(tmp_path / "key-2.pem"),
        TRUST: str(tmp_path / "trust-2.pem"),
    }
    caplog.set_level(logging.INFO, "barnabas.node.dynamic_listeners")

    async def scenario():
        async with contextlib.AsyncExitStack() as running:
            admins = []
            for config in ({**given, **store}, {**given, **store, **other}):
                node = BrokerNode(broker_config(config))
                await node.start()
                running.push_async_callback(node.stop)
                outer = f"127.0.0.1:{node.endpoints[1].port}"
                admins.append(await running.enter_async_context(AsyncAdmin({"bootstrap.servers": outer})))

            async def change(admin, broker, setting, path):
                before = caplog.text.count("listener.keys_renewed")
                await admin.configs.alter({ConfigResource.broker(broker): {setting: str(path)}})
                while caplog.text.count("listener.keys_renewed") == before:  # noqa: ASYNC110 - a notice
                    await asyncio.sleep(0.01)

            new.sign("127.0.0.1").pem(tmp_path / "key.pem")
            await change(admins[0], 1, KEY, tmp_path / "key.pem")
            trust(tmp_path / "trust-2.pem", new)
            await change(admins[1], 2, TRUST, tmp_path / "trust-2.pem")
            await admins[0].topics.create([NewTopic("t", assignment={0: [2, 1]})])
            async with AsyncProducer({"bootstrap.servers": outer}) as producer:
                await producer.send("t", value=b"one")
            described = await admins[1].topics.describe(["t"])
            assert described["t"].partitions[0].isr == [2, 1]

    run(scenario(), 60)


def test_a_handshake_has_failed_if_the_server_alone_refuses(tmp_path, old, new):
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=old.pem_text)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(old.sign("server").pem(tmp_path / "server.pem"))
    client = ssl.create_default_context(cadata=old.pem_text)
    client.check_hostname = False
    client.load_cert_chain(new.sign("client").pem(tmp_path / "client.pem"))
    assert "certificate verify failed" in failed_handshake(client, server)
    client.load_cert_chain(old.sign("client").pem(tmp_path / "client.pem"))
    assert failed_handshake(client, server) is None
