"""The list of compiled modules, and what the compiler would only say when the code runs."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCES = ROOT / "src"
MODULES = {
    f"barnabas.{name}"
    for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["barnabas"]["compiled"][
        "modules"
    ]
}


def path_of(module):
    return SOURCES / Path(*module.split(".")).with_suffix(".py")


def classes(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


@cache
def open_to_all(module):
    """The classes of a compiled module that say that interpreted ones may inherit from them."""
    return {
        each.name
        for each in classes(ast.parse(path_of(module).read_text()))
        if any("allow_interpreted_subclasses" in ast.unparse(mark) for mark in each.decorator_list)
    }


def imported(tree):
    """What a module calls the things that it imports: name -> (module, name there)."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_without_a_compiler_one_line_says_so(tmp_path):
    environment = {**os.environ, "PATH": str(tmp_path), "CC": "cc"}
    command = [sys.executable, ROOT / "hatch_build.py", "--into", tmp_path / "compiled"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("there is no C compiler (cc)")
    assert done.stderr.count("\n") == 1


def test_every_module_of_the_list_is_there():
    assert [module for module in sorted(MODULES) if not path_of(module).exists()] == []


def test_no_interpreted_class_inherits_from_a_compiled_one():
    """The first import of such a module raises TypeError, in the compiled form only."""
    compiled = {path_of(module) for module in MODULES}
    found = []
    for path in (*SOURCES.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")):
        if path in compiled:
            continue
        text = path.read_text()
        # Most of 1,500 files need no parser: they have no class with a base, or import nothing compiled.
        sources = re.findall(r"from ([\w.]+) import", text)
        if MODULES.isdisjoint(sources) or not re.search(r"class \w+\(", text):
            continue
        tree = ast.parse(text)
        names = imported(tree)
        for each in classes(tree):
            for base in each.bases:
                module, name = names.get(ast.unparse(base).partition("[")[0], (None, ""))
                if module in MODULES and name not in open_to_all(module):
                    found.append(f"{path.relative_to(ROOT)}: {each.name}({name}) of {module}")

    assert found == [], "compile these modules too"
