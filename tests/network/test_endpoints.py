import pytest

from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ConfigError
from barnabas.network.endpoints import Endpoint, ListenerConfig, parse_endpoints, parse_protocol_map
from listener_refusals import REFUSED, TAKEN

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "INSIDE": "PLAINTEXT", "OUTSIDE": "SASL_SSL"}


def parse(**config):
    return ListenerConfig.parse({key.replace("_", "."): value for key, value in config.items()})


def parse_broker(settings):
    """As a broker does at its start, with the values of its whole configuration."""
    config = broker_config(settings)
    return ListenerConfig.parse(config, explicit=config.explicit())


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


@pytest.mark.parametrize("port", ["65536", "-1", "4294967296"])
def test_a_port_that_no_machine_has_is_refused_before_it_is_bound(port):
    with pytest.raises(ConfigError, match=f"port out of range:{port}$"):
        parse_endpoints(f"PLAINTEXT://host:{port}", PROTOCOLS)


@pytest.mark.parametrize("case", REFUSED)
def test_what_kafka_refuses_is_refused_with_its_line(case):
    settings, line = REFUSED[case]
    with pytest.raises(ConfigError) as refused:
        parse_broker(settings)
    assert str(refused.value) == line


@pytest.mark.parametrize("case", TAKEN)
def test_what_kafka_takes_is_taken(case):
    parse_broker(TAKEN[case])


def test_advertised_ports_may_be_shared():
    assert len(parse_endpoints("INSIDE://a:1,OUTSIDE://b:1", PROTOCOLS, distinct_ports=False)) == 2


def test_a_protocol_map():
    assert parse_protocol_map("inside:PLAINTEXT, Outside:sasl_ssl") == {
        "INSIDE": "PLAINTEXT",
        "OUTSIDE": "SASL_SSL",
    }
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


def test_what_is_advertised_once_ports_are_bound():
    config = parse(listeners="PLAINTEXT://:0")
    bound = [config.listeners[0].with_port(40_000)]

    assert config.advertise(bound, "me.example") == (Endpoint("PLAINTEXT", "me.example", 40_000),)
    fixed = parse(listeners="PLAINTEXT://:0", advertised_listeners="PLAINTEXT://host:9")
    assert fixed.advertise(bound, "me.example") == (Endpoint("PLAINTEXT", "host", 9),)


def test_an_endpoint_reads_like_its_config():
    assert str(Endpoint("SSL", "::1", 9, "SSL")) == "SSL://[::1]:9"
    assert str(Endpoint("A", "h", 0).with_port(9)) == "A://h:9"
