"""The settings of a session, and what its processes load."""

import subprocess
import sys

from barnabas.spark import sessions


def test_the_users_settings_win():
    chosen = sessions.settings("local[2]", {"spark.ui.enabled": True, "spark.sql.shuffle.partitions": 7})

    assert (chosen["spark.ui.enabled"], chosen["spark.sql.shuffle.partitions"]) == ("true", "7")
    assert chosen["spark.sql.session.timeZone"] == "UTC"


def test_java_options_are_added_to_the_quiet_ones():
    options = sessions.settings("local[2]", {"spark.driver.extraJavaOptions": "-Xss2m"})[
        "spark.driver.extraJavaOptions"
    ]

    assert options.startswith("-Dlog4j2.configurationFile=file:///")
    assert options.endswith(" -Xss2m")


def test_only_a_local_session_stays_on_the_loopback():
    assert sessions.settings("local[*]", {})["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in sessions.settings("spark://master:7077", {})


def test_what_was_submitted_wins_over_ours_and_loses_to_the_users():
    submitted = {
        "spark.master": "spark://m:7077",
        "spark.sql.session.timeZone": "CET",
        "spark.driver.memory": "3g",
    }
    chosen = sessions.settings("spark://m:7077", {"spark.driver.memory": "4g"}, submitted)

    assert "spark.sql.session.timeZone" not in chosen
    assert chosen["spark.driver.memory"] == "4g"
    # The number of this machine's processors says nothing about a cluster.
    assert "spark.sql.shuffle.partitions" not in chosen


def test_a_cluster_keeps_its_user_interface():
    assert sessions.settings("local[2]", {})["spark.ui.enabled"] == "false"
    assert "spark.ui.enabled" not in sessions.settings("spark://master:7077", {})


def test_what_starts_inside_writes_to_the_log_file(tmp_path, capfd):
    import os

    with sessions._stderr_to(tmp_path / "log"):
        os.write(2, b"hidden\n")
    os.write(2, b"shown\n")

    assert (tmp_path / "log").read_text() == "hidden\n"
    assert capfd.readouterr().err == "shown\n"


def test_planning_loads_no_machine_code():
    """Spark plans each query in processes of its own, which read no records:
    loading numba takes them a second.
    """
    program = (
        "import sys; from barnabas.spark import kafka, sink, source;"
        "print([name for name in ('pandas', 'numba') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"
