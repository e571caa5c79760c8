import pytest

from barnabas.core.errors import ConfigError
from barnabas.network.endpoints import Endpoint, ListenerConfig, parse_endpoints, parse_protocol_map

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "INSIDE": "PLAINTEXT", "OUTSIDE": "SASL_SSL"}


def parse(explicit=(), **config):
    return ListenerConfig.parse({key.replace("_", "."): value for key, value in config.items()}, explicit)


def test_the_defaults():
    config = parse()

    assert config.listeners == (Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert config.advertised == config.listeners
    assert config.inter_broker_name == "PLAINTEXT"
    assert config.control_plane_name is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://localhost:9092", [("PLAINTEXT", "localhost", 9092, "PLAINTEXT")]),
        ("plaintext://:0", [("PLAINTEXT", "", 0, "PLAINTEXT")]),
        ("SSL://[::1]:1", [("SSL", "::1", 1, "SSL")]),
        (
            " inside://a.b-c_d:1 , Outside://10.0.0.1:2,",
            [("INSIDE", "a.b-c_d", 1, "PLAINTEXT"), ("OUTSIDE", "10.0.0.1", 2, "SASL_SSL")],
        ),
        (
            "INSIDE://127.0.0.1:9092,OUTSIDE://[::1]:9092",
            [("INSIDE", "127.0.0.1", 9092, "PLAINTEXT"), ("OUTSIDE", "::1", 9092, "SASL_SSL")],
        ),
        ("INSIDE://a:0,OUTSIDE://b:0", [("INSIDE", "a", 0, "PLAINTEXT"), ("OUTSIDE", "b", 0, "SASL_SSL")]),
    ],
)
def test_lists_of_listeners(text, expected):
    assert parse_endpoints(text, PROTOCOLS) == [Endpoint(*each) for each in expected]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("localhost:9092", "Unable to parse localhost:9092 to a broker endpoint"),
        ("PLAINTEXT://host", "Unable to parse PLAINTEXT://host"),
        ("PLAINTEXT://ho st:1", "Unable to parse PLAINTEXT://ho st:1"),
        ("PLAINTEXT://host:1x", "Unable to parse"),
        ("NOWHERE://host:1", "No security protocol defined for listener NOWHERE"),
        ("PLAINTEXT://host:65536", "port out of range:65536"),
        ("PLAINTEXT://host:-1", "port out of range:-1"),
        ("INSIDE://a:1,inside://b:2", "Each listener must have a different name, listeners: INSIDE://a:1"),
        ("INSIDE://a:1,OUTSIDE://b:1", "Each listener must have a different port, listeners: "),
        (
            "INSIDE://10.0.0.1:1,OUTSIDE://10.0.0.2:1",
            "on the same port then one needs to be IPv4 and the other IPv6, listeners: .*, port: 1",
        ),
        ("INSIDE://10.0.0.1:1,OUTSIDE://[::1]:1,SSL://a:1", "one needs to be IPv4 and the other IPv6"),
        (
            "INSIDE://10.0.0.1:1,OUTSIDE://[::1]:1,SSL://[::2]:1",
            "unless exactly one listener has an IPv4 address and the other IPv6 address",
        ),
    ],
)
def test_lists_that_are_refused(text, problem):
    with pytest.raises(ConfigError, match=problem):
        parse_endpoints(text, PROTOCOLS)


def test_advertised_ports_may_be_shared():
    assert len(parse_endpoints("INSIDE://a:1,OUTSIDE://b:1", PROTOCOLS, distinct_ports=False)) == 2


def test_a_protocol_map():
    assert parse_protocol_map("inside:PLAINTEXT, Outside:sasl_ssl") == {
        "INSIDE": "PLAINTEXT",
        "OUTSIDE": "SASL_SSL",
    }
    with pytest.raises(ConfigError, match=r"Invalid security protocol `TLS` defined in listener\.security"):
        parse_protocol_map("inside:TLS")
    with pytest.raises(ConfigError, match=r"Error parsing configuration property 'listener\.security"):
        parse_protocol_map("inside")


TWO = {
    "listeners": "IN://:1,OUT://:2",
    "listener_security_protocol_map": "IN:PLAINTEXT,OUT:PLAINTEXT,CTL:PLAINTEXT",
    "inter_broker_listener_name": "in",
}


def test_several_listeners():
    config = parse(**TWO, advertised_listeners="in://a:11,out://b:12", control_plane_listener_name="Out")

    assert [str(each) for each in config.advertised] == ["IN://a:11", "OUT://b:12"]
    assert config.inter_broker_name == "IN"
    assert config.control_plane_name == "OUT"
    assert config.endpoint("OUT").port == 2


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            {"inter_broker_listener_name": "X"},
            "Listener with name X defined in inter.broker.listener.name not",
        ),
        (
            {"inter_broker_listener_name": "SSL"},
            (
                "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid "
                "options based on currently configured listeners are PLAINTEXT"
            ),
        ),
        (
            {"security_inter_broker_protocol": "SSL"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners",
        ),
        ({"security_inter_broker_protocol": "X"}, "Invalid security protocol `X` defined in security.inter"),
        ({"advertised_listeners": ""}, "There must be at least one broker advertised listener."),
        (
            {"advertised_listeners": "PLAINTEXT://a:1,SSL://a:2"},
            (
                "advertised.listeners listener names must be equal to or a subset of the ones defined in "
                "listeners. Found PLAINTEXT,SSL. The valid options based on the current configuration are "
                "PLAINTEXT"
            ),
        ),
        (
            {"listeners": "PLAINTEXT://0.0.0.0:9092"},
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
        ),
        ({"control_plane_listener_name": "X"}, "Listener with X defined in control.plane.listener.name not"),
        (
            {"control_plane_listener_name": "SSL"},
            "control.plane.listener.name must be a listener name defined in advertised.listeners",
        ),
        (
            {"control_plane_listener_name": "PLAINTEXT"},
            (
                "control.plane.listener.name, when defined, should have a different value from the inter broker "
                "listener name. Currently they both have the value ListenerName(PLAINTEXT)"
            ),
        ),
    ],
)
def test_configurations_that_are_refused(config, problem):
    with pytest.raises(ConfigError) as refused:
        parse(**config)
    assert problem in str(refused.value)


def test_name_and_protocol_of_the_inter_broker_listener_exclude_each_other():
    with pytest.raises(
        ConfigError,
        match=r"Only one of inter\.broker\.listener\.name and security\.inter\.broker\.protocol should be set",
    ):
        parse({"security.inter.broker.protocol"}, **TWO, security_inter_broker_protocol="PLAINTEXT")


def test_what_is_advertised_once_ports_are_bound():
    config = parse(listeners="PLAINTEXT://:0")
    bound = [config.listeners[0].with_port(40_000)]

    assert config.advertise(bound, "me.example") == (Endpoint("PLAINTEXT", "me.example", 40_000),)
    fixed = parse(listeners="PLAINTEXT://:0", advertised_listeners="PLAINTEXT://host:9")
    assert fixed.advertise(bound, "me.example") == (Endpoint("PLAINTEXT", "host", 9),)


def test_an_endpoint_reads_like_its_config():
    assert str(Endpoint("SSL", "::1", 9, "SSL")) == "SSL://[::1]:9"
    assert str(Endpoint("A", "h", 0).with_port(9)) == "A://h:9"
