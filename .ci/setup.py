"""Makes a virtual environment with this checkout in it, and says each step with the seconds.

    python .ci/setup.py FOLDER EXTRA

`make setup` calls it with the extra ``dev``, `make test-core` with ``core``, which is a third of it: no
Spark, no console, no tables. Of what pip says, that is shown which takes long; when it fails, its last lines.
"""

import re
import subprocess
import sys
import time
import venv
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

LARGE_MB: Final = 10
"""A package of more is named while it is downloaded."""
EVERY: Final = 25
"""After so many packages there is a line, whatever their size."""
LAST_LINES: Final = 20

_DOWNLOAD: Final = re.compile(r"\s*Downloading (\S+) \(([\d.]+) MB\)")
_BUILD: Final = re.compile(r"\s*Building wheel for (\S+)")


def steps(lines: Iterable[str]) -> Iterator[str]:
    """What is worth a line of what pip says."""
    found = 0
    for line in lines:
        if line.lstrip().startswith("Collecting "):
            found += 1
            if found % EVERY == 0:
                yield f"{found} packages found"
        elif (large := _DOWNLOAD.match(line)) and float(large[2]) >= LARGE_MB:
            yield f"downloading {large[1].rpartition('/')[2]}, {large[2]} MB"
        elif (built := _BUILD.match(line)) and "finished" not in line:
            yield f"building {built[1]}"
        elif line.startswith("Installing collected packages:"):
            yield f"installing {line.count(',') + 1} packages"


def install(python: Path, *arguments: str) -> Iterator[str]:
    """Runs pip; its steps. Raises SystemExit with its last lines where it fails."""
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    last: deque[str] = deque(maxlen=LAST_LINES)

    def heard(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            last.append(line)
            yield line

    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        yield from steps(heard(pip.stdout))
    if pip.returncode:
        raise SystemExit(f"{''.join(last)}pip install {' '.join(arguments)} failed: exit {pip.returncode}")


def main() -> None:
    """Makes the environment, or brings it up to date."""
    folder, extra = Path(sys.argv[1]), sys.argv[2]
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {what}", flush=True)

    say(f"virtual environment {folder}, Python {sys.version.split()[0]}")
    # As `python -m venv` does: a copy cannot take the place of a link, and may not find its libraries.
    try:
        venv.create(folder, with_pip=True, symlinks=True)
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"{folder} was made without pip: {error}; on Debian and Ubuntu that is the package python3-venv"
        ) from None
    python = folder / "bin" / "python"
    for _ in install(python, "--upgrade", "pip"):
        pass
    say(f"what the extra '{extra}' of pyproject.toml names, and what that needs")
    for step in install(python, "--editable", f".[{extra}]"):
        say(step)
    say("done")


if __name__ == "__main__":
    main()
