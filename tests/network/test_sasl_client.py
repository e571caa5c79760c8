"""A client that logs in at its nodes: in time, again, in old ways, and what it hears where it may not."""

import asyncio
import logging
from random import Random

import pytest
import sasl_harness
from sasl_harness import answer, on_sasl

from barnabas.network.client import NetworkClient
from barnabas.network.errors import AuthenticationError, DisconnectedError
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.node_link import ClientSettings, Node
from barnabas.network.sasl.client import SaslLogin
from barnabas.network.sasl.logins import client_login
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.network.sasl.plain import PlainClient
from barnabas.network.selector import Selector, completed
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def login(mechanism="PLAIN", password="alice-secret"):
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return client_login(mechanism, f'{module} required username="alice" password="{password}";', {})


def with_client(scenario, how, **settings):
    """Runs a coroutine function with a client and what asks its node for something."""

    async def serve(port, functions):
        given = ClientSettings(login=how, reconnect_backoff_ms=1, reconnect_backoff_max_ms=1)
        client = NetworkClient(Selector(), ManualMetadataUpdater(), given, Random(1))

        async def ask():
            request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            return await completed(client.request(Node(1, "127.0.0.1", port), request))

        try:
            await scenario(ask, functions)
        finally:
            await client.close()

    return on_sasl(serve, **settings)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in_once_and_asks(mechanism):
    async def scenario(ask, functions):
        for _ in range(3):
            assert (await ask()).api_keys
        assert {str(peer.principal) for peer in functions.peers} == {"User:alice"}

    assert with_client(scenario, login(mechanism)).counts.successful == 1


@pytest.mark.parametrize("idle", [False, True])
def test_a_client_logs_in_again_before_its_session_ends(idle):
    sasl = sasl_harness.listener(session_ms_max={"PLAIN": 1300})

    async def scenario(ask, _functions):
        await ask()
        while sasl.counts.successful < 3:
            if not idle:
                await ask()
            await asyncio.sleep(0.005)

    def same(**_settings):
        return sasl

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sasl_harness, "listener", same)
        with_client(scenario, login())
    assert (sasl.counts.failed, sasl.counts.expired) == (0, 0)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (login(password="wrong"), "Authentication failed: Invalid username or password"),
        (login("SCRAM-SHA-256", "wrong"), "invalid credentials with SASL mechanism SCRAM-SHA-256"),
        (
            SaslLogin("GSSAPI", lambda: PlainClient("a", "b")),
            r"Client SASL mechanism 'GSSAPI' not enabled in the server, enabled mechanisms are \[PLAIN",
        ),
    ],
)
def test_who_is_refused_hears_why_and_the_log_says_it_once(how, words, caplog):
    caplog.set_level(logging.INFO)

    async def scenario(ask, _functions):
        for _ in range(3):
            with pytest.raises(SaslAuthenticationError, match=words):
                await ask()

    assert with_client(scenario, how).counts.failed == 3
    said = [record for record in caplog.records if "client.authentication_failed" in record.getMessage()]
    assert len(said) == 1
    assert "secret" not in caplog.text


def test_a_node_that_knows_no_sasl_authenticate_gets_bare_tokens(monkeypatch):
    old = [ApiVersion(api_key=key, min_version=0, max_version=0) for key in (18, 17, 3)]
    monkeypatch.setattr(sasl_harness, "VERSIONS", old)

    async def scenario(ask, functions):
        await ask()
        assert {str(peer.principal) for peer in functions.peers} == {"User:alice"}

    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        assert with_client(scenario, login(mechanism)).counts.successful == 1


def test_a_node_that_says_something_else_is_let_go():
    def service(peer, frame):
        said = answer(peer, frame)
        return [said[0][:4] + b"\0\0\0\x63" + said[0][8:]]

    async def scenario(ask, _functions):
        with pytest.raises((AuthenticationError, DisconnectedError)):
            await ask()

    assert with_client(scenario, login(), service=service).counts.successful == 0


def test_a_login_shows_no_secret():
    assert "secret" not in repr(login()) + repr(ClientSettings(login=login()))
