"""OAUTHBEARER: tokens without and with signatures, at both ends, and where they come from."""

import asyncio
import hmac
import json
import math
import random
import re
import ssl
import threading
import time
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sasl_harness import SaslClientOnFrames, on_sasl

from access_tokens import (
    EC,
    LOGIN,
    MODULE,
    OTHER_RSA,
    RSA,
    VALIDATOR,
    AuthorizationServer,
    claims,
    first_message,
    jwks,
    part,
    signed,
    unsecured,
)
from barnabas.core import fault_log
from barnabas.core.errors import BarnabasError, ConfigError, ErrorCode
from barnabas.core.oauthbearer_config import LOGIN_KEYS, VALIDATOR_KEYS
from barnabas.network.clock import LoopClock
from barnabas.network.errors import FetchError
from barnabas.network.http_fetch import fetch
from barnabas.network.sasl.credentials import ServerCredentials
from barnabas.network.sasl.logins import client_login, server_mechanism
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError
from barnabas.network.sasl.oauthbearer.access_tokens import AccessTokens, RefreshSettings, refresh_time
from barnabas.network.sasl.oauthbearer.exchange import MESSAGE_BYTES_MAX
from barnabas.network.sasl.oauthbearer.jwks import Jwks, JwksEndpoint, parse_keys
from barnabas.network.sasl.oauthbearer.settings import endpoint_tls
from barnabas.network.sasl.oauthbearer.token import BearerToken
from barnabas.node.broker_node import wait
from serving import free_port
from tls_certificates import Authority

DEFAULTS = {key.name: key.default for key in (*LOGIN_KEYS, *VALIDATOR_KEYS)}
NONE = part({"alg": "none"})
NAN = b'{"exp":NaN,"sub":"a"}'
INVALID = '{"status":"invalid_token"}'


def numbered(_):
    """Tokens are others each time, and no names of tests."""
    return "case"


def server(options="", keys=None, **values):
    """A log-in at a listener with these options of JAAS and keys (underscores for dots)."""
    given = {**DEFAULTS, **{f"sasl.{name.replace('_', '.')}": value for name, value in values.items()}}
    if keys is not None:
        given["sasl.server.callback.handler.class"] = VALIDATOR
        given.setdefault("sasl.oauthbearer.jwks.endpoint.url", None)
        given["sasl.oauthbearer.jwks.endpoint.url"] = "file:/keys"
    known = ServerCredentials(keys_of=lambda _: keys)
    return server_mechanism("OAUTHBEARER", f"{MODULE} required {options};", known, given)()


class Keys:
    """A set that was read."""

    def __init__(self, **keys):
        self.keys = parse_keys(json.dumps(jwks(**keys)).encode())

    def find(self, key_id, algorithm):
        return next((k for k in self.keys if key_id in (None, k.id) and algorithm in k.algorithms), None)


ONE = Keys(one=RSA, curve=EC)


def answer(exchange, token):
    """What the broker says, and whom it lets in."""
    return exchange.evaluate(first_message(token)).decode(), exchange.user


def test_an_unsecured_token_names_its_owner_and_its_end():
    exchange = server()
    assert answer(exchange, unsecured()) == ("", "alice")
    assert 3_590_000 < exchange.lifetime_ms <= 3_600_000


@pytest.mark.parametrize(
    "token",
    [
        unsecured({"alg": "RS256"}),
        unsecured({"typ": "JWT"}),
        unsecured(signature="abc"),
        unsecured(exp=None),
        unsecured(exp="3000000000"),
        unsecured(exp=True),
        unsecured(exp=time.time() - 1, iat=None),
        unsecured(iat=time.time() + 3000),
        unsecured(iat=4_000_000_000, exp=3_999_999_999),
        unsecured(sub=None),
        unsecured(sub=" "),
        unsecured(sub=7),
        unsecured(sub={"a": "b"}),
        unsecured(sub="half \ud800"),
        unsecured(scope=7),
        f"{NONE}.{part([1])}.",
        f"{NONE}.{part(b'{')}.",
        f"{NONE}.{part(b'[' * 40_000)}.",
        f"{NONE}.{part(NAN)}.",
        "a.b",
        "a..b",
        "a.b.c.d",
        "....",
        "~.~.",
        unsecured(sub="a" * 50_000),
    ],
    ids=numbered,
)
def test_unsecured_tokens_that_are_refused(token):
    exchange = server()
    assert answer(exchange, token) == (INVALID, None)
    with pytest.raises(SaslAuthenticationError) as refused:
        exchange.evaluate(b"\x01")
    assert str(refused.value) == INVALID


