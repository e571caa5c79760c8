"""``barnabas explain listener``:
the listener of each path, from a configuration and from a running broker.
"""

import pytest

THREE = (
    "listeners=IN://127.0.0.1:9091,OUT://h.example:9092,CTL://:9093",
    "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT,CTL:PLAINTEXT",
    "inter.broker.listener.name=IN",
)
CONTROL = "control.plane.listener.name=CTL"


@pytest.fixture
def explain(barnabas):
    return lambda *flags: barnabas("explain", "listener", *map(str, flags))


def paths(result):
    assert result.exit_code == 0, result.stderr
    return {line[:22].strip(): line[22:] for line in result.stdout.splitlines()}


def test_each_path_names_its_listener_and_the_key_that_chose_it(explain, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("\n".join(THREE))
    found = paths(explain("--config", file))
    assert list(found) == [
        "controller to broker",
        "broker to controller",
        "broker to broker",
        "client to broker",
    ]
    for path in ("controller to broker", "broker to controller"):
        assert found[path].startswith(
            "IN://127.0.0.1:9091: control.plane.listener.name is not set, so that of the brokers. "
        )
    assert found["broker to broker"].startswith("IN://127.0.0.1:9091: inter.broker.listener.name=IN. ")

    found = paths(explain("--config", file, "--set", CONTROL))
    for path in ("controller to broker", "broker to controller"):
        assert found[path].startswith("CTL://<name of this machine>:9093: control.plane.listener.name=CTL. ")
    assert found["broker to controller"].endswith("ControlledShutdown takes IN")
    assert found["broker to broker"].startswith("IN://127.0.0.1:9091: ")
    assert found["client to broker"].startswith(
        "IN://127.0.0.1:9091, OUT://h.example:9092, CTL://<name of this machine>:9093: a client stays"
    )


def test_a_running_broker_is_explained_by_what_it_obeys(explain, serve, tmp_path):
    server = serve(tmp_path / "data", listeners=("INTERNAL", "CLIENTS"))
    server.wait_until_ready()
    found = paths(explain("--bootstrap-server", server.bootstrap, "--broker", 0))
    assert found["broker to broker"].startswith(
        f"INTERNAL://127.0.0.1:{server.ports['INTERNAL']}: inter.broker.listener.name=INTERNAL. "
    )
    assert f"CLIENTS://127.0.0.1:{server.ports['CLIENTS']}" in found["client to broker"]
    none = explain("--bootstrap-server", server.bootstrap, "--broker", 9)
    assert (none.exit_code, none.stderr) == (1, "Error: There is no broker 9 in the cluster now\n")
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "Error: Give either --config or --set, or --bootstrap-server with --broker"),
        (
            ("--bootstrap-server", "h:1", "--set", "a=b"),
            "Error: A running broker is asked with both --bootstrap-server and --broker",
        ),
        (
            ("--set", "listeners=IN://:1"),
            "Error: Error creating broker listeners from 'IN://:1': No security prot",
        ),
        (
            [part for setting in (*THREE, "control.plane.listener.name=IN") for part in ("--set", setting)],
            (
                "Error: control.plane.listener.name, when defined, should have a different value from the "
                "inter broker"
            ),
        ),
    ],
)
def test_a_configuration_that_is_none_is_one_line(explain, flags, words):
    result = explain(*flags)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(words)
    assert len(result.stderr.splitlines()) == 1
