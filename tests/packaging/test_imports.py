"""What an import costs: guarded by the modules it loads, because milliseconds differ from machine
to machine.
"""

import subprocess
import sys
from graphlib import TopologicalSorter

import grimp
import pytest

HEAVY = {"numba", "numpy", "pandas", "pyarrow", "pyspark", "kazoo", "rich", "kafka"}


def modules_after(statement):
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_but_itself():
    loaded = modules_after("import barnabas") - modules_after("")

    assert {name for name in loaded if not name.startswith("barnabas")} == set()


@pytest.mark.parametrize(
    "statement",
    [
        "import barnabas.cli.main",
        "import barnabas.node",
        "import barnabas.cli.commands.serve",
        "import barnabas.client",
    ],
)
def test_a_broker_and_a_plain_client_do_without_the_heavy_libraries(statement):
    top_level = {name.partition(".")[0] for name in modules_after(statement)}

    assert top_level & HEAVY == set()


def test_help_loads_no_broker():
    loaded = modules_after(
        "import sys\nfrom barnabas.cli.main import main\nsys.argv = ['barnabas', '--help']\n"
        "sys.stdout = sys.stderr\ntry:\n    main()\nexcept SystemExit:\n    sys.stdout = sys.__stdout__"
    )

    assert not {name for name in loaded if name.startswith(("barnabas.broker", "barnabas.node", "asyncio"))}


def test_no_module_imports_one_that_imports_it():
    """Also where an import is for types only: who reads one of the two must read the other."""
    graph = grimp.build_graph("barnabas", cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}

    TopologicalSorter(imported).prepare()  # a CycleError names the modules of the circle
