import pytest

from barnabas.core.config import ConfigKey, ConfigTable, ConfigType
from barnabas.core.errors import ConfigError
from barnabas.network.quotas import ConnectionQuotas
from barnabas.network.settings import ListenerLimits, SocketSettings, parse_overrides

TABLE = ConfigTable(
    [
        ConfigKey("socket.request.max.bytes", ConfigType.INT, 104857600, ""),
        ConfigKey("socket.send.buffer.bytes", ConfigType.INT, 102400, ""),
        ConfigKey("connections.max.idle.ms", ConfigType.LONG, 600000, ""),
        ConfigKey("max.connections.per.ip.overrides", ConfigType.STRING, "", ""),
    ]
)


def test_settings_of_a_configuration():
    settings = SocketSettings.from_config(
        TABLE.parse(
            {
                "socket.request.max.bytes": "1000",
                "max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:6",
                "socket.send.buffer.bytes": "4096",
            }
        )
    )

    assert settings.request_bytes_max == 1000
    assert settings.idle_ms_max == 600_000
    assert settings.send_buffer_bytes == 4096
    assert settings.connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 6}


def test_buffer_sizes_are_the_systems_unless_somebody_set_them():
    assert SocketSettings.from_config(TABLE.parse({})).send_buffer_bytes == -1


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:x", ":5", "10.0.0.1:-1"])
def test_overrides_that_are_refused(text):
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        parse_overrides(text)


def test_quotas_count_by_address():
    quotas = ConnectionQuotas(
        SocketSettings(
            connections_max=4, connections_per_ip_max=2, connections_per_ip_overrides={"vip": 3, "no": 0}
        ),
        lambda: 0.0,
    )

    assert [quotas.admit("L", address) for address in ("a", "a", "a", "no", "vip")] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert not quotas.full
    assert quotas.admit("L", "vip")
    assert quotas.full
    quotas.release("L", "a")
    assert not quotas.full
    assert quotas.admit("L", "a")
    assert repr(quotas) == "<ConnectionQuotas total=4 addresses=2>"


def test_nobody_is_released_twice():
    quotas = ConnectionQuotas(SocketSettings(), lambda: 0.0)
    quotas.admit("L", "a")
    quotas.release("L", "a")

    with pytest.raises(AssertionError, match="released twice"):
        quotas.release("L", "a")


def test_quotas_of_listeners_and_of_the_broker_throttle_what_comes_too_fast():
    now = [0.0]
    limits = {"CLIENTS": ListenerLimits(creation_rate_max=4), "BROKERS": ListenerLimits(connections_max=1)}
    settings = SocketSettings(
        creation_rate_max=2, connections_max=2, listener_limits=limits, quota_samples=2, quota_window_ms=1000
    )
    quotas = ConnectionQuotas(settings, lambda: now[0], inter_broker_listener="BROKERS")
    for name in ("CLIENTS", "BROKERS"):
        quotas.add_listener(name)

    # Two a second for all; the listener for brokers has a rate of its own only.
    assert [quotas.throttle_ms("CLIENTS") for _ in range(3)] == [0, 0, 500]
    assert [quotas.throttle_ms("BROKERS") for _ in range(2)] == [0, 0]
    now[0] = 10_000.0
    assert quotas.throttle_ms("CLIENTS") == 0
    quotas.reconfigure(SocketSettings(creation_rate_max=0, quota_window_ms=1000))
    assert quotas.throttle_ms("CLIENTS") == 1000

    quotas.reconfigure(settings)
    assert quotas.admit("CLIENTS", "a")
    assert quotas.admit("CLIENTS", "b")
    assert [quotas.has_slot(name) for name in ("CLIENTS", "BROKERS")] == [False, True]
    assert quotas.admit("BROKERS", "c")
    assert quotas.excess == 1
    assert not quotas.has_slot("BROKERS")
