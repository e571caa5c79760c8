"""The Dockerfile, the compose file and the unit of systemd: each says what our command line takes."""

import asyncio
import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from barnabas.cli.main import cli
from barnabas.core.broker_config import broker_config
from barnabas.node import service_manager
from barnabas.node.service_manager import START_S, ServiceManager

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
BROKERS = {name: one for name, one in COMPOSE["services"].items() if name.startswith("broker")}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
MACHINE = yaml.safe_load((ROOT / "deploy" / "machine.yaml").read_text())["services"]["brokers"]
UNIT = configparser.ConfigParser(interpolation=None)
UNIT.optionxform = str
UNIT.read(ROOT / "deploy" / "barnabas.service")


def parsed(words):
    """The parameters of a command line of ours; click refuses what is none."""
    outer = click.Context(cli)
    command, rest = cli, words
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(outer, rest)
        outer = click.Context(command, outer, info_name=name)
    return command.make_context(command.name, rest, parent=outer.parent).params


def of_dockerfile(instruction):
    (found,) = re.findall(rf"^{instruction}.* (\[.*\])$", DOCKERFILE, re.MULTILINE) or re.findall(
        rf"^{instruction} (\[.*\])$", DOCKERFILE, re.MULTILINE
    )
    return json.loads(found)


def test_the_image_serves_on_its_volume_and_port():
    assert of_dockerfile("ENTRYPOINT") == ["barnabas"]
    given = parsed(of_dockerfile("CMD"))
    assert f"VOLUME {given['data']}\n" in DOCKERFILE
    assert "EXPOSE 9092\n" in DOCKERFILE
    assert given["advertise"] == "localhost:9092"


def test_the_image_looks_after_its_broker():
    word, *rest = of_dockerfile("HEALTHCHECK")
    assert (word, parsed(rest)["bootstrap_server"]) == ("barnabas", "localhost:9092")


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_of_the_compose_file(name):
    service = BROKERS[name]
    given = parsed(shlex.split(service["command"]))
    config = broker_config(dict(pair.split("=", 1) for pair in given["settings"]))
    assert list(config.unknown) == []
    inside, outside = config["advertised.listeners"].split(",")
    assert inside == f"INSIDE://{name}:9091"
    published = service["ports"][0].split(":")
    assert published[0] == published[1] == outside.rpartition(":")[2]
    assert config["listeners"].endswith(outside.rpartition(":")[2])
    word, ours, *rest = service["healthcheck"]["test"]
    assert (word, ours) == ("CMD", "barnabas")
    assert parsed(rest)["bootstrap_server"] == f"{name}:9091"
    volume, place = service["volumes"][0].split(":")
    assert volume in COMPOSE["volumes"]
    assert place == str(given["data"])


def test_the_brokers_of_the_compose_file_share_nothing_but_the_store():
    given = [parsed(shlex.split(one["command"])) for one in BROKERS.values()]
    assert len({one["broker_id"] for one in given}) == 3
    assert len({one["volumes"][0] for one in BROKERS.values()}) == 3
    assert {one["zookeeper"] for one in given} == {"zookeeper:2181"}


def test_the_machine_of_the_compose_file_has_one_address_beside_the_brokers_own():
    given = parsed(shlex.split(MACHINE["command"]))
    assert given["brokers"] == "auto"
    assert given["bootstrap"] not in range(given["port"], given["port"] + 256)
    _, _, *rest = MACHINE["healthcheck"]["test"]
    assert parsed(rest)["bootstrap_server"] == f"localhost:{given['bootstrap']}"
    assert MACHINE["volumes"] == [f"data:{given['data']}"]
    assert MACHINE["network_mode"] == "host", "each broker's own port is advertised"