def test_what_the_options_of_a_listener_ask_of_an_unsecured_token():
    options = (
        "unsecuredValidatorPrincipalClaimName=user unsecuredValidatorScopeClaimName=may "
        'unsecuredValidatorRequiredScope="LOGIN READ" unsecuredValidatorAllowableClockSkewMs=60000'
    )
    late = {"iat": time.time() - 100, "exp": time.time() - 30}
    assert answer(server(options), unsecured(user="bob", may=["READ", "LOGIN", "x"], **late)) == ("", "bob")
    lacking = '{"status":"insufficient_scope", "scope":"[LOGIN, READ]"}'
    assert answer(server(options), unsecured(user="bob", may="LOGIN READ")) == (lacking, None)
    assert answer(server(options), unsecured(may=["READ", "LOGIN"])) == (INVALID, None)
    for wrong in ("RequiredScope='a\"b'", "AllowableClockSkewMs=-1", "AllowableClockSkewMs=x"):
        with pytest.raises(ConfigError):
            server(f"unsecuredValidator{wrong}")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01more=Bearer a.b.c\x01\x01",
        b"n,a=x,y,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01" + b"a=b\x01" * 100_000 + b"\x02",
    ],
    ids=numbered,
)
def test_what_is_no_message_of_a_client(message):
    with pytest.raises(SaslExchangeError):
        server().evaluate(message)


def test_a_message_that_would_hold_the_loop_is_not_read():
    size = MESSAGE_BYTES_MAX - len(first_message(unsecured(), more=""))
    assert server().evaluate(first_message(unsecured(), more="x" * size)) == b""
    with pytest.raises(SaslExchangeError, match="longer than 81920 bytes"):
        server().evaluate(first_message(unsecured(), more="x" * (size + 1)))


def test_extensions_are_taken_and_another_authorization_id_is_not():
    exchange = server()
    assert exchange.evaluate(first_message(unsecured(), "alice", traceId="1 2")) == b""
    with pytest.raises(SaslAuthenticationError, match=r"\(bob\) that is different .* \(alice\)"):
        server().evaluate(first_message(unsecured(), "bob"))


def test_signed_tokens():
    for token in (
        signed(),
        signed(algorithm="PS512"),
        signed(EC, "ES256", "curve"),
        signed(scope=["a", "b"]),
        signed(exp=time.time() - 20, iat=1),
        signed(nbf=time.time() + 20),
    ):
        assert answer(server(keys=ONE), token) == ("", "alice")
    named = {"oauthbearer_sub_claim_name": "user", "oauthbearer_expected_issuer": "me"}
    exchange = server(keys=ONE, oauthbearer_expected_audience=["kafka", "b"], **named)
    assert answer(exchange, signed(user="bob", iss="me", aud=["x", "kafka"])) == ("", "bob")


def forged_hmac():
    """Signed with the public key as if it were a secret: whoever lets a token choose takes it."""
    secret = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part(claims())}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), 'sha256'))}"


def tampered():
    header, _, signature = signed().split(".")
    return f"{header}.{part(claims(sub='admin'))}.{signature}"


@pytest.mark.parametrize(
    "token",
    [
        unsecured(),
        unsecured({"alg": "none", "kid": "one"}, signature="abc"),
        unsecured({"alg": "NONE", "kid": "one"}, signature="abc"),
        signed(OTHER_RSA),
        signed(kid="two"),
        signed(kid="curve"),
        signed(EC, "ES256", "one"),
        signed(headers={"crit": ["exp"]}),
        forged_hmac(),
        tampered(),
        signed().rpartition(".")[0] + ".",
        signed().rpartition(".")[0] + ".AAAA",
        signed(exp=time.time() - 31, iat=1),
        signed(nbf=time.time() + 3000),
        signed(nbf=3_000_000_000, exp=2_999_999_999),
        signed(iat=None),
        signed(exp=None),
        signed(iat=-1),
        signed(sub=None),
        signed(sub="  "),
        signed(sub="half \udc00"),
        signed(exp=math.nan),
        signed(iat=math.nan),
        signed(nbf=math.nan),
        signed(scope=["a", "a"]),
        signed(scope=["a", ""]),
        signed(scope=[{}]),
        signed(aud="kafka"),
        signed(headers={"x": "y" * 9000}),
        "a.b.c",
        f"{part({'alg': 'RS256', 'kid': ['one']})}.{part(claims())}.abc",
        f"{part({'alg': 'RS256', 'kid': 'one'})}.{part(b'[' * 40_000)}.abc",
    ],
    ids=numbered,
)
def test_signed_tokens_that_are_refused(token):
    exchange = server(keys=ONE)
    assert answer(exchange, token) == (INVALID, None)


