"""Tokens beside Apache Kafka 3.9: who is refused in which words, and delegation tokens that brokers of both
kinds share in one cluster.
"""

import base64
import contextlib
import json
import re
import socket
import time
from functools import partial

import kafka_harness
import pytest
from kafka_tools import KafkaTools
from kafka_tools import ours as mine
from kazoo.client import KazooClient

from access_tokens import EC, MODULE, OTHER_RSA, RSA, VALIDATOR, first_message, jwks, part, signed, unsecured
from barnabas.admin import Admin
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from serving import free_port
from waiting import eventually

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
UNSECURED_OPTIONS = (
    'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="LOGIN READ" '
    'unsecuredValidatorAllowableClockSkewMs="3000"'
)


class Broker:
    """One broker of either kind, and its ports by the names of listeners."""

    def __init__(self, folder, keys):
        names = ("INNER", "OPEN", "SIGNED")
        self.ports = {name: free_port() for name in names}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        self.settings = {
            "listeners": listeners,
            "listener.security.protocol.map": "INNER:PLAINTEXT,OPEN:SASL_PLAINTEXT,SIGNED:SASL_PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "delegation.token.secret.key": "sesame",
            "offsets.topic.replication.factor": "1",
        }
        for name in ("open", "signed"):
            own = f"listener.name.{name}"
            users = f'{PLAIN} required user_alice="a" user_bob="b";'
            self.settings[f"{own}.plain.sasl.jaas.config"] = users
            for bits in ("256", "512"):
                self.settings[f"{own}.scram-sha-{bits}.sasl.jaas.config"] = f"{SCRAM} required;"
        self.settings["listener.name.open.oauthbearer.sasl.jaas.config"] = (
            f"{MODULE} required {UNSECURED_OPTIONS};"
        )
        own = "listener.name.signed.oauthbearer.sasl"
        self.settings |= {
            f"{own}.jaas.config": f"{MODULE} required;",
            f"{own}.server.callback.handler.class": VALIDATOR,
            f"{own}.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"{own}.oauthbearer.expected.audience": "kafka",
            f"{own}.oauthbearer.expected.issuer": "me",
        }

    def bootstrap(self, listener="OPEN"):
        return f"127.0.0.1:{self.ports[listener]}"

    def options(self, user="alice"):
        return {
            "bootstrap.servers": self.bootstrap(),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="{user}" password="{user[0]}";',
        }

    def with_token(self, token_id, hmac, mechanism="SCRAM-SHA-256"):
        password = base64.b64encode(hmac).decode()
        line = f'{SCRAM} required username="{token_id}" password="{password}" tokenauth="true";'
        return {**self.options(), "sasl.mechanism": mechanism, "sasl.jaas.config": line}


@pytest.fixture(scope="module")
def connect(zookeeper):
    return f"{zookeeper}/tokens"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "jwks.json"
    file.write_text(json.dumps(jwks(one=RSA, curve=EC)))
    return file


@pytest.fixture(scope="module")
def theirs(connect, keys, server_folder):
    folder = server_folder / "tokens"
    folder.mkdir()
    broker = Broker(folder, keys)
    server = kafka_harness.start_broker(folder, connect, 1, broker.settings, port=broker.ports["INNER"])
    server.wait_until_listening()
    yield broker
    server.kill()


@pytest.fixture
def ours(serve, connect, keys, tmp_path):
    broker = Broker(tmp_path, keys)
    options = [part for key, value in broker.settings.items() for part in ("--set", f"{key}={value}")]
    given = ("--id", "2", "--zookeeper", connect, "--set", "barnabas.api.profile=3.9", *options)
    serve(tmp_path / "data", *given).wait_until_ready()
    return broker