@pytest.mark.skipif(shutil.which("docker") is None, reason="docker is not here")
def test_docker_takes_the_compose_file():
    known = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if known.returncode:
        pytest.skip("docker has no compose here")
    done = subprocess.run(
        ["docker", "compose", "config", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_runs_a_command_of_ours():
    word, *rest = shlex.split(UNIT["Service"]["ExecStart"])
    assert Path(word).name == "barnabas"
    given = parsed(rest)
    assert given["brokers"] == "auto"
    assert given["bootstrap"] < given["port"]
    assert str(given["data"]).startswith(f"/var/lib/{UNIT['Service']['StateDirectory']}/")
    assert UNIT["Service"]["Type"] == "notify"


def printed_unit(*options):
    command = [sys.executable, "-m", "barnabas", "serve", *options, "--systemd"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_unit_that_is_printed_runs_the_command_that_printed_it(tmp_path):
    options = ["--brokers", "2", "--data", f"{tmp_path}/with 100%", "--set", "num.partitions=3"]
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(printed_unit(*options).stdout)
    line = unit["Service"]["ExecStart"]
    assert "100%%" in line, "systemd takes a single one for a specifier"
    words = shlex.split(line.replace("%%", "%"))
    assert words[words.index("serve") + 1 :] == options
    assert Path(words[0]).is_absolute()
    assert {key: unit["Service"][key] for key in ("Type", "KillMode", "LimitNOFILE", "WatchdogSec")} == {
        key: UNIT["Service"][key] for key in ("Type", "KillMode", "LimitNOFILE", "WatchdogSec")
    }
    assert unit["Install"] == UNIT["Install"]
    assert [*tmp_path.iterdir()] == [], "it starts nothing"


def test_the_unit_of_one_broker_ends_a_start_that_hangs():
    """A machine's parent ends one itself; a broker alone waits for its controller without an end."""
    for options, limit in (((), START_S), (("--brokers", "2"), "infinity")):
        text = printed_unit("--data", "/d", *options).stdout
        assert re.findall("^TimeoutStartSec=(.*)$", text, re.MULTILINE) == [f"{limit}"]
        assert "{" not in text
    assert UNIT["Service"]["TimeoutStartSec"] == "infinity"


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--data", "here"),
        ("--data", "/d", "--store", "here"),
        ("--data", "/d", "--config", "pyproject.toml"),
    ],
)
def test_a_unit_needs_to_know_where_its_files_are(options):
    refused = printed_unit(*options)
    assert refused.returncode != 0
    assert f"--systemd needs {options[-2] if options else '--data'} with a whole path" in refused.stderr


@pytest.mark.parametrize(
    "key",
    [
        "metrics.password",
        "listener.name.client.scram-sha-256.sasl.jaas.config",
        "listener.name.client.ssl.keystore.password",
        "zookeeper.ssl.keystore.password",
    ],
)
def test_a_unit_that_everybody_may_read_has_no_secret(key):
    refused = printed_unit("--data", "/d", "--set", "num.partitions=3", "--set", f"{key}=s3cret")
    assert (refused.returncode != 0, refused.stdout, "s3cret" in refused.stderr) == (True, "", False)
    assert f"put the line {key}=... into a file" in refused.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_takes_the_unit(tmp_path):
    unit = tmp_path / "barnabas.service"
    text = (ROOT / "deploy" / "barnabas.service").read_text()
    # The command and the user are of the machine that it is made for.
    unit.write_text(text.replace("/usr/local/bin/barnabas", "/bin/sh").replace("User=barnabas", "User=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.splitlines() if "barnabas.service" in line] == []


class Manager:
    """What stands for systemd: a socket to be told at, and a process that it has started."""

    def __init__(self, folder, *options, usec=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "notify"))
        self.socket.settimeout(60)
        environment = {**os.environ, "NOTIFY_SOCKET": str(folder / "notify")}
        if usec:
            environment["WATCHDOG_USEC"] = str(usec)
        command = [sys.executable, "-m", "barnabas", "serve", "--port", "0", "--data", str(folder / "data")]
        self.process = subprocess.Popen(
            [*command, *options], env=environment, stdout=subprocess.PIPE, text=True
        )

    def told(self, beginning):
        """The next message that begins so; those before it are passed over."""
        while True:
            message = self.socket.recv(4096).decode()
            if message.startswith(beginning):
                return message

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.told("STOPPING=1")
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.socket.close()


def test_a_broker_tells_when_it_is_ready_and_when_it_ends(tmp_path):
    manager = Manager(tmp_path)
    ready = manager.told("READY=1")
    address = manager.process.stdout.readline().split()[1]
    assert ready == f"READY=1\nSTATUS=broker 0 at {address}"
    assert manager.end() == 0


def test_a_watchdog_is_answered_again_and_again(tmp_path):
    manager = Manager(tmp_path, usec=100_000)
    manager.told("READY=1")
    assert [manager.told("WATCHDOG") for _ in range(3)] == ["WATCHDOG=1"] * 3
    assert manager.end() == 0


def test_a_start_has_more_time_for_as_long_as_it_gets_on(tmp_path, monkeypatch):
    monkeypatch.setattr(service_manager, "START_S", 0.01)
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(tmp_path / "notify"))
    told.settimeout(60)
    looks = []

    async def start():
        enough = asyncio.Event()

        def got_on():
            looks.append(len(looks))
            if len(looks) == 6:
                enough.set()
            return looks[-1] in (2, 3)

        manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        manager.starting(got_on)
        await enough.wait()
        manager.ready("is there")
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "it looks no more"

    asyncio.run(start())
    said = [told.recv(100).decode() for _ in range(3)]
    told.close()
    extension = f"EXTEND_TIMEOUT_USEC={START_S * 1_000_000}"
    assert said == [extension, extension, "READY=1\nSTATUS=is there"]


def test_of_several_brokers_the_parent_alone_speaks(tmp_path):
    manager = Manager(tmp_path, "--brokers", "2")
    said = manager.socket.recv(4096).decode()
    assert said.startswith("READY=1\nSTATUS=2 brokers at ")
    assert manager.end() == 0


def test_a_manager_that_is_gone_stops_nothing(tmp_path):
    environment = {"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}
    manager = ServiceManager(environment)
    manager.stopping()
    assert environment == {}, "children do not speak for their parent"
    assert repr(manager) == "<ServiceManager is there watchdog=0s>"
    assert repr(ServiceManager({})) == "<ServiceManager none watchdog=0s>"
