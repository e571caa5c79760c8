"""Pipelines where Spark is: each command, manifest and program of the page, run where that can be done."""

import ast
import importlib.util
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import ClassVar

import click
import pyarrow.dataset as ds
import pytest
import yaml

from barnabas.admin import Admin, NewTopic
from barnabas.cli.main import cli
from barnabas.client import Consumer, Producer
from barnabas.core.ids import TopicPartition
from barnabas.spark import discovered
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from spark_processes import HOME, environment, standalone_cluster

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pipelines-where-spark-is.md"
MANIFESTS = ROOT / "deploy" / "kubernetes"
PROGRAMS = ROOT / "examples" / "pipelines"
FILE = """
checkpoint = "checkpoint"
trigger = "1s"
events = "flights.events"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
[format]
kind = "json"
schema = "id INT"
[transform]
sql = "SELECT value.id FROM source"
[sink]
kind = "parquet"
path = "table"
[restart]
attempts = 0
[spark]
"""
SMALL = {"executor.memory": "512m", "cores.max": "2", "sql.shuffle.partitions": "2", "driver.memory": "512m"}


def require_command(words):
    """Fails unless there is such a command of `barnabas`, and each option that it is given."""
    command, words = cli, list(words)
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"{words[0]} is no command"
        command, words = found, words[1:]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known
    command.make_context("barnabas", words)  # which looks at what the options are given


def commands_of(text):
    """The command lines of a page, whole: those that go on behind a backslash too."""
    lines = re.findall(r"^\$ ((?:\\\n|.)*)", text, re.MULTILINE)
    return [shlex.split(line.replace("\\\n", " ")) for line in lines]


def test_each_command_of_the_page_is_there():
    told = [words for words in commands_of(PAGE.read_text()) if words[0] in {"barnabas", "spark-submit"}]
    ours = [words[words.index("pipeline") :] for words in told]

    assert len(ours) == 3
    for words in ours:
        require_command(words)


def test_each_setting_of_the_page_is_one_of_sparks():
    """In the constants of Spark's own classes; those of volumes are made of a beginning that is."""
    (words,) = [words for words in commands_of(PAGE.read_text()) if any("k8s://" in word for word in words)]
    settings = [word.partition("=")[0] for word in words if word.startswith("spark.")]
    classes = b""
    for name in ("spark-kubernetes_*.jar", "spark-core_*.jar"):
        (path,) = (HOME / "jars").glob(name)
        with zipfile.ZipFile(path) as jar:
            wanted = [
                one
                for one in jar.namelist()
                if re.search(r"/(Config|Constants|internal/config/).*class$", one)
            ]
            classes += b"".join(jar.read(one) for one in wanted)

    assert len(settings) == 8
    for setting in settings:
        begins, volume, _ = setting.partition("persistentVolumeClaim")
        if not volume:
            begins = setting.removesuffix(".serviceAccountName")
        assert begins.encode() in classes, setting