class Frames:
    """A connection that says requests one by one; an answer is None where the broker closes instead."""

    def __init__(self, bootstrap):
        host, port = bootstrap.split(":")
        self.socket = socket.create_connection((host, int(port)), 10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ask(self, request, version):
        header = RequestHeader(request.api, version, 7, "test")
        self.socket.sendall(b"".join(encode_request(header, request)))
        size = self._read(4)
        frame = None if size is None else self._read(int.from_bytes(size))
        return None if frame is None else decode_response(request.api, version, memoryview(frame))[1]

    def _read(self, count):
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionError:
                return None
            if not more:
                return None
            data += more
        return bytearray(data)

    def log_in(self, mechanism, message):
        """What came of it: each answer's code, words and bytes, to the end."""
        answered = self.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        assert answered.error_code == 0
        said = []
        while True:
            answer = self.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
            if answer is None:
                return [*said, "closed"]
            said.append((answer.error_code, answer.error_message or "", bytes(answer.auth_bytes)))
            if answer.error_code or not answer.auth_bytes:
                return said
            message = b"\x01"


def now():
    return time.time()


SCOPES = {"scope": ["LOGIN", "READ"]}
OPEN = {
    "good": lambda: first_message(unsecured(**SCOPES)),
    "good, with an authorization id and extensions": lambda: first_message(
        unsecured(**SCOPES), "alice", a="b c"
    ),
    "expired within the skew": lambda: first_message(unsecured(exp=now() - 1, iat=None, **SCOPES)),
    "another authorization id": lambda: first_message(unsecured(**SCOPES), "bob"),
    "no scope": lambda: first_message(unsecured()),
    "a scope as text": lambda: first_message(unsecured(scope="LOGIN READ")),
    "expired": lambda: first_message(unsecured(exp=now() - 60, iat=None, **SCOPES)),
    "issued in the future": lambda: first_message(unsecured(iat=now() + 60, **SCOPES)),
    "ends before it was issued": lambda: first_message(unsecured(iat=now(), exp=now() - 1, **SCOPES)),
    "no end": lambda: first_message(unsecured(exp=None, **SCOPES)),
    "an end that is a text": lambda: first_message(unsecured(exp="soon", **SCOPES)),
    "no owner": lambda: first_message(unsecured(sub=None, **SCOPES)),
    "an owner of blanks": lambda: first_message(unsecured(sub=" ", **SCOPES)),
    "an owner that is a number": lambda: first_message(unsecured(sub=7, **SCOPES)),
    "an algorithm": lambda: first_message(unsecured({"alg": "RS256"}, **SCOPES)),
    "a signature": lambda: first_message(unsecured(signature="abc", **SCOPES)),
    "two parts": lambda: first_message("a.b"),
    "no JSON": lambda: first_message(f"{part({'alg': 'none'})}.{part(b'x')}."),
    "no base64": lambda: first_message("~.~."),
    "empty": lambda: b"",
    "the answer to an error": lambda: b"\x01",
    "another scheme": lambda: first_message(unsecured(**SCOPES)).replace(b"Bearer", b"Basic"),
    "no end of the message": lambda: first_message(unsecured(**SCOPES))[:-1],
    "no auth": lambda: b"n,,\x01a=b\x01\x01",
}


def changed(token):
    header, _, signature = token.split(".")
    return f"{header}.{part({'sub': 'x'})}.{signature}"


MINE = {"aud": "kafka", "iss": "me"}
SIGNED = {
    "good": lambda: signed(**MINE),
    "of a curve": lambda: signed(EC, "ES256", "curve", **MINE),
    "padded": lambda: signed(algorithm="PS256", **MINE),
    "among audiences": lambda: signed(**{**MINE, "aud": ["x", "kafka"]}),
    "expired within the skew": lambda: signed(exp=now() - 20, iat=1, **MINE),
    "issued in the future": lambda: signed(iat=now() + 600, **MINE),
    "a scope": lambda: signed(scope=["a", "b"], **MINE),
    "expired": lambda: signed(exp=now() - 60, iat=1, **MINE),
    "not valid yet": lambda: signed(nbf=now() + 60, **MINE),
    "another key": lambda: signed(OTHER_RSA, **MINE),
    "a key that is not known": lambda: signed(kid="two", **MINE),
    "a key of another kind": lambda: signed(kid="curve", **MINE),
    "another audience": lambda: signed(**{**MINE, "aud": "x"}),
    "no audience": lambda: signed(iss="me"),
    "another issuer": lambda: signed(**{**MINE, "iss": "you"}),
    "no issuer": lambda: signed(aud="kafka"),
    "no end": lambda: signed(exp=None, **MINE),
    "no beginning": lambda: signed(iat=None, **MINE),
    "no owner": lambda: signed(sub=None, **MINE),
    "an owner of blanks": lambda: signed(sub=" ", **MINE),
    "a scope twice": lambda: signed(scope=["a", "a"], **MINE),
    "ends before it was issued": lambda: signed(iat=now() + 7200, exp=now() + 3600, **MINE),
    "no algorithm": lambda: unsecured(**MINE),
    "no algorithm, with a signature": lambda: unsecured({"alg": "none", "kid": "one"}, "abc", **MINE),
    "changed": lambda: ".".join(
        [signed(**MINE).split(".")[0], part({**MINE, "sub": "x"}), signed().split(".")[2]]
    ),
    "no signature": lambda: signed(**MINE).rpartition(".")[0] + ".",
}


def outcomes(broker, listener, messages):
    found = {}
    for name, message in messages.items():
        with Frames(broker.bootstrap(listener)) as client:
            found[name] = client.log_in("OAUTHBEARER", message())
    return found


def test_bearer_tokens_without_a_signature_are_taken_and_refused_as_by_kafka(theirs, ours):
    mine, kafkas = outcomes(ours, "OPEN", OPEN), outcomes(theirs, "OPEN", OPEN)
    # Kafka means to name the scheme, and fails at that.
    assert (kafkas.pop("another scheme"), mine.pop("another scheme")[0][0]) == (["closed"], 58)
    assert mine == kafkas
    assert [name for name, said in mine.items() if said == [(0, "", b"")]] == list(OPEN)[:3]


def test_bearer_tokens_with_a_signature_are_taken_and_refused_as_by_kafka(theirs, ours):
    messages = {name: lambda make=make: first_message(make()) for name, make in SIGNED.items()}
    mine = outcomes(ours, "SIGNED", messages)
    assert mine == outcomes(theirs, "SIGNED", messages)
    assert [name for name, said in mine.items() if said == [(0, "", b"")]] == list(SIGNED)[:7]


def requests(version):
    """What is asked of each broker, one after the other; a function gets the secret of the first token."""
    renewers = [CreatableRenewers(principal_type="User", principal_name="bob")]
    odd = [CreatableRenewers(principal_type="Group", principal_name="x")]
    more = {}
    if version == 3:
        more["for another"] = lambda _: CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="bob", max_lifetime_ms=-1
        )
    return {
        "create": lambda _: CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1),
        "create, short": lambda _: CreateDelegationTokenRequest(max_lifetime_ms=60_000),
        "create, odd": lambda _: CreateDelegationTokenRequest(renewers=odd, max_lifetime_ms=-1),
        **more,
        "describe all": lambda _: DescribeDelegationTokenRequest(owners=None),
        "describe nobody": lambda _: DescribeDelegationTokenRequest(owners=[]),
        "describe bob": lambda _: DescribeDelegationTokenRequest(
            owners=[DescribeDelegationTokenOwner(principal_type="User", principal_name="bob")]
        ),
        "renew": lambda secret: RenewDelegationTokenRequest(hmac=secret, renew_period_ms=5000),
        "renew, default": lambda secret: RenewDelegationTokenRequest(hmac=secret, renew_period_ms=-1),
        "renew nothing": lambda _: RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1),
        "expire": lambda secret: ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=5000),
        "expire nothing": lambda _: ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=-1),
        "expire now": lambda secret: ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1),
        "renew what is gone": lambda secret: RenewDelegationTokenRequest(hmac=secret, renew_period_ms=1),
        "describe what is left": lambda _: DescribeDelegationTokenRequest(owners=None),
    }


