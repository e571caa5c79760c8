"""The files that take longest begin first: for one that begins last, the other workers would wait.

`conftest` registers this module as a plugin. The order of the others is that of pytest-randomly. The files of
`spark` go to one worker, one after the other: a second Spark session would take half a minute of both cores.
"""

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parent
SECONDS = {
    "spark": 800,
    "parity/test_parity.py": 300,
    "packaging/test_compiled_wheel.py": 240,
    "jvm/test_cluster_story.py": 180,
    "chaos/test_kills.py": 100,
    "chaos/test_refusals.py": 100,
    "jvm/test_secure_cluster.py": 100,
    "parity/test_connectors.py": 90,
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seconds = {TESTS / name: taken for name, taken in SECONDS.items()}
    gone = [str(path) for path in seconds if not path.exists()]
    assert not gone, f"tests/longest_first.py names files that are not there: {', '.join(gone)}"
    items.sort(key=lambda item: -seconds.get(item.path, seconds.get(item.path.parent, 0)))


class FilesAndFolders(LoadFileScheduling):
    """As ``--dist loadfile``, but the files of one Spark session stay together."""

    def _split_scope(self, nodeid: str) -> str:
        return ONE_SESSION if nodeid.startswith(ONE_SESSION) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return FilesAndFolders(config, log) if config.getvalue("dist") == "loadfile" else None