@pytest.mark.parametrize("path", sorted(MANIFESTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_manifest_is_whole_and_its_commands_are_there(path, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    objects = list(yaml.safe_load_all(path.read_text()))
    (job,) = [one for one in objects if one["kind"] in {"CronJob", "Deployment"}]
    pod = (
        job["spec"]["jobTemplate"]["spec"]["template"]
        if job["kind"] == "CronJob"
        else job["spec"]["template"]
    )
    (container,) = pod["spec"]["containers"]
    mounted = {one["name"] for one in container["volumeMounts"]}

    assert all({"apiVersion", "kind", "metadata", "spec"} <= set(one) | {"spec"} for one in objects)
    require_command(container["args"])
    assert mounted == {one["name"] for one in pod["spec"]["volumes"]}
    if job["kind"] == "Deployment":
        assert job["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert (job["spec"]["replicas"], job["spec"]["strategy"]["type"]) == (1, "Recreate")
    for one in objects:
        for name, text in one.get("data", {}).items():
            (tmp_path / name).write_text(text)
            folders = [load(tmp_path / name).checkpoint, load(tmp_path / name).sink.path]
            assert all(str(folder).startswith("/lake/") for folder in folders)


def test_the_deployment_runs_the_file_of_the_cronjob():
    names = [
        one["metadata"]["name"]
        for one in yaml.safe_load_all((MANIFESTS / "pipeline-cronjob.yaml").read_text())
    ]

    assert {"flights-pipeline", "lake", "flights"} == set(names)
    text = (MANIFESTS / "pipeline-deployment.yaml").read_text()
    assert {"name: flights-pipeline", "claimName: lake"} <= set(
        re.findall(r"(?:name|claimName): [\w-]+", text)
    )


def program(name):
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Task:
    """What an operator of Airflow was made with."""

    made: ClassVar[list["Task"]] = []

    def __init__(self, **given):
        self.given, self.behind = given, []
        self.made.append(self)

    def __rshift__(self, other):
        other.behind.append(self)


class Dag:
    """A DAG that only keeps its tasks' order."""

    def __init__(self, name, **given):
        self.name, self.given = name, given

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_the_tasks_for_airflow_run_commands_that_are_there(monkeypatch):
    modules = {
        "airflow": types.ModuleType("airflow"),
        "airflow.sdk": types.SimpleNamespace(DAG=Dag),
        "airflow.providers.standard.operators.bash": types.SimpleNamespace(BashOperator=Task),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Task, "made", [])
    dag = program("airflow_flights").dag

    assert (dag.given["catchup"], dag.given["max_active_runs"]) == (False, 1)
    load_task, near = Task.made
    assert near.behind == [load_task]
    for task in Task.made:
        require_command(shlex.split(task.given["bash_command"])[1:])
    shown = re.search(r"```python\n(load = .*?)```", PAGE.read_text(), re.DOTALL)[1]
    body = next(
        one
        for one in ast.parse((PROGRAMS / "airflow_flights.py").read_text()).body
        if isinstance(one, ast.With)
    )
    assert ast.unparse(ast.parse(shown)) == "\n".join(ast.unparse(one) for one in body.body)


def test_the_asset_for_dagster_runs_the_pipeline_and_tells_its_figures(monkeypatch, tmp_path):
    made = types.SimpleNamespace(
        asset=lambda function: function,
        MaterializeResult=lambda metadata: metadata,
        Definitions=dict,
        ScheduleDefinition=lambda **given: given,
        define_asset_job=lambda *given: given,
    )
    monkeypatch.setitem(sys.modules, "dagster", made)
    heard = tmp_path / "heard"
    command = tmp_path / "barnabas"
    figures = {
        "rows_written": 3,
        "letters": 0,
        "rows_dropped": 0,
        "restarts": 0,
        "files": 2,
        "small_files": 2,
    }
    found = {"pipelines": [{**figures, "lag_records": None}]}
    command.write_text(f"#!/bin/sh\necho \"$@\" >> {heard}\necho '{json.dumps(found)}'\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    told = program("dagster_flights").flights()

    assert told == {
        "rows_written": 3,
        "letters": 0,
        "rows_dropped": 0,
        "restarts": 0,
        "files": 2,
        "small_files": 2,
    }
    for line in heard.read_text().splitlines():
        require_command(shlex.split(line))


@pytest.mark.parametrize("setting", ['remote = "sc://server"', 'master = "sc://server"'])
def test_spark_connect_is_refused_in_one_line(tmp_path, setting):
    path = tmp_path / "flights.toml"
    path.write_text(FILE.format(broker="127.0.0.1:9092", topic="t") + setting)

    with pytest.raises(PipelineError, match=r"spark\.remote: a pipeline's process is Spark's driver"):
        load(path)


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def run(command, folder):
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, cwd=folder,
        env=environment(), timeout=800,
    )  # fmt: skip


@pytest.mark.jvm
@pytest.mark.spark
@pytest.mark.timeout(2000)
def test_one_file_on_a_cluster_and_by_spark_submit(master, broker, topic_name, tmp_path):
    """Both end with what the topic has although the trigger is a time, each goes on where the other was, and
    one that fails has its exit code and its page.
    """
    topic = topic_name("places")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=4)])
    text = FILE.format(broker=broker, topic=topic)
    lines = "".join(f'{name} = "{value}"\n' for name, value in SMALL.items())
    (tmp_path / "flights.toml").write_text(text + lines + f'master = "{master}"\n')
    (tmp_path / "submitted.toml").write_text('name = "flights"\n' + text)

    def send(*values):
        with Producer(broker) as producer:
            for number, value in enumerate(values):
                producer.send_and_wait(topic, value, partition=number % 4)

    send(*(b'{"id": %d}' % number for number in range(100)))
    once = ["--once", "--report", "page.html"]
    here = run([sys.executable, "-m", "barnabas", "pipeline", "run", "flights.toml", *once], tmp_path)
    assert (here.returncode, here.stdout) == (
        0, "flights: 100 records read, 100 rows written in 1 batches, 0 restarts\n",
    ), here.stderr[-3000:]  # fmt: skip
    assert "State: <b>ended</b>" in (tmp_path / "page.html").read_text()

    send(*(b'{"id": %d}' % number for number in range(100, 140)))
    settings = [word for name, value in SMALL.items() for word in ("--conf", f"spark.{name}={value}")]
    submit = [HOME / "bin" / "spark-submit", "--master", master, *settings, PROGRAMS / "submitted.py"]
    submitted = run([*submit, "pipeline", "run", "submitted.toml", *once], tmp_path)
    assert submitted.returncode == 0, submitted.stderr[-3000:]
    assert "flights: 40 records read, 40 rows written in 1 batches, 0 restarts" in submitted.stdout
    assert sorted(ds.dataset(tmp_path / "table").to_table()["id"].to_pylist()) == list(range(140))

    send(b"no json")
    failed = run([*submit, "pipeline", "run", "submitted.toml", *once], tmp_path)
    assert failed.returncode == 1, failed.stderr[-3000:]
    page = (tmp_path / "page.html").read_text()
    assert "State: <b>failed</b>" in page
    assert "MALFORMED" in page


@pytest.mark.jvm
@pytest.mark.spark
@pytest.mark.timeout(2000)
def test_a_declarative_pipeline_reads_and_writes_topics_without_a_call(broker, topic_name, tmp_path):
    """The example as it is, but for its place and its topics; the second run takes what is new."""
    source, sink = topic_name("declared"), topic_name("declared-late")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(source, partitions=2), NewTopic(sink, partitions=1)])
    shutil.copytree(PROGRAMS / "declarative", tmp_path, dirs_exist_ok=True)
    for name, changes in {
        "spark-pipeline.yml": {"file:///lake/flights-storage": f"file://{tmp_path}/storage"},
        "transformations/flights.py": {
            '"subscribe", "flights"': f'"subscribe", "{source}"',
            '"topic": "delays"': f'"topic": "{sink}"',
        },
    }.items():
        text = (tmp_path / name).read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
    bin_folder, found = str(Path(sys.executable).parent), str(Path(discovered.__file__).parent)
    given = environment(KAFKA=broker)
    given |= {
        "PYTHONPATH": f"{found}{os.pathsep}{given['PYTHONPATH']}",
        "PATH": f"{bin_folder}{os.pathsep}{given['PATH']}",
    }

    def run_with(*delays):
        with Producer(broker) as producer:
            for delay in delays:
                producer.send_and_wait(source, json.dumps({"carrier": "UA", "delay": delay}).encode())
        # Spark's own catalog forgets its tables with the process.
        settings = ["spark.driver.memory=700m", "spark.sql.catalogImplementation=hive"]
        command = [
            HOME / "bin" / "spark-pipelines",
            "run",
            *(word for one in settings for word in ("--conf", one)),
        ]
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, check=False, cwd=tmp_path,
            env=given, timeout=800,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        with Consumer(broker, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(sink, 0)])
            end = consumer.end_offsets([TopicPartition(sink, 0)])[TopicPartition(sink, 0)]
            records = []
            while len(records) < end:
                records += consumer.poll(500)
        return [(record.key, json.loads(record.value)["delay"]) for record in records]

    assert run_with(10, 40) == [(b"UA", 40)]
    assert run_with(20, 50) == [(b"UA", 40), (b"UA", 50)]