@pytest.mark.parametrize("more", [{}, {"aud": "other"}, {"aud": "kafka", "iss": "you"}, {"aud": "kafka"}])
def test_a_token_for_others_or_of_others_is_refused(more):
    exchange = server(keys=ONE, oauthbearer_expected_audience=["kafka"], oauthbearer_expected_issuer="me")
    assert answer(exchange, signed(**more)) == (INVALID, None)


def test_keys_of_a_set_that_are_not_for_signatures_are_passed_over():
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    usable = jwks(one=RSA)["keys"][0]
    secret = {"kty": "oct", "k": part(b"x" * 32), "kid": "s"}
    found = parse_keys(
        json.dumps(
            {"keys": [7, {}, {**usable, "use": "enc"}, jwks(w=weak)["keys"][0], secret, usable]}
        ).encode()
    )
    assert [(key.id, min(key.algorithms)) for key in found] == [("s", "HS256"), ("one", "PS256")]
    assert found[0].algorithms == {"HS256"}
    only = parse_keys(json.dumps({"keys": [{**usable, "alg": "RS512"}]}).encode())
    assert only[0].algorithms == {"RS512"}


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[]}', b'{"keys":[{}]}', b"[" * 99999],
    ids=numbered,
)
def test_what_is_no_set_of_keys(text):
    with pytest.raises(BarnabasError):
        parse_keys(text)


@pytest.fixture
def issuer():
    server = AuthorizationServer()
    yield server
    server.close()


def fetched(url, **more):
    return fetch(url, **{"headers": {}, "connect_timeout_s": 5, "timeout_s": 5, "bytes_max": 1000, **more})


def test_a_server_is_heard_within_bounds(issuer):
    assert fetched(issuer.url).body == b"{}"
    issuer.gives(b"x" * 1001)
    with pytest.raises(FetchError, match="larger than 1000 bytes"):
        fetched(issuer.url)
    issuer.headers = {f"X-{number}": "y" for number in range(200)}
    with pytest.raises(FetchError):
        fetched(issuer.url)
    issuer.hold.clear()
    with pytest.raises(FetchError, match=r"longer than 0\.05 s"):
        fetched(issuer.url, timeout_s=0.05)
    with pytest.raises(FetchError, match="did not answer"):
        fetched(f"http://127.0.0.1:{free_port()}")


def test_an_alarm_that_goes_off_in_the_end_finds_its_own_socket(issuer, monkeypatch):
    """It printed a traceback, and could have shut a socket that had the same number by then."""
    alarms, failures = [], []

    class Late(threading.Timer):
        def cancel(self):
            alarms.append(self)

        def run(self):
            self.finished.wait(self.interval)
            if self.args[0].fileno() < 0:
                failures.append("its socket was closed")
            super().run()

    monkeypatch.setattr(threading, "Timer", Late)
    assert fetched(issuer.url, timeout_s=0.2).body == b"{}"
    (alarm,) = alarms
    alarm.join()
    assert failures == []