def shown(response, began_ms):
    """An answer without what differs each time: ids and secrets by their length, times by the minute."""

    def plain(name, value):
        if isinstance(value, list):
            return sorted((fields(each) for each in value), key=repr)
        if isinstance(value, bytes | bytearray | memoryview):
            return len(value)
        if "timestamp" in name and value > 0:
            return round((value - began_ms) / 60_000)
        return len(value) if name == "token_id" else value

    def fields(value):
        names = [name for name in dir(type(value)) if not name.startswith("_") and hasattr(value, name)]
        return {
            name: plain(name, getattr(value, name))
            for name in names
            if not callable(getattr(value, name)) and name in type(value).__annotations__
        }

    return fields(response)


def answers(broker, version):
    began_ms, found, secret = now() * 1000, {}, b""
    with Frames(broker.bootstrap()) as client:
        assert client.log_in("PLAIN", b"\0alice\0a") == [(0, "", b"")]
        for name, make in requests(version).items():
            request = make(secret)
            response = client.ask(request, min(version, type(request).max_version))
            if name == "create":
                secret = bytes(response.hmac)
            found[name] = shown(response, began_ms)
    return found


def cleared(*brokers):
    """Ends all tokens; how many there were."""
    count = 0
    for broker in brokers:
        for owner in ("alice", "bob"):
            with Admin(broker.options(owner)) as admin:
                for token in admin.delegation_tokens.describe():
                    count += 1
                    with contextlib.suppress(KafkaError):  # the other broker was quicker, or it is another's
                        admin.delegation_tokens.expire(token.hmac)
    return count


@pytest.mark.parametrize("version", range(4))
def test_requests_about_delegation_tokens_are_answered_as_by_kafka(theirs, ours, version):
    found = []
    for broker in (theirs, ours):
        eventually(partial(cleared, theirs, ours), expected=0)
        found.append(answers(broker, version))
    assert found[1] == found[0]


