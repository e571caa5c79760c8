"""A package of an extra that is not installed is named in one line, with the extra to install."""

import subprocess
import sys

import pytest

POLL = """
from barnabas.client import Consumer
consumer = Consumer('127.0.0.1:1')
try:
    consumer.poll_arrow()
finally:
    consumer.close()
"""
SESSION = "import barnabas.spark\nbarnabas.spark.session('x')"
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
    ],
)
def test_on_the_command_line(command, missing, words):
    (line,) = last_line(COMMAND.format(command), missing)
    assert line.startswith(f"Error: {words}")
