"""The resident Java process that serializes with Kafka's own code: `Oracle.java` and `Converter.java`."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import kafka_harness

import java_options

HERE: Final = Path(__file__).parent
ECJ: Final = "org.eclipse.jdt:ecj:3.33.0"
"""Compiles Java on a machine that has only a run-time environment."""
ANSWER_SECONDS: Final = 30


class KafkaJava:
    """One process for all releases; a question at a time, each with a time limit."""

    def __init__(self, folder: Path, jars: Mapping[str, Path]) -> None:
        compile_sources(folder, next(reversed(jars.values())))
        self.log = folder / "oracle.log"
        releases = [f"{release}={path}" for release, path in jars.items()]
        options = ["-Xmx256m", *java_options.SMALL.split()]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [kafka_harness.java(), *options, "-cp", str(folder), "Oracle", str(folder), *releases],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                preexec_fn=kafka_harness.die_with_parent,  # noqa: PLW1509 - no thread runs yet
            )
        self._unread = b""

    def write(self, release: str, java: str, version: int, value: object) -> bytes:
        """The bytes that Kafka writes of a value that is given as JSON."""
        (digits,) = self._ask(release, "write", java, version, json.dumps(value))
        return bytes.fromhex(digits)

    def read(self, release: str, java: str, version: int, data: bytes) -> tuple[object, bytes]:
        """What Kafka reads in these bytes, as JSON; and what it writes of that again."""
        text, digits = self._ask(release, "read", java, version, data.hex())
        return json.loads(text), bytes.fromhex(digits)

    def _ask(self, release: str, operation: str, java: str, version: int, payload: str) -> list[str]:
        self.process.stdin.write(f"{release}\t{operation}\t{java}\t{version}\t{payload}\n".encode("ascii"))
        self.process.stdin.flush()
        outcome, *result = self._line().split("\t")
        assert outcome == "ok", (
            f"Kafka {release} says to {operation} {java} v{version} {payload}: {result[0]}"
        )
        return result

    def _line(self) -> str:
        deadline = time.monotonic() + ANSWER_SECONDS
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError(f"no answer within {ANSWER_SECONDS} s; {self._tail()}")
            piece = os.read(self.process.stdout.fileno(), 1 << 20)
            if not piece:
                raise EOFError(f"the Java process has ended; {self._tail()}")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("ascii")

    def _tail(self) -> str:
        return f"its log ends:\n{self.log.read_text(errors='replace')[-2000:]}"

    def close(self) -> None:
        """Ends the process; it is gone on return."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def compile_sources(folder: Path, jars: Path) -> None:
    """Compiles the two sources into the folder, against the jars of one release. Raises UnavailableError."""
    path = os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))
    sources = [str(source) for source in sorted(HERE.glob("*.java"))]
    command = [*_compiler(), "-nowarn", "-classpath", path, "-d", str(folder), *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the Java sources do not compile:\n{done.stdout}{done.stderr}"


def _compiler() -> list[str]:
    """The command of `javac`, or of the compiler of Eclipse, which needs no development kit."""
    beside_java = Path(kafka_harness.java()).resolve().with_name("javac")
    found = str(beside_java) if beside_java.exists() else shutil.which("javac")
    return [found] if found else [kafka_harness.java(), "-jar", str(_ecj()), "-17"]


def _ecj() -> Path:
    """The compiler's jar, kept beside Kafka's; Maven fetches it the first time."""
    kept = kafka_harness.cache_folder() / "ecj" / f"ecj-{ECJ.rpartition(':')[2]}.jar"
    if not kept.exists():
        if not shutil.which("mvn"):
            raise kafka_harness.UnavailableError(
                "neither javac nor Maven found (Debian: default-jdk-headless)"
            )
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as work:
            command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ECJ}", f"-DoutputDirectory={work}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=work)
            if done.returncode != 0:
                raise kafka_harness.UnavailableError(f"Maven could not fetch {ECJ}")
            Path(work, kept.name).rename(kept)
    return kept
