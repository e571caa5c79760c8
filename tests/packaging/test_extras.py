"""A package of an extra that is not installed is named in one line, with the extra to install."""

import subprocess
import sys

import pytest

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.join_settings import Join
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.joined.joined_tables import settled
from barnabas.spark.pipeline.sinks.sink import open_table

POLL = """
from barnabas.client import Consumer
consumer = Consumer('127.0.0.1:1')
try:
    consumer.poll_arrow()
finally:
    consumer.close()
"""
TO_ALL = """
from barnabas.client import Consumer
consumer = Consumer('127.0.0.1:1')
consumer.assign([('t', 0)])
try:
    consumer.{}()
finally:
    consumer.close()
"""
SESSION = "import barnabas.spark\nbarnabas.spark.session('x')"
REGISTER = "import barnabas.spark\nbarnabas.spark.register(None)"
FOLLOW = "import barnabas.spark\nbarnabas.spark.follow(None, '127.0.0.1:1')"
COMMAND = "from barnabas.cli.main import main\nsys.argv = ['barnabas', *{!r}.split()]\nmain()"


def last_line(script, missing):
    hidden = f"import sys\nsys.modules[{missing!r}] = None\n{script}"
    done = subprocess.run([sys.executable, "-c", hidden], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("script", "missing", "words"),
    [
        (
            POLL,
            "pyarrow",
            "poll_arrow needs packages that are not here (pyarrow): pip install 'barnabas[a",
        ),
        (POLL, "numba", "poll_arrow needs packages that are not here (numba): pip install 'barnabas[arrow]'"),
        (SESSION, "pyspark", "a Spark session needs packages that are not here (pyspark): pip"),
        (SESSION, "pyarrow", "a Spark session needs packages that are not here (pyarrow): pip"),
        (REGISTER, "pyspark", "the data source needs packages that are not here (pyspark): pip install 'b"),
        (REGISTER, "pyarrow", "the data source needs packages that are not here (pyarrow): pip install 'b"),
        (FOLLOW, "pyspark", "a follower of queries needs packages that are not here (pyspark): pip instal"),
        (TO_ALL.format("to_arrow"), "pyarrow", "to_arrow needs packages that are not here (pyarrow): pip"),
        (
            TO_ALL.format("to_pandas"),
            "pandas",
            "to_pandas needs pandas, which is not here: pip install pandas",
        ),
        (
            TO_ALL.format("to_polars"),
            "polars",
            "to_polars needs polars, which is not here: pip install polars",
        ),
    ],
)
def test_in_python(script, missing, words):
    assert last_line(script, missing)[-1].startswith(f"barnabas.core.extras.MissingExtraError: {words}")


@pytest.mark.parametrize(
    ("command", "missing", "words"),
    [
        ("demo", "pyspark", "the demo needs packages that are not here (pyspark"),
        (
            "demo",
            "pyarrow",
            "the demo needs packages that are not here (pyarrow): pip install 'barnabas[de",
        ),
        ("pipeline run no.toml", "pyspark", "a pipeline needs packages that are not here (pyspark"),
        ("analyze skew no-folder", "pyspark", "an analysis needs packages that are not here (p"),
        ("analyze skew no-folder", "pyarrow", "an analysis needs packages that are not here (pyarrow): pip"),
        ("console -b 127.0.0.1:1", "fastapi", "the console needs packages that are not here (fastapi): pip"),
        ("console -b 127.0.0.1:1", "uvicorn", "the console needs packages that are not here (uvicorn): pip"),
        ("console -b 127.0.0.1:1", "jinja2", "the console needs packages that are not here (jinja2): pip"),
        (
            "serve --event-loop uvloop",
            "uvloop",
            "--event-loop uvloop needs packages that are not here (uvloo",
        ),
    ],
)
def test_on_the_command_line(command, missing, words):
    (line,) = last_line(COMMAND.format(command), missing)
    assert line.startswith(f"Error: {words}")


@pytest.fixture
def without(monkeypatch):
    """Takes a package away, and a module of ours that has imported it."""

    def hide(package, user):
        for name in [*sys.modules]:
            if name == user or name.startswith(f"{package}."):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)

    return hide


@pytest.mark.parametrize(("kind", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_table_of_a_pipeline(tmp_path, without, kind, package):
    without(package, f"barnabas.spark.pipeline.tables.{kind}")
    words = rf"^sink.kind: {kind} needs packages .*\({package}.*\): pip install 'barnabas\[lake\]'$"
    with pytest.raises(PipelineError, match=words):
        open_table(Sink(kind, tmp_path))


def test_a_table_that_a_pipeline_joins(without):
    without("deltalake", "")
    words = (
        r"^join.*kind: delta needs packages that are not here \(deltalake\): pip install 'barnabas\[lake\]'$"
    )
    with pytest.raises(PipelineError, match=words):
        settled([Join(0, "folder", "delta", {}, (), "joined")])
