"""Short names of principals, and the exchange of GSSAPI without a library behind it."""

import pytest

from barnabas.core.errors import ConfigError
from barnabas.network.sasl.kerberos.exchange import GssapiClient, GssapiServer
from barnabas.network.sasl.kerberos.names import ShortNamer
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError

REALM = "EXAMPLE.COM"


def named(principal, *rules):
    return ShortNamer(rules or ["DEFAULT"], REALM).short_name(principal)


# Those of Kafka's own tests of its rules, and what else its pattern lets through.
@pytest.mark.parametrize(
    ("principal", "rules", "name"),
    [
        ("alice", (), "alice"),
        ("App.service-name/example.com@EXAMPLE.COM", (), "App.service-name"),
        (
            "App.service-name@EXAMPLE.COM",
            ("RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT"),
            "service-name",
        ),
        ("user/host@REALM.COM", ("RULE:[2:$1](.*)s/^.*$/guest/", "DEFAULT"), "guest"),
        ("User@REALM.COM", ("RULE:[1:$1]/L",), "user"),
        ("User@REALM.COM", ("RULE:[1:$1]/U",), "USER"),
        ("User@REALM.COM", ("RULE:[1:$1-$0](.*-REALM.COM)s/-.*//L",), "user"),
        ("a.b.c@EXAMPLE.COM", (r"RULE:[1:$1]s/\./_/g",), "a_b_c"),
        ("a.b.c@EXAMPLE.COM", (r"RULE:[1:$1]s/\./_/",), "a_b.c"),
        ("svc/host@EXAMPLE.COM", ("RULE:[1:$1]", "RULE:[2:$2-$1]"), "host-svc"),
    ],
)
def test_the_first_rule_that_has_a_name_counts(principal, rules, name):
    assert named(principal, *rules) == name


@pytest.mark.parametrize(
    ("principal", "rules", "problem"),
    [
        ("alice@OTHER.COM", (), "No rules apply to alice@OTHER.COM"),
        ("alice@EXAMPLE.COM", ("RULE:[2:$1]",), "No rules apply"),
        ("alice@EXAMPLE.COM", ("RULE:[1:$1](bob)",), "No rules apply"),
        ("alice@EXAMPLE.COM", ("RULE:[1:$1](ali)",), "No rules apply"),
        ("alice@EXAMPLE.COM", ("RULE:[1:$1@$0]",), "Non-simple name"),
        ("alice@EXAMPLE.COM", ("RULE:[1:$1]s/.*//",), "Non-simple name"),
        ("a/b/c@EXAMPLE.COM", (), "Malformed Kerberos name"),
        ("a@b@EXAMPLE.COM", (), "Malformed Kerberos name"),
    ],
)
def test_who_gets_no_name_gets_nowhere(principal, rules, problem):
    with pytest.raises(SaslAuthenticationError, match=problem):
        named(principal, *rules)


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE:[1:$1", "RULE:[n:$1]", "RULE:[1:$2]", "RULE:[3:$1]", "RULE:[1:$1](()"]
)
def test_a_rule_that_is_none_is_refused(rule):
    with pytest.raises(ConfigError, match="Invalid rule"):
        ShortNamer([rule], REALM)


class Paired:
    """One end of a context that takes `rounds` tokens each way; proof is a prefix."""

    def __init__(self, rounds, *, initiates=False):
        self.initiator = f"alice@{REALM}"
        self.rounds = rounds
        self.complete = False
        self._initiates = initiates

    def step(self, token):
        if not self._initiates and not token.startswith(b"context"):
            raise SaslExchangeError("Defective token")
        self.rounds -= 1
        self.complete = self.rounds <= 0
        return b"context" if not self.complete or not self._initiates else b""

    def wrap(self, message):
        return b"proof" + message

    def unwrap(self, message):
        if not message.startswith(b"proof"):
            raise SaslExchangeError("A token had an invalid signature")
        return message.removeprefix(b"proof")


def server(rounds=1):
    return GssapiServer(lambda: Paired(rounds), ShortNamer(["DEFAULT"], REALM))


@pytest.mark.parametrize("rounds", [1, 2])
def test_both_ends_come_to_the_end_together(rounds):
    broker = server(rounds)
    client = GssapiClient(lambda: (Paired(rounds, initiates=True), b"context"))
    challenge, said = b"", []
    while (token := client.evaluate(challenge)) is not None:
        said.append(token)
        # Nobody is in before the last message is proved.
        assert broker.user is None
        challenge = broker.evaluate(token)

    assert client.complete
    assert broker.user == "alice"
    assert said == [*[b"context"] * rounds, b"", b"proof\x01\x00\x00\x00"]


@pytest.mark.parametrize(
    ("tokens", "problem"),
    [
        ([b"nonsense"], "Defective token"),
        ([b"context", b"more"], "before it knows the layers"),
        ([b"context", b"", b"\x01\0\0\0"], "invalid signature"),
        ([b"context", b"", b"proof\x02\0\0\0"], "wants a layer"),
        ([b"context", b"", b"proof\x01"], "wants a layer"),
        ([b"context", b"", b"proof"], "wants a layer"),
        ([b"context", b"", b"proof\x01\0\0\0", b""], "is over"),
    ],
)
def test_a_client_that_breaks_the_exchange_is_nobody_more(tokens, problem):
    broker = server()
    for token in tokens[:-1]:
        broker.evaluate(token)
    with pytest.raises(SaslExchangeError, match=problem):
        broker.evaluate(tokens[-1])


def test_the_name_to_act_for_makes_nobody_else():
    broker = server()
    for token in (b"context", b"", b"proof\x01\0\0\0admin"):
        broker.evaluate(token)
    assert broker.user == "alice"


def test_a_node_that_insists_on_a_layer_is_left():
    client = GssapiClient(lambda: (Paired(1, initiates=True), b"context"))
    client.evaluate(b"")
    client.evaluate(b"context")
    with pytest.raises(SaslAuthenticationError, match="wants a layer"):
        client.evaluate(b"proof\x06\0\0\0")
    assert not client.complete
