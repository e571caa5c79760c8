"""Settings of listeners that Kafka 3.9 refuses at the start, with its line for each;
a test asks it for them.
"""

_PAIR = {"listeners": "IN://:1,OUT://:2", "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT"}
_NAMED = {**_PAIR, "inter.broker.listener.name": "IN"}
_NAMES = {
    "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,SSL:SSL",
    "inter.broker.listener.name": "IN",
}

REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "no protocol before the host": (
        {"listeners": "localhost:9092"},
        (
            "Error creating broker listeners from 'localhost:9092': Unable to parse localhost:9092 to a "
            "broker endpoint"
        ),
    ),
    "no port": (
        {"listeners": "PLAINTEXT://host"},
        (
            "Error creating broker listeners from 'PLAINTEXT://host': Unable to parse PLAINTEXT://host to a "
            "broker endpoint"
        ),
    ),
    "blank in a host": (
        {"listeners": "PLAINTEXT://ho st:1"},
        (
            "Error creating broker listeners from 'PLAINTEXT://ho st:1': Unable to parse PLAINTEXT://ho "
            "st:1 to a broker endpoint"
        ),
    ),
    "port that is no number": (
        {"listeners": "PLAINTEXT://host:1x"},
        (
            "Error creating broker listeners from 'PLAINTEXT://host:1x': Unable to parse "
            "PLAINTEXT://host:1x to a broker endpoint"
        ),
    ),
    "listener without a name": (
        {"listeners": "://host:1"},
        (
            "Error creating broker listeners from '://host:1': The provided listener name is null or empty "
            "string"
        ),
    ),
    "advertised without a name": (
        {**_NAMED, "advertised.listeners": " ://host:1"},
        (
            "Error creating broker listeners from '://host:1': The provided listener name is null or empty "
            "string"
        ),
    ),
    "blank map": (
        {"listener.security.protocol.map": " "},
        (
            "Error creating broker listeners from 'PLAINTEXT://:9092': No security protocol defined for "
            "listener PLAINTEXT"
        ),
    ),
    "no listeners": ({"listeners": ""}, "There must be at least one broker advertised listener."),
    "only commas": ({"listeners": ","}, "There must be at least one broker advertised listener."),
    "name without a protocol": (
        {"listeners": "NOWHERE://host:1"},
        (
            "Error creating broker listeners from 'NOWHERE://host:1': No security protocol defined for "
            "listener NOWHERE"
        ),
    ),
    "name of a map that lacks it": (
        {**_PAIR, "listeners": "IN://:1,CONTROL://:3"},
        (
            "Error creating broker listeners from 'IN://:1,CONTROL://:3': No security protocol defined for "
            "listener CONTROL"
        ),
    ),
    "map that lacks the default": (
        {"listener.security.protocol.map": "IN:PLAINTEXT"},
        (
            "Error creating broker listeners from 'PLAINTEXT://:9092': No security protocol defined for "
            "listener PLAINTEXT"
        ),
    ),
    "a name twice": (
        {**_NAMES, "listeners": "IN://a:1,in://b:2"},
        "Each listener must have a different name, listeners: IN://a:1,in://b:2",
    ),
    "a port twice": (
        {**_NAMES, "listeners": "IN://a:1,OUT://b:1"},
        "Each listener must have a different port, listeners: IN://a:1,OUT://b:1",
    ),
    "a port twice without hosts": (
        {**_NAMES, "listeners": "IN://:1,OUT://:1"},
        "Each listener must have a different port, listeners: IN://:1,OUT://:1",
    ),
    "a port twice on IPv4": (
        {**_NAMES, "listeners": "IN://10.0.0.1:1,OUT://10.0.0.2:1"},
        (
            "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
            "listeners: IN://10.0.0.1:1,OUT://10.0.0.2:1, port: 1"
        ),
    ),
    "a port twice on IPv6": (
        {**_NAMES, "listeners": "IN://[::1]:1,OUT://[::2]:1"},
        (
            "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
            "listeners: IN://[::1]:1,OUT://[::2]:1, port: 1"
        ),
    ),
    "a port three times": (
        {**_NAMES, "listeners": "IN://10.0.0.1:1,OUT://[::1]:1,SSL://a:1"},
        (
            "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
            "listeners: IN://10.0.0.1:1,OUT://[::1]:1,SSL://a:1, port: 1"
        ),
    ),
    "a port three times by address": (
        {**_NAMES, "listeners": "IN://10.0.0.1:1,OUT://[::1]:1,SSL://[::2]:1"},
        (
            "Each listener must have a different port unless exactly one listener has an IPv4 address and "
            "the other IPv6 address, listeners: IN://10.0.0.1:1,OUT://[::1]:1,SSL://[::2]:1, port: 1"
        ),
    ),
    "address and name on a port": (
        {**_NAMES, "listeners": "IN://10.0.0.1:1,OUT://a:1"},
        (
            "Each listener must have a different port unless exactly one listener has an IPv4 address and "
            "the other IPv6 address, listeners: IN://10.0.0.1:1,OUT://a:1, port: 1"
        ),
    ),
    "unknown protocol in the map": (
        {"listener.security.protocol.map": "IN:TLS"},
        "Invalid security protocol `TLS` defined in listener.security.protocol.map",
    ),
    "empty map": (
        {"listener.security.protocol.map": ""},
        (
            "Error creating broker listeners from 'PLAINTEXT://:9092': No security protocol defined for "
            "listener PLAINTEXT"
        ),
    ),
    "a name twice in the map": (
        {"listener.security.protocol.map": "IN:PLAINTEXT,IN:SSL"},
        (
            "Error creating broker listeners from 'PLAINTEXT://:9092': No security protocol defined for "
            "listener PLAINTEXT"
        ),
    ),
    "empty name in map": (
        {"listener.security.protocol.map": ":PLAINTEXT,PLAINTEXT:PLAINTEXT"},
        "The provided listener name is null or empty string",
    ),
    "inter-broker name that is nowhere": (
        {**_PAIR, "inter.broker.listener.name": "X"},
        (
            "Listener with name X defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map."
        ),
    ),
    "inter-broker name without a listener": (
        {"inter.broker.listener.name": "SSL"},
        (
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid "
            "options based on currently configured listeners are PLAINTEXT"
        ),
    ),
    "inter-broker name is empty": (
        {**_PAIR, "inter.broker.listener.name": ""},
        "The provided listener name is null or empty string",
    ),
    "inter-broker protocol without a listener": (
        {"security.inter.broker.protocol": "SSL"},
        (
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid "
            "options based on currently configured listeners are PLAINTEXT"
        ),
    ),
    "unknown inter-broker protocol": (
        {"security.inter.broker.protocol": "X"},
        (
            "Invalid value X for configuration security.inter.broker.protocol: String must be one of: "
            "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
        ),
    ),
    "inter-broker name and protocol": (
        {**_NAMED, "security.inter.broker.protocol": "PLAINTEXT"},
        "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
    ),
    "no inter-broker name": (
        _PAIR,
        (
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid "
            "options based on currently configured listeners are IN,OUT"
        ),
    ),
    "inter-broker name not advertised": (
        {**_NAMED, "advertised.listeners": "OUT://a:2"},
        (
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid "
            "options based on currently configured listeners are OUT"
        ),
    ),
    "nothing advertised": (
        {**_NAMED, "advertised.listeners": ""},
        "There must be at least one broker advertised listener.",
    ),
    "advertised without a listener": (
        {"listeners": "PLAINTEXT://:1", "advertised.listeners": "PLAINTEXT://a:1,SSL://a:2"},
        (
            "advertised.listeners listener names must be equal to or a subset of the ones defined in "
            "listeners. Found PLAINTEXT,SSL. The valid options based on the current configuration are "
            "PLAINTEXT"
        ),
    ),
    "advertised name without a protocol": (
        {"advertised.listeners": "PLAINTEXT://a:1,X://a:2"},
        (
            "Error creating broker listeners from 'PLAINTEXT://a:1,X://a:2': No security protocol defined "
            "for listener X"
        ),
    ),
    "advertised entry that is none": (
        {"advertised.listeners": "a:1"},
        "Error creating broker listeners from 'a:1': Unable to parse a:1 to a broker endpoint",
    ),
    "advertised name twice": (
        {**_NAMED, "advertised.listeners": "IN://a:1,IN://b:1"},
        "Each listener must have a different name, listeners: IN://a:1,IN://b:1",
    ),
    "advertised on all interfaces": (
        {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
    ),
    "listens on all interfaces and advertises so": (
        {"listeners": "PLAINTEXT://0.0.0.0:9092"},
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
    ),
    "control plane that is nowhere": (
        {**_NAMED, "control.plane.listener.name": "X"},
        "Listener with X defined in control.plane.listener.name not found in listener.security.protocol.map.",
    ),
    "control plane without a listener": (
        {"control.plane.listener.name": "SSL"},
        (
            "control.plane.listener.name must be a listener name defined in advertised.listeners. The valid "
            "options based on currently configured listeners are PLAINTEXT"
        ),
    ),
    "control plane is empty": (
        {**_NAMED, "control.plane.listener.name": ""},
        "The provided listener name is null or empty string",
    ),
    "control plane not advertised": (
        {**_NAMED, "control.plane.listener.name": "OUT", "advertised.listeners": "IN://a:1"},
        (
            "control.plane.listener.name must be a listener name defined in advertised.listeners. The valid "
            "options based on currently configured listeners are IN"
        ),
    ),
    "control plane is the inter-broker listener": (
        {**_NAMED, "control.plane.listener.name": "in"},
        (
            "control.plane.listener.name, when defined, should have a different value from the inter broker "
            "listener name. Currently they both have the value ListenerName(IN)"
        ),
    ),
}
"""By what is wrong: the settings, and Kafka's line."""

TAKEN: dict[str, dict[str, str]] = {
    "map with two colons": {"listener.security.protocol.map": "A:B:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
    "advertised v6 any": {"advertised.listeners": "PLAINTEXT://[::]:9092"},
    "good": {**_NAMED, "control.plane.listener.name": "out"},
    "shared advertised": {**_NAMED, "advertised.listeners": "IN://a:1,OUT://a:1"},
    "spaces": {**_NAMES, "listeners": " IN://a:1 , OUT://a:2,"},
}
"""What Kafka takes, although it looks like one of those."""
