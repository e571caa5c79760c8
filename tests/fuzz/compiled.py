"""The fuzzers of the wire against a compiled broker that stops at the first wrong step in C.

    python tests/fuzz/compiled.py [--minutes 10] [--plain]

Compiles a copy of the sources with C's assertions and the sanitizers for memory and undefined behaviour, and
runs `tests/fuzz` on it, round after round, each with a seed of its own; the first also the broken messages of
`tests/protocol`. A process that dies, a traceback in a broker's log and UNKNOWN_SERVER_ERROR end it with the
seed that replays the round. `--plain` compiles as for a wheel, without the checks. Needs a C compiler; the
sanitizers come with gcc.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FUZZERS = "tests/fuzz"
BROKEN_MESSAGES = "tests/protocol/test_message_malformed.py"
QUARANTINE_MB = 8
"""Freed memory that the sanitizer keeps back: with its own 256 a broker would seem to leak."""


def build(folder: Path, *, checked: bool) -> None:
    command = [sys.executable, str(ROOT / "hatch_build.py"), "--into", str(folder)]
    subprocess.run([*command, "--checked"] if checked else command, check=True)


def environment(folder: Path, *, checked: bool) -> dict[str, str]:
    """What a round runs in: the compiled copy before the checkout, and the sanitizers in every process."""
    found = {**os.environ, "PYTHONPATH": str(folder), "PYTHONFAULTHANDLER": "1"}
    if checked:
        library = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
        found |= {
            "BARNABAS_TEST_PATIENCE": "6",
            "LD_PRELOAD": library,
            "PYTHONMALLOC": "malloc",  # else the sanitizer sees pools, and no objects
            # Python does not free everything at its end.
            "ASAN_OPTIONS": f"detect_leaks=0:quarantine_size_mb={QUARANTINE_MB}:malloc_context_size=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
    return found


def play(folder: Path, minutes: float, *, checked: bool) -> int:
    """Rounds until the time is over; the exit code of the first that fails, or 0."""
    surroundings = environment(folder, checked=checked)
    form = [sys.executable, "-c", "from barnabas.core import form; print(form.describe())"]
    assert subprocess.check_output(form, env=surroundings, text=True).strip() == "compiled"
    until = time.monotonic() + 60 * minutes
    rounds = 0
    while rounds == 0 or time.monotonic() < until:
        seed = random.SystemRandom().getrandbits(31)
        options = ["-q", "-x", "-p", "no:cacheprovider", f"--randomly-seed={seed}", "--timeout=300"]
        command = [sys.executable, "-m", "pytest", *options, FUZZERS, *([] if rounds else [BROKEN_MESSAGES])]
        code = subprocess.run(command, cwd=ROOT, env=surroundings, check=False).returncode
        rounds += 1
        if code:
            print(f"round {rounds} failed; --randomly-seed={seed} replays it")
            return code
    print(f"{rounds} rounds, no failure")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz a compiled broker.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--plain", action="store_true", help="compiled as for a wheel, without the checks")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as name:
        folder = Path(name)
        build(folder, checked=not arguments.plain)
        return play(folder, arguments.minutes, checked=not arguments.plain)


if __name__ == "__main__":
    sys.exit(main())