def test_a_server_whose_chunk_has_less_than_no_bytes_is_not_read_to_its_end(issuer):
    """Python's client reads to the end then, however large that is."""
    issuer.headers = {"Transfer-Encoding": "chunked"}
    issuer.gives(b"-1\r\n" + b"x" * 100_000)
    with pytest.raises(FetchError) as failed:
        fetched(issuer.url)
    assert "100000 bytes" not in str(failed.value)
    issuer.gives(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert fetched(issuer.url).body == b"abcde"


def test_a_server_that_drips_is_stopped(issuer):
    issuer.drips = True
    with pytest.raises(FetchError, match=r"longer than 0\.2 s"):
        fetched(issuer.url, timeout_s=0.2)


class Stepping(LoopClock):
    """A clock that is put forward; timers run when `forward` passes them."""

    def __init__(self, loop):
        super().__init__(loop)
        self.ahead = 0.0
        self.timers = []

    def monotonic_ms(self):
        return self.ahead

    def call_later(self, delay_ms, callback):
        timer = [self.ahead + delay_ms, callback]
        self.timers.append(timer)

        return SimpleNamespace(cancel=lambda: timer in self.timers and self.timers.remove(timer))

    def forward(self, ms):
        self.ahead += ms
        for timer in [each for each in self.timers if each[0] <= self.ahead]:
            self.timers.remove(timer)
            timer[1]()


def test_keys_are_read_again_in_time_and_for_a_key_that_is_missing(run, issuer):
    async def scenario():
        clock = Stepping(asyncio.get_running_loop())
        endpoint = JwksEndpoint(issuer.url, refresh_ms=3_600_000, retry_ms=100, retry_max_ms=10_000)
        keys = Jwks(endpoint, clock, lambda: None)

        async def until(holds):
            while not holds():  # noqa: ASYNC110 - the server is on threads
                await asyncio.sleep(0.005)

        issuer.gives(jwks(one=RSA))
        await wait(keys.start())
        assert keys.find("one", "RS256") is not None
        assert keys.find("one", "HS256") is None
        await until(lambda: "reading" not in repr(keys))
        assert len(issuer.requests) == 2

        # A key that came since: the first token with it brings the reading forward.
        issuer.gives(jwks(one=RSA, two=OTHER_RSA))
        clock.forward(10_000)
        assert keys.find("two", "RS256") is None
        await until(lambda: keys.find("two", "RS256") is not None)

        # Names at random cause no more than one reading in ten seconds.
        for forward_ms in (0, 5_000, 4_999):
            clock.forward(forward_ms)
            assert keys.find(f"x{forward_ms}", "RS256") is None
            assert "reading" not in repr(keys)
        clock.forward(1)
        assert keys.find("y", "RS256") is None
        assert "reading" in repr(keys)
        await until(lambda: "reading" not in repr(keys))
        # And one that was not there is not looked for again within a minute.
        clock.forward(49_999)
        assert keys.find("y", "RS256") is None
        assert "reading" not in repr(keys)
        clock.forward(10_001)
        assert keys.find("y", "RS256") is None
        await until(lambda: "reading" not in repr(keys))

        # One that lies or fails leaves what is known, and is asked again after a pause.
        issuer.gives({"keys": []})
        seen = len(issuer.requests)
        clock.forward(3_600_000)
        await until(lambda: len(issuer.requests) > seen)
        await until(lambda: any(at == clock.ahead + 100 for at, _ in clock.timers))
        assert keys.find("two", "RS256") is not None
        issuer.gives(jwks(three=RSA))
        clock.forward(100)
        await until(lambda: keys.find("three", "RS256") is not None)
        assert keys.find("one", "RS256") is None
        keys.close()
        assert not clock.timers

    run(scenario(), 30)


def test_a_key_that_is_named_during_a_reading_is_looked_for_after_it(run, issuer):
    """It counted as missing for a minute, although the reading was answered before the server had it."""

    async def scenario():
        clock = Stepping(asyncio.get_running_loop())
        keys = Jwks(JwksEndpoint(issuer.url, 3_600_000, 100, 10_000), clock, lambda: None)

        async def until(holds):
            while not holds():  # noqa: ASYNC110 - the server is on threads
                await asyncio.sleep(0.005)

        issuer.gives(jwks(one=RSA))
        await wait(keys.start())
        issuer.hold.clear()
        assert keys.find("none", "RS256") is None
        clock.forward(10_000)
        assert keys.find("two", "RS256") is None
        issuer.hold.set()
        await until(lambda: "reading" not in repr(keys))
        issuer.gives(jwks(one=RSA, two=OTHER_RSA))
        assert keys.find("two", "RS256") is None
        await until(lambda: keys.find("two", "RS256") is not None)
        assert len(issuer.requests) == 3
        keys.close()

    run(scenario(), 30)


def test_what_may_be_secret_in_the_url_of_keys_is_not_shown():
    endpoint = JwksEndpoint("https://me:one@host:8443/keys?token=two", 1000, 100, 100)
    assert endpoint.shown == "https://host:8443/keys"


def test_a_set_of_keys_in_a_file(run, tmp_path):
    async def scenario():
        file = tmp_path / "the keys.json"
        endpoint = JwksEndpoint(file.as_uri(), 1000, 100, 100)
        keys = Jwks(endpoint, LoopClock(asyncio.get_running_loop()), lambda: None)
        with pytest.raises(BarnabasError, match="has no keys for tokens: it cannot be read"):
            await wait(keys.start())
        keys.close()
        file.write_text(json.dumps(jwks(one=RSA)))
        keys = Jwks(endpoint, LoopClock(asyncio.get_running_loop()), lambda: None)
        await wait(keys.start())
        assert keys.find(None, "RS256").id == "one"
        keys.close()

    run(scenario(), 30)


def login(options="", **values):
    given = {**DEFAULTS, **{f"sasl.{name.replace('_', '.')}": value for name, value in values.items()}}
    jaas = None if options is None else f"{MODULE} required {options};"
    return client_login("OAUTHBEARER", jaas, given)


def talk(client, exchange):
    """Client and broker to the end."""

    async def scenario():
        await wait(client.prepare())
        one = client.start()
        challenge = b""
        while (said := one.evaluate(challenge)) is not None:
            challenge = exchange.evaluate(said)
        assert one.complete
        return exchange.user

    return asyncio.run(scenario())


def test_our_client_makes_unsecured_tokens_of_its_options():
    options = (
        'unsecuredLoginStringClaim_sub="alice" unsecuredLoginListClaim_scope="|a|b" '
        'unsecuredLoginNumberClaim_n="1.5" unsecuredLoginLifetimeSeconds=60 '
        'unsecuredLoginExtension_traceId="x"'
    )
    exchange = server('unsecuredValidatorRequiredScope="a b"')
    assert talk(login(options), exchange) == "alice"
    assert 50_000 < exchange.lifetime_ms <= 60_000
    for wrong in (
        "",
        'unsecuredLoginStringClaim_sub=""',
        'unsecuredLoginStringClaim_sub=a unsecuredLoginStringClaim_exp="1"',
        "unsecuredLoginStringClaim_sub=a unsecuredLoginNumberClaim_x=inf",
        "unsecuredLoginStringClaim_sub=a unsecuredLoginExtension_auth=x",
        "unsecuredLoginStringClaim_sub=a unsecuredLoginLifetimeSeconds=soon",
    ):
        with pytest.raises(ConfigError):
            login(wrong)


def test_our_client_hears_why_it_is_refused():
    with pytest.raises(SaslAuthenticationError) as refused:
        talk(login("unsecuredLoginStringClaim_sub=alice"), server("unsecuredValidatorRequiredScope=LOGIN"))
    assert str(refused.value) == '{"status":"insufficient_scope", "scope":"[LOGIN]"}'


def from_server(issuer, **more):
    return login(
        'clientId="me" clientSecret="se cret" scope="a b"',
        login_callback_handler_class=LOGIN,
        oauthbearer_token_endpoint_url=f"{issuer.url}/token",
        **more,
    )


def test_our_client_asks_a_server_for_tokens(issuer):
    issuer.gives({"access_token": f" {signed()} ", "token_type": "Bearer"})
    client = from_server(issuer)
    assert talk(client, server(keys=ONE)) == "alice"
    ((method, path, headers, body),) = issuer.requests
    assert (method, path, body) == ("POST", "/token", b"grant_type=client_credentials&scope=a+b")
    assert headers["Authorization"] == "Basic bWU6c2UgY3JldA=="
    # The token is good for an hour: no other is asked for.
    assert talk(client, server(keys=ONE)) == "alice"
    assert len(issuer.requests) == 1
    assert "cret" not in repr(client)


@pytest.mark.parametrize(
    ("gives", "status", "words", "asked"),
    [
        ({"error": "invalid_client", "error_description": "who?"}, 401, "status 401: invalid_client who?", 1),
        ({}, 503, "status 503", 2),
        ({}, 200, "has no access_token", 1),
        ({"access_token": 7}, 200, "has no access_token", 1),
        (b"[" * 99_999, 200, "has no access_token", 1),
        ({"access_token": "a.b"}, 200, "what was given is no token", 1),
        ({"access_token": signed(exp=None)}, 200, "does not say when it ends", 1),
    ],
    ids=numbered,
)
def test_no_token_is_one_line_without_a_secret(issuer, gives, status, words, asked):
    issuer.gives(gives, status)
    client = from_server(issuer, login_retry_backoff_ms=10, login_retry_backoff_max_ms=500)
    with pytest.raises(SaslAuthenticationError, match=words) as refused:
        talk(client, server(keys=ONE))
    assert "cret" not in str(refused.value)
    assert (len(issuer.requests) > 1) is (asked > 1)


@pytest.mark.parametrize(("gives", "status"), [({}, 401), ({}, 503), ({}, 200)])
def test_a_secret_in_the_url_of_a_token_endpoint_is_not_shown(issuer, gives, status):
    issuer.gives(gives, status)
    host = issuer.url.partition("://")[2]
    client = login(
        'clientId="me" clientSecret="x"',
        login_callback_handler_class=LOGIN,
        oauthbearer_token_endpoint_url=f"http://me:se-cret@{host}/token?key=se-cret",
        login_retry_backoff_ms=0,
    )
    with pytest.raises(SaslAuthenticationError, match=re.escape(f"{issuer.url}/token")) as refused:
        talk(client, server(keys=ONE))
    assert "cret" not in str(refused.value)
    assert "cret" not in repr(client)


def test_tokens_of_a_file_and_of_a_function(tmp_path):
    file = tmp_path / "token"
    file.write_text(signed() + "\n")
    options = {"login_callback_handler_class": LOGIN, "oauthbearer_token_endpoint_url": file.as_uri()}
    assert talk(login("", **options), server(keys=ONE)) == "alice"
    given = iter([signed(), 7])
    client = login(None, login_callback_handler_class=lambda: next(given))
    assert talk(client, server(keys=ONE)) == "alice"

    def failing():
        raise ValueError("no")

    for function, words in ((lambda: 7, "gave none"), (failing, "failed: ValueError")):
        with pytest.raises(SaslAuthenticationError, match=words):
            talk(login(None, login_callback_handler_class=function), server(keys=ONE))
    with pytest.raises(ConfigError):
        login("", login_callback_handler_class=LOGIN)
    with pytest.raises(ConfigError, match="clientId"):
        login("", login_callback_handler_class=LOGIN, oauthbearer_token_endpoint_url="https://x")
    for url in (
        "ftp://x",
        "x",
        "http://",
        "http://x:99999",
        "file:",
        "http://x/a?se cret",
        "http://me:se?cret@x",
    ):
        with pytest.raises(ConfigError, match="URL") as refused:
            login("", login_callback_handler_class=LOGIN, oauthbearer_token_endpoint_url=url)
        assert "cret" not in str(refused.value)


def test_a_token_is_replaced_before_its_end_and_serves_until_then(run):
    async def scenario():
        given = [signed(sub="one", exp=time.time() + 1), signed(sub="two"), None]
        client = login(None, login_callback_handler_class=lambda: given.pop(0))
        for _ in range(2):
            await wait(client.prepare())
            assert b"auth=Bearer" in client.start().evaluate(b"")
        assert len(given) == 2
        await asyncio.sleep(1)
        together = [client.prepare() for _ in range(5)]
        for each in together:
            await wait(each)
        assert len(given) == 1

    run(scenario(), 30)


def test_without_another_token_the_one_that_is_still_valid_serves(run):
    given = [BearerToken("first", "alice", 100_000)]
    now = [0.0]
    tokens = AccessTokens(given.pop, RefreshSettings(), lambda: now[0], random.Random(1))

    async def scenario():
        await wait(tokens.prepare())
        for now[0] in (85_000.0, 99_999.0):
            await wait(tokens.prepare())
            assert tokens.current().value == "first"
        now[0] = 100_000.0
        with pytest.raises(SaslAuthenticationError, match="got no token"):
            await wait(tokens.prepare())

    with pytest.raises(SaslAuthenticationError):
        tokens.current()
    run(scenario(), 30)


@pytest.mark.parametrize(
    ("lives_s", "refreshed_s"), [(3600, 2880), (600, 300), (361, 61), (100, 80), (1000, 700)]
)
def test_when_a_token_is_replaced(lives_s, refreshed_s):
    token = BearerToken("x", "alice", lives_s * 1000, 0)
    assert refresh_time(token, 0, RefreshSettings(), 0) == pytest.approx(refreshed_s * 1000)


def test_over_the_wire_a_session_ends_with_its_token():
    mechanisms = {"OAUTHBEARER": server}

    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        await client.handshake("OAUTHBEARER")
        done = await client.authenticate(first_message(unsecured(exp=time.time() + 60, iat=None)))
        assert (done.error_code, done.auth_bytes) == (0, b"")
        assert 50_000 < done.session_lifetime_ms <= 60_000
        assert await client.whoami() == "User:alice"
        await client.close()

        client = await SaslClientOnFrames.connect(port)
        await client.handshake("OAUTHBEARER")
        said = await client.authenticate(first_message("a.b.c"))
        assert (said.error_code, said.auth_bytes, said.session_lifetime_ms) == (0, INVALID.encode(), 0)
        refused = await client.authenticate(b"\x01")
        assert (refused.error_code, refused.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID)
        assert await client.is_closed()
        await client.close()

    assert on_sasl(scenario, mechanisms=mechanisms).counts.successful == 1


def test_a_token_that_ends_within_the_skew_gives_no_session_without_end():
    mechanisms = {"OAUTHBEARER": lambda: server("unsecuredValidatorAllowableClockSkewMs=60000")}

    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        await client.handshake("OAUTHBEARER")
        done = await client.authenticate(first_message(unsecured(exp=time.time() - 30, iat=1)))
        assert done.error_code == 0
        await asyncio.sleep(0.01)
        client.send(b"\0\0\0\x0a\0\x03\0\0\0\0\0\1\xff\xff")
        assert await client.is_closed()
        await client.close()

    assert on_sasl(scenario, mechanisms=mechanisms).counts.expired == 1


def test_tokens_that_are_refused_one_after_the_other_have_few_lines(monkeypatch, caplog):
    monkeypatch.setattr(fault_log, "LINES_MAX", 2)
    monkeypatch.setattr(fault_log, "LINES_A_SECOND", 0)
    caplog.set_level("INFO", "barnabas.network")

    async def scenario(port, _functions):
        client = await SaslClientOnFrames.connect(port)
        await client.handshake("OAUTHBEARER")
        for _ in range(5):
            refused = await client.authenticate(first_message(unsecured(exp=1)))
            assert b"invalid_token" in bytes(refused.auth_bytes)
        await client.close()

    on_sasl(scenario, mechanisms={"OAUTHBEARER": server})
    lines = [line for line in caplog.messages if line.startswith("network.")]
    assert [line.partition(" ")[0] for line in lines] == [
        "network.bearer_token_refused",
        "network.bearer_token_refused",
        "network.lines_left_out",
    ]
    assert lines[0].endswith('listener=PLAINTEXT reason="it has expired"')


def test_a_token_behind_one_that_was_refused_is_not_told_as_refused():
    exchange = server()
    assert answer(exchange, unsecured({"alg": "RS256"}))[1] is None
    assert exchange.refused_because
    assert answer(exchange, unsecured()) == ("", "alice")
    assert exchange.refused_because is None


def test_no_token_is_in_a_repr_or_in_the_log(caplog):
    caplog.set_level("DEBUG")
    token = signed(OTHER_RSA)
    refusing = [server(keys=ONE), server()]
    for each in refusing:
        answer(each, token)
        assert each.refused_because not in (None, "")
        assert not any(part in each.refused_because for part in token.split("."))
    for each in token.split("."):
        assert each not in caplog.text
    assert jwt.decode(token, options={"verify_signature": False})["sub"] == "alice"
    assert token not in repr(BearerToken(token, "alice", 1))


def test_a_server_of_https_is_known_by_the_options_of_the_line(tmp_path):
    authority = Authority()
    trusted = authority.pem(tmp_path / "ca.pem")
    options = (("ssl.truststore.location", trusted), ("ssl.truststore.type", "PEM"))
    context = endpoint_tls("https://x", (*options, ("ssl.enabled.protocols", "TLSv1.3"), ("ssl.other", "y")))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1
    assert endpoint_tls("http://x", options) is None
    with pytest.raises(ConfigError):
        endpoint_tls("https://x", (("ssl.truststore.location", "/nowhere"),))
