"""``barnabas console``: the check for scripts, and the server as a process."""

import gc
import json
import signal
import subprocess
import sys
import urllib.request

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from barnabas.console.console import Console
from barnabas.console.server import Address, listen, serve
from barnabas.console.web.app import routes_of


def console(*arguments, **more):
    return subprocess.run(
        [sys.executable, "-m", "barnabas", "console", *arguments],
        capture_output=True, text=True, timeout=100, check=False, **more,
    )  # fmt: skip


def test_a_check_ends_with_the_verdict(cluster):
    good = console("--bootstrap-server", cluster.bootstrap_servers, "--check", "--limit", "leaders-uneven=9")
    assert (good.returncode, good.stdout.splitlines()[0]) == (0, "good"), good

    strict = console(
        "--bootstrap-server", cluster.bootstrap_servers, "--check", "--json", "--limit", "lag-seconds=30"
    )
    verdict = json.loads(strict.stdout)
    assert (strict.returncode, verdict["level"]) == (1, "warning")
    assert any("behind 60 s" in reason for reason in verdict["reasons"])


@pytest.fixture
def nowhere(tmp_path):
    """A cluster that is not there, and options with which that is known after a second."""
    options = tmp_path / "admin.properties"
    options.write_text("default.api.timeout.ms=1000\nrequest.timeout.ms=500\n")
    return "--bootstrap-server", "127.0.0.1:1", "--command-config", str(options)


def test_a_cluster_that_is_not_there_has_no_pages_to_show(nowhere):
    done = console(*nowhere, "--show", "/clients")
    assert (done.returncode, done.stdout) == (1, ""), done
    assert "nothing is read of the cluster: No broker of 127.0.0.1:1 answered" in done.stderr
    assert "Traceback" not in done.stderr


def test_records_of_no_topic_are_an_error_and_not_null(cluster):
    done = console("--bootstrap-server", cluster.bootstrap_servers, "--show", "/messages")
    assert (done.returncode, done.stdout) == (1, ""), done
    assert "/messages: records are those of a topic: name it, as in /messages?topic=orders" in done.stderr


def test_a_cluster_that_is_not_there_is_critical(nowhere):
    done = console(*nowhere, "--check")
    assert done.returncode == 2, done
    assert done.stdout.splitlines()[0] == "critical"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-b", "h:1", "--check", "--show", "/topics"), "--check and --show"),
        (("-b", "h:1", "--cluster", "b=h:2", "--show", "/topics"), "leave --cluster out"),
        (("-b", "h:1", "--cluster", "b=h:2", "--check"), "leave --cluster out"),
        (("-b", "h:1", "--json"), "give --check"),
        (("-b", "h:1", "--limit", "nothing=1"), "--limit nothing"),
        (("-b", "h:1", "--limit", "lag-seconds=many"), "is no number"),
        (("-b", "h:1", "--host", "0.0.0.0"), "are served over TLS and log in"),
        (("-b", "h:1", "--metrics", "http://h/metrics"), "begins with the id of a broker"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(arguments, said):
    done = console(*arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_server_answers_and_ends_when_it_is_interrupted(cluster, tmp_path):
    command = [sys.executable, "-m", "barnabas", "console", "-b", cluster.bootstrap_servers, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            line = process.stderr.readline()
            assert line.startswith("The console is at http://127.0.0.1:"), line
            with urllib.request.urlopen(f"{line.split()[-1]}api/v1/clusters", timeout=30) as answer:
                assert json.load(answer)[0]["name"] == "cluster"
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)
        assert "Traceback" not in process.stderr.read()


def test_all_is_ready_to_answer_before_a_cluster_is_looked_at():
    ready = []

    def clusters():
        # A look at a large cluster takes the processor that the routes need.
        ready.append(routes_of.cache_info().currsize)
        raise InterruptedError("the clusters are wanted")
        yield

    switch_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    routes_of.cache_clear()
    try:
        with (
            listen(Address("127.0.0.1", 0)) as listener,
            pytest.raises(InterruptedError, match="the clusters are wanted"),
        ):
            serve(Console({}), clusters(), listener)
    finally:
        sys.setswitchinterval(switch_s)
        gc.set_threshold(*thresholds)
    assert ready == [1]


def test_routes_are_made_once():
    # FastAPI makes those of an included router again, at the first request.
    own = routes_of(has_login=True, has_provider=True).routes
    assert [one for one in own if not isinstance(one, APIRoute | Route | Mount)] == []