def test_a_token_of_either_broker_lets_in_at_both(theirs, ours, connect):
    znodes = KazooClient(connect)
    znodes.start()
    try:
        for maker, other in ((theirs, ours), (ours, theirs)):
            with Admin(maker.options()) as alice:
                token = alice.delegation_tokens.create(renewers=["User:bob"])
            _lets_in_everywhere(token, theirs, ours)
            data = znodes.get(f"/delegation_token/tokens/{token.information.token_id}")[0]
            assert list(json.loads(data)) == [
                "issueTimestamp", "renewers", "tokenRequester", "tokenId", "owner", "expiryTimestamp",
                "maxTimestamp", "version",
            ]  # fmt: skip
            with Admin(other.options("bob")) as bob:
                bob.delegation_tokens.renew(token.hmac, 100_000)
                bob.delegation_tokens.expire(token.hmac)
            for broker in (maker, other):
                refused = partial(lets_in, broker.with_token(token.information.token_id, token.hmac))
                eventually(refused, expected=False)
    finally:
        znodes.stop()
        znodes.close()


def _lets_in_everywhere(token, *brokers):
    arguments = (token.information.token_id, token.hmac)
    for broker in brokers:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            eventually(partial(lets_in, broker.with_token(*arguments, mechanism)), expected=True)
    for broker in brokers:  # each client may ask either of them, so both know the token by now
        with Admin(broker.with_token(*arguments)) as bearer, pytest.raises(KafkaError) as refused:
            bearer.delegation_tokens.create()
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def lets_in(options):
    try:
        with Admin(options) as admin:
            admin.topics.list()
    except SaslAuthenticationError:
        return False
    return True


def properties(folder, options):
    file = folder / f"{len(list(folder.iterdir()))}.properties"
    lines = (f"{key}={value}\n" for key, value in options.items() if key != "bootstrap.servers")
    file.write_text("".join(lines))
    return str(file)


def test_tools_and_clients_of_kafkas_with_tokens(theirs, ours, tmp_path):
    alice = properties(tmp_path, ours.options())
    flags = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    lines = []
    with KafkaTools() as kafka:
        for broker, other in ((theirs, ours), (ours, theirs)):
            where = ("--bootstrap-server", broker.bootstrap(), "--command-config", alice)
            both = (
                partial(kafka, "kafka-delegation-tokens", *where),
                partial(mine, "delegation-tokens", *where),
            )
            for done in [run(*flags) for run in both]:
                assert done.code == 0, done.out + done.err
                token_id = done.out.split("tokenId : ")[1].split()[0]
                secret = next(word for word in done.out.split() if word.endswith("=="))
                lines.append(done.out.replace(token_id, "ID").replace(secret, "HMAC"))
                # Kafka's own client is let in with it, at the broker of the other kind.
                bearer = other.with_token(token_id, base64.b64decode(secret))
                eventually(partial(lets_in, bearer), expected=True)
                worker = properties(tmp_path, bearer)
                there = ("--bootstrap-server", other.bootstrap(), "--command-config", worker)
                listed = kafka("kafka-topics", *there, "--list")
                assert listed.code == 0, listed.out + listed.err
                shown = [run("--describe", "--owner-principal", "User:bob") for run in both]
                assert sorted(shown[0].out.split("\n")) == sorted(shown[1].out.split("\n"))
                for verb, period in (("renew", "renew-time"), ("expire", "expiry-time")):
                    change = (f"--{verb}", f"--{period}-period", "60000", "--hmac", secret)
                    ended = [run(*change) for run in both]
                    assert [each.code for each in ended] == [0, 0]
                    assert _without_minutes(ended[0].out) == _without_minutes(ended[1].out)
    assert len({_without_minutes(each) for each in lines}) == 1


def _without_minutes(text):
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "DATE", text)


def test_a_client_of_kafkas_with_a_bearer_token(ours, tmp_path):
    with KafkaTools() as kafka:
        for claim, code in (('unsecuredLoginListClaim_scope="|LOGIN|READ"', 0), ("", 1)):
            options = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="alice" {claim};',
            }
            where = (
                "--bootstrap-server",
                ours.bootstrap(),
                "--command-config",
                properties(tmp_path, options),
            )
            done = kafka("kafka-topics", *where, "--list")
            assert done.code == code, done.out + done.err
    assert '{"status":"insufficient_scope", "scope":"[LOGIN, READ]"}' in done.out + done.err
