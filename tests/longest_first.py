"""The files that take longest begin first: for one that begins last, the other workers would wait.

`conftest` registers this module as a plugin. The order of the others is that of pytest-randomly.
The tests of `spark` that ask for its session go to one worker, one after the other: a second session would
take half a minute of both cores. Those of the same files that do not ask for it go where all others go.
"""

import ast
import functools
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parent
SECONDS = {
    "parity/test_parity.py": 300,
    "packaging/test_compiled_wheel.py": 240,
    "spark/test_pipeline_killed.py": 240,
    "jvm/test_cluster_story.py": 180,
    "chaos/test_kills.py": 100,
    "chaos/test_refusals.py": 100,
    "jvm/test_secure_cluster.py": 100,
    "parity/test_connectors.py": 90,
    "spark/test_spark_cluster.py": 90,
    "spark/test_spark_faults.py": 90,
    "jvm/test_members_of_today.py": 80,
    "node/test_transactions_live.py": 80,
    "simulation/test_replication.py": 80,
    "simulation/test_simulated_transactions.py": 80,
    "chaos/test_damage.py": 60,
    "jvm/test_console_walk.py": 90,
    "jvm/test_credentials_beside_kafka.py": 60,
    "jvm/test_java_of_today.py": 60,
    "jvm/test_group_storm.py": 60,
    "jvm/test_mixed_cluster.py": 60,
    "log/test_log_configurations.py": 60,
    "simulation/test_simulation.py": 60,
    "packaging/test_distribution.py": 45,
    "clients/test_secure_clients.py": 40,
    "model/test_groups.py": 40,
    "broker/test_longest_hold.py": 30,
    "chaos/test_all_killed.py": 30,
    "chaos/test_group_chaos.py": 30,
    "chaos/test_hostile.py": 30,
    "clients/test_consumer_protocol.py": 30,
    "jvm/test_compacted_directories.py": 30,
    "jvm/test_first_user.py": 30,
    "jvm/test_mixed_transactions.py": 30,
    "jvm/test_moved_directories.py": 30,
    "jvm/test_tokens.py": 30,
    "log/test_log_model.py": 30,
    "log/test_log_refusals.py": 30,
    "node/test_full_disk.py": 30,
    "console/test_browser.py": 20,
    "console/test_walk.py": 20,
    "docs/test_readme.py": 20,
    "docs/test_security_first_steps.py": 20,
    "examples/test_examples.py": 20,
}
"""About what a file takes, or a folder, on two cores that do nothing else, where that is long."""
ONE_SESSION = "tests/spark/"
SESSION = "spark"
"""The fixture that is the session, and the folder that has it."""
SESSION_SECONDS = 420
"""What the tests of the one session take together."""


@functools.cache
def asking_for_the_session(path: Path) -> frozenset[str]:
    """The functions of a file of `spark` that take its session, by themselves or by what they take.

    Read from the text: the process that schedules has no tests, only their names.
    """
    if path.parent != TESTS / SESSION:
        return frozenset()
    functions = {
        node.name: {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    asking: set[str] = set()
    while more := {name for name, takes in functions.items() if takes & {SESSION, *asking}} - asking:
        asking |= more
    return frozenset(asking)


def _asks(path: Path, test: str) -> bool:
    return test.partition("[")[0] in asking_for_the_session(path)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seconds = {TESTS / name: taken for name, taken in SECONDS.items()}
    gone = [str(path) for path in seconds if not path.exists()]
    assert not gone, f"tests/longest_first.py names files that are not there: {', '.join(gone)}"
    of_spark = [item for item in items if item.path.parent == TESTS / SESSION]
    unseen = [
        item.nodeid
        for item in of_spark
        if SESSION in getattr(item, "fixturenames", ()) and not _asks(item.path, item.name)
    ]
    assert not unseen, f"take the Spark session in a way that tests/longest_first.py does not see: {unseen}"
    items.sort(key=lambda item: -_seconds(item, seconds))


def _seconds(item: pytest.Item, seconds: dict[Path, int]) -> int:
    if _asks(item.path, item.name):
        return SESSION_SECONDS
    return seconds.get(item.path, seconds.get(item.path.parent, 0))


class FilesAndFolders(LoadFileScheduling):
    """As ``--dist loadfile``, but the tests of one Spark session stay together."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        return ONE_SESSION if _asks(TESTS.parent / file, test) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return FilesAndFolders(config, log) if config.getvalue("dist") == "loadfile" else None
