"""Passwords and private keys that are set while a broker runs: they are encrypted in the store."""

import asyncio
import contextlib
import ssl

import pytest

from barnabas.admin import AsyncAdmin
from barnabas.admin.types import ConfigResource
from barnabas.core.broker_config import broker_config
from barnabas.node.broker_node import BrokerNode
from tls_certificates import Authority

KEY, CHAIN = "listener.name.outer.ssl.keystore.key", "listener.name.outer.ssl.keystore.certificate.chain"
ME = ConfigResource.broker(1)
SECRET = "password.encoder.secret"


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def first(authority):
    return authority.sign("127.0.0.1")


@pytest.fixture
def given(tmp_path, first):
    return {
        "broker.id": "1",
        "log.dirs": str(tmp_path / "data"),
        "barnabas.metadata.path": str(tmp_path / "store"),
        "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SSL",
        "inter.broker.listener.name": "INNER",
        KEY: first.key_pem(),
        CHAIN: first.chain_pem,
        SECRET: "hunter2",
    }


@contextlib.asynccontextmanager
async def running(given):
    node = BrokerNode(broker_config(given))
    await node.start()
    try:
        async with AsyncAdmin({"bootstrap.servers": f"127.0.0.1:{node.endpoints[0].port}"}) as admin:
            yield node, admin
    finally:
        await node.stop()


def shown(node):
    return asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", node.endpoints[1].port), timeout=30)


def test_a_private_key_is_set_encrypted_and_is_there_after_a_start(
    run, tmp_path, authority, first, given, caplog
):
    new = authority.sign("127.0.0.1")
    changed = {KEY: new.key_pem(), CHAIN: new.chain_pem}

    async def scenario():
        async with running(given) as (node, admin):
            assert await shown(node) == first.chain_pem
            await admin.configs.alter({ME: changed})
            while await shown(node) != new.chain_pem:  # noqa: ASYNC110 - the notice is on its way
                await asyncio.sleep(0.01)
            described = (await admin.configs.describe(ME))[ME]
            assert (described[KEY].value, described[KEY].is_sensitive) == (None, True)
            # What else is set leaves it as it is.
            await admin.configs.alter({ME: {"log.cleaner.backoff.ms": "1000"}})
        kept = b"".join(path.read_bytes() for path in tmp_path.glob("store*") if path.is_file())
        assert b"PBKDF2WithHmacSHA512" in kept
        assert b"PRIVATE KEY" not in kept

        async with running(given) as (node, admin):
            assert await shown(node) == new.chain_pem
        # Another secret, with the one of before beside it.
        async with running({**given, SECRET: "hunter3", "password.encoder.old.secret": "hunter2"}) as (
            node,
            _,
        ):
            assert await shown(node) == new.chain_pem
        async with running({**given, SECRET: "hunter4"}) as (node, _):
            assert await shown(node) == first.chain_pem
        ignored = [each.getMessage() for each in caplog.records if "config.ignored" in each.getMessage()]
        assert any(KEY in each and "could not be decoded" in each for each in ignored)
        assert "hunter" not in caplog.text

    run(scenario(), 60)
