"""Compiles the hot modules with mypyc: into a wheel, or beside the sources of a checkout.

    python hatch_build.py                      compile the checkout in place (`make compile`)
    python hatch_build.py --remove             make it pure Python again (`make pure`)
    python hatch_build.py --into DIR --checked a compiled copy of the sources that stops at the first wrong
    step

The same sources run in both forms. Which modules are compiled is said in one place,
`[tool.barnabas.compiled]` of pyproject.toml. The backend compiles into a wheel when BARNABAS_COMPILE is 1
(`make wheel`); any other wheel is pure Python and works everywhere.

Theory of operation
-------------------
The sources are copied into a folder of their own and compiled there as one group, so that calls between
compiled modules are calls of C functions. The results (one library with the code and a stub for each module)
are put beside the sources; Python prefers them. A compiled module hides later edits of its source, so
`barnabas/compiled.json` has the digest of each source that was compiled: `barnabas --version` and the tests
compare it (`barnabas.core.form`).
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT: Final = Path(__file__).resolve().parent
SOURCES: Final = ROOT / "src"
PACKAGE: Final = "barnabas"
RECORD: Final = f"{PACKAGE}/compiled.json"
"""What `barnabas.core.form` reads."""
LEFT_OUT: Final = shutil.ignore_patterns("*.so", "compiled.json", "__pycache__")
SWITCH: Final = "BARNABAS_COMPILE"
REQUIREMENTS: Final = ("mypy[mypyc]>=1.20", "setuptools>=77")
CHECKS: Final = (
    "-UNDEBUG",
    "-O1",
    "-g1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)
"""C's assertions (mypyc's too), and an end of the process at memory misused or an operation that C leaves
undefined.

Who runs it needs the compiler's libasan in LD_PRELOAD, and PYTHONMALLOC=malloc to see the objects' own
memory.
"""


class CompileHook(BuildHookInterface[Any]):
    """Puts the compiled modules into a wheel, where BARNABAS_COMPILE asks for it."""

    def dependencies(self) -> list[str]:
        """What the backend installs for the build, beyond `build-system.requires`."""
        return list(REQUIREMENTS) if self._wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is made; an editable install stays pure."""
        if version == "editable" or not self._wanted():
            return
        self._folder = tempfile.TemporaryDirectory(prefix="barnabas-compiled-")
        built = compile_into(Path(self._folder.name))
        for path in files_of(built):
            build_data["force_include"][str(path)] = str(path.relative_to(built))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Called after the wheel is made."""
        if folder := getattr(self, "_folder", None):
            folder.cleanup()

    def _wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get(SWITCH) == "1"


def modules() -> list[Path]:
    """The sources that are compiled, relative to the folder of sources."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        named = tomllib.load(file)["tool"]["barnabas"]["compiled"]["modules"]
    return [Path(PACKAGE, *name.split(".")).with_suffix(".py") for name in named]


def files_of(folder: Path) -> list[Path]:
    """The results of a compilation."""
    return [path for path in sorted(folder.rglob("*")) if path.suffix in {".so", ".json"}]


def compile_into(folder: Path, *, checked: bool = False) -> Path:
    """Compiles everything; the folder that the results are in, laid out as the sources are."""
    _require_compiler()
    from mypyc.build import mypycify  # noqa: PLC0415 - only those who compile have it
    from setuptools import Distribution  # noqa: PLC0415

    copy, built = folder / "src", folder / "built"
    shutil.copytree(SOURCES, copy, ignore=LEFT_OUT)
    names = [str(path) for path in modules()] + _write_hot_messages(copy)
    here = Path.cwd()
    os.chdir(copy)  # mypy names modules by their paths from here
    try:
        options = ["--config-file", str(ROOT / "pyproject.toml"), "--python-version", _this_python(), *names]
        extensions = mypycify(options, debug_level="0", group_name=PACKAGE, target_dir=str(folder / "c"))
        for extension in extensions:
            # Who builds has the last word: mypyc's -O3 would stand behind the compiler's own CFLAGS.
            extension.extra_compile_args += shlex.split(os.environ.get("CFLAGS", ""))
            if checked:
                extension.extra_compile_args += CHECKS
                extension.extra_link_args += CHECKS
        distribution = Distribution({"name": PACKAGE, "ext_modules": extensions})
        build = distribution.get_command_obj("build_ext")
        build.build_lib, build.build_temp = str(built), str(folder / "temp")
        build.ensure_finalized()
        build.run()
    finally:
        os.chdir(here)
    # The generator is no compiled module itself, but what it writes is.
    compiled_from = [*names, f"{PACKAGE}/protocol/ahead.py"]
    digests = {name: digest(SOURCES / name) for name in compiled_from}
    (built / RECORD).write_text(json.dumps(digests, indent=1) + "\n")
    return built


def _require_compiler() -> None:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise SystemExit(
            f"there is no C compiler ({compiler}), which the compiled form needs; the pure form needs none"
        )


def _write_hot_messages(copy: Path) -> list[str]:
    """Replaces the modules of hot messages in the copy by ones for the compiler; gives their names."""
    command = [sys.executable, "-m", f"{PACKAGE}.protocol.ahead", str(copy)]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()


def digest(source: Path) -> str:
    """What tells one state of a source from another."""
    return sha256(source.read_bytes()).hexdigest()


def _this_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def remove() -> None:
    """Makes the checkout pure Python again."""
    for path in (*SOURCES.rglob("*.so"), SOURCES / RECORD):
        path.unlink(missing_ok=True)


def main() -> None:
    """Compiles the checkout in place or a copy of its sources, or removes what compiling has made."""
    parser = argparse.ArgumentParser(description="Compile the hot modules of this checkout.")
    parser.add_argument("--remove", action="store_true", help="make it pure Python again")
    parser.add_argument(
        "--into", type=Path, metavar="DIR", help="leave it, and make a compiled copy of its sources"
    )
    parser.add_argument(
        "--checked", action="store_true", help="with assertions and the sanitizers of the compiler"
    )
    arguments = parser.parse_args()
    if arguments.remove:
        remove()
        return
    with tempfile.TemporaryDirectory(prefix="barnabas-compiled-") as folder:
        built = compile_into(Path(folder), checked=arguments.checked)
        target: Path = arguments.into or SOURCES
        if target == SOURCES:
            remove()
        else:
            shutil.copytree(SOURCES, target, ignore=LEFT_OUT, dirs_exist_ok=True)
        for path in files_of(built):
            shutil.copy2(path, target / path.relative_to(built))


if __name__ == "__main__":
    main()
