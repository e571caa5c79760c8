"""``barnabas kafka-scripts``: what calls Kafka's scripts gets ours."""

import subprocess

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.cli.kafka_scripts import TOOLS
from barnabas.cli.main import COMMANDS


def run(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def home(tmp_path, barnabas):
    folder = tmp_path / "kafka home"
    done = barnabas("kafka-scripts", str(folder))
    assert done.exit_code == 0, done.stderr
    return folder / "bin"


def test_each_script_calls_a_command_that_there_is(home):
    names = {file.name for file in home.iterdir()}

    assert names == {f"{tool.script}.sh" for tool in TOOLS if tool.script} | {
        "kafka-run-class.sh",
        "kafka-server-start.sh",
        "kafka-server-stop.sh",
        "zookeeper-security-migration.sh",
        "zookeeper-shell.sh",
    }
    assert {tool.command for tool in TOOLS} <= set(COMMANDS)


def test_scripts_and_classes_run_the_same_tool(home, broker, topic_name):
    name = topic_name("scripts")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=1))
    by_script = run(home / "kafka-get-offsets.sh", "--bootstrap-server", broker.bootstrap, "--topic", name)
    old = ("kafka.tools.GetOffsetShell", "--broker-list", broker.bootstrap, "--topic", name, "--time", "-1")
    by_class = run(home / "kafka-run-class.sh", "-name", "shell", "-loggc", *old)

    assert (by_script.returncode, by_script.stdout) == (0, f"{name}:0:0\n"), by_script.stderr
    assert (by_class.returncode, by_class.stdout) == (0, f"{name}:0:0\n"), by_class.stderr


def test_a_script_demands_brokers_as_kafkas_does(home):
    missing = "Error: Missing required option(s) [bootstrap-server] (see barnabas get-offsets --help)\n"
    by_script = run(home / "kafka-get-offsets.sh")
    by_class = run(home / "kafka-run-class.sh", "kafka.tools.GetOffsetShell")
    assert (by_script.returncode, by_script.stderr) == (1, missing)
    assert (by_class.returncode, by_class.stderr) == (1, missing)


def test_a_class_that_is_not_there(home):
    done = run(home / "kafka-run-class.sh", "kafka.tools.Nothing")

    assert (done.returncode, done.stderr) == (
        1,
        "Error: Could not find or load main class kafka.tools.Nothing\n",
    )


def test_the_server_takes_overrides(home, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\n")
    done = run(home / "kafka-server-start.sh", file, "--override", "num.partitions=none")

    assert done.returncode == 1
    assert "num.partitions" in done.stderr


@pytest.mark.parametrize("flags", [(), ("-daemon", "server.properties")])
def test_what_the_server_script_does_not_take(home, flags):
    done = run(home / "kafka-server-start.sh", *flags)

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


def test_it_writes_over_its_own_files_only(home, barnabas):
    again = barnabas("kafka-scripts", str(home.parent))
    assert again.exit_code == 0
    (home / "kafka-topics.sh").write_text("#!/bin/bash\nexec something else\n")
    (home / "kafka-configs.sh").unlink()
    refused = barnabas("kafka-scripts", str(home.parent))

    assert refused.exit_code == 1
    assert "kafka-topics.sh is not a file of this command" in refused.stderr
    assert "something else" in (home / "kafka-topics.sh").read_text()
    assert not (home / "kafka-configs.sh").exists(), "nothing is written then"


def test_the_stop_script_ends_brokers_only(home, serve, tmp_path):
    server = serve(tmp_path / "data")
    server.wait_until_ready()
    bystander = subprocess.Popen(["sleep", "60"])
    listing = tmp_path / "ps"
    python = "/usr/bin/python3.11"
    listing.write_text(
        f"""#!/bin/sh
echo "{server.process.pid} {python} /opt/venv/bin/barnabas serve --data here"
echo "{bystander.pid} {python} -m barnabas consume --topic serve"
echo "{bystander.pid} vi notes about barnabas serve"
"""
    )
    listing.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    stopped = subprocess.run([home / "kafka-server-stop.sh"], env=environment, timeout=60, check=False)

    assert stopped.returncode == 0
    assert server.process.wait(60) == 0
    assert server.stop() == 0
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_the_stop_script_without_a_broker(home, tmp_path):
    (tmp_path / "ps").write_text("#!/bin/sh\necho 1 /sbin/init\n")
    (tmp_path / "ps").chmod(0o755)
    done = subprocess.run(
        [home / "kafka-server-stop.sh"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "No kafka server to stop\n")
