"""The runner of outside suites: what it reads in a report, and what it holds against an allow-list."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent / "run.py"

REPORT = """<testsuites><testsuite>
<testcase classname="t.a" name="passes"/>
<testcase classname="t.a" name="fails"><failure message="x"/></testcase>
<testcase classname="t.a" name="is_skipped"><skipped/></testcase>
<testcase classname="t.a" name="ends_badly"/>
<testcase classname="t.a" name="ends_badly"><error message="teardown"/></testcase>
<testcase classname="t.a" name="of[0x7f12ab]"/>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("suites_run", RUN)
    module = importlib.util.module_from_spec(spec)
    sys.modules["suites_run"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["suites_run"]


@pytest.fixture
def found(run, tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    return run.read_report(report)


@pytest.fixture
def suite(run, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "HERE", tmp_path)
    return dataclasses.replace(run.SUITES[0], name="some")


def test_a_report_is_read(found):
    assert found == {
        "t.a::passes": "passed",
        "t.a::fails": "failure",
        "t.a::is_skipped": "skipped",
        "t.a::ends_badly": "error",
        "t.a::of[0x]": "passed",
    }


def test_what_is_on_the_list_must_pass(run, suite, found, capsys):
    suite.allow_list.write_text("t.a::passes\n")
    assert run.judge(suite, found, write=False)
    suite.allow_list.write_text("t.a::passes\nt.a::fails\nt.a::gone\n")
    assert not run.judge(suite, found, write=False)

    said = capsys.readouterr().out
    assert "NO LONGER PASSES (failure) t.a::fails" in said
    assert "NO LONGER PASSES (not run) t.a::gone" in said
    assert "SKIPPED t.a::is_skipped" in said


def test_a_suite_that_ran_nothing_has_not_passed(run, suite):
    assert not run.judge(suite, {}, write=False)


def test_an_allow_list_only_grows(run, suite, found):
    suite.allow_list.write_text("t.a::gone\n")
    run.judge(suite, found, write=True)
    assert suite.allow_list.read_text().split() == ["t.a::gone", "t.a::of[0x]", "t.a::passes"]


def test_each_suite_has_its_list(run):
    lists = [suite.allow_list for suite in run.SUITES]
    assert sorted(lists) == sorted(RUN.parent.glob("*.allow"))
    for allow_list in lists:
        listed = allow_list.read_text().split("\n")
        assert listed == [*sorted(set(listed[:-1])), ""]
        assert len(listed) > 1


def test_what_go_test_prints_is_read(run):
    log = (
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- FAIL: TestA/of_one (1.20s)\n"
        "    x_test.go:9: --- PASS: no test\n--- SKIP: TestB (0.01s)\n--- PASS: FuzzC/seed#0 (0.00s)\nok\n"
    )
    assert run.read_go_log(log) == {"TestA": "passed", "TestA/of_one": "failure", "TestB": "skipped"}


def test_a_suite_of_go_needs_its_toolchain(run, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(run.shutil, "which", lambda _: None)
    suite = next(each for each in run.SUITES if each.go)
    assert run.outcomes(suite, tmp_path, "127.0.0.1:1") == {}
    assert "JUDGE DID NOT SPEAK: franz-go" in capsys.readouterr().out


def test_what_librdkafkas_runner_has_and_prints_is_read(run):
    source = (
        "    _TEST(0001_one, 0),\n    _TEST(0004_conf, TEST_F_LOCAL),\n    _TEST(0028_long,\n"
        "          TEST_F_KNOWN_ISSUE,\n          0),\n    _TEST(0055_late, TEST_F_KNOWN_ISSUE_WIN32),\n"
        "    _TEST(0170_share_consumer, 0),\n    _TEST(8000_idle, TEST_F_MANUAL),\n"
    )
    assert run.runner_tests(source) == ["0001_one", "0055_late"]
    log = (
        "[0001_one /1.2s] =========== Test 0001_one PASSED ===========\n"
        "\033[31m====== Test 0055_late FAILED ======\033[0m\n====== Test 0056_more SKIPPED ======\n"
        "|\033[36m 0107_topic_recreate            |    SKIPPED |   0.000s \033[0m|\033[36m \033[0m\n"
    )
    assert run.read_runner_log(log) == {
        "0001_one": "passed",
        "0055_late": "failure",
        "0056_more": "skipped",
        "0107_topic_recreate": "skipped",
    }


@pytest.fixture
def librdkafka(run, monkeypatch, tmp_path):
    """A suite, and a clone whose runner passes one test and says nothing of the other."""
    monkeypatch.setattr(run.tempfile, "tempdir", str(tmp_path))
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test.c").write_text("    _TEST(0001_one, 0),\n    _TEST(0002_two, 0),\n")
    runner = tests / "test-runner"
    runner.write_text(
        '#!/bin/sh\ncp "$RDKAFKA_TEST_CONF" ../seen.conf; echo "$KAFKA_PATH" > ../seen.path\n'
        '[ "$TESTS" = 0001_one ] || exit 1\necho "==== Test $TESTS PASSED ===="\n'
    )
    runner.chmod(0o755)
    return run.LIBRDKAFKA


def test_a_test_of_librdkafka_that_says_nothing_has_failed(run, librdkafka, tmp_path):
    broker = {**run.NOTHING, "bootstrap": "127.0.0.1:1"}
    assert run.outcomes(librdkafka, tmp_path / "nowhere", broker) == {}
    assert run.outcomes(librdkafka, tmp_path, broker) == {"0001_one": "passed", "0002_two": "failure"}
    assert (tmp_path / "seen.conf").read_text() == "bootstrap.servers=127.0.0.1:1\n"


def test_a_chosen_test_of_librdkafka_knows_how_to_connect(run, librdkafka, tmp_path):
    broker = {**run.NOTHING, "bootstrap": "127.0.0.1:1", "sasl_ssl": "2", "scripts": "kafka"}
    connecting = {"bootstrap.servers": "127.0.0.1:{sasl_ssl}", "security.protocol": "SASL_SSL"}
    chosen = dataclasses.replace(
        librdkafka, properties=connecting, only="0001_", environment={"KAFKA_PATH": "{scripts}"}
    )

    assert run.outcomes(chosen, tmp_path, broker) == {"0001_one": "passed"}
    lines = (tmp_path / "seen.conf").read_text().split()
    assert lines == ["bootstrap.servers=127.0.0.1:2", "security.protocol=SASL_SSL"]
    assert (tmp_path / "seen.path").read_text() == "kafka\n"


def test_a_client_that_must_be_refused_fails_each_test(run, librdkafka, tmp_path):
    refused = dataclasses.replace(librdkafka, is_refused=True)
    broker = {**run.NOTHING, "bootstrap": "127.0.0.1:1"}
    assert run.outcomes(refused, tmp_path, broker) == {"0001_one": "let in", "0002_two": "passed"}


def test_a_suite_of_go_logs_in_by_a_file_in_a_copy_of_its_package(run, tmp_path):
    package = tmp_path / "pkg" / "kgo"
    package.mkdir(parents=True)
    (package / "helpers_test.go").write_text("func getSeedBrokers() Opt {\n")
    suite = next(each for each in run.SUITES if each.go and each.fixtures)

    with run.package_of(suite, tmp_path) as copied:
        assert copied != package
        assert (copied / "helpers_test.go").read_text() == "func suiteSeedBrokers() Opt {\n"
        added = (copied / "suite_fixtures_test.go").read_text()
    assert added.count("func getSeedBrokers() Opt {") == 1
    assert [each.name for each in package.iterdir()] == ["helpers_test.go"]


def test_no_suite_asks_for_a_word_that_stands_for_nothing(run):
    for suite in run.SUITES:
        for text in (*suite.environment.values(), *suite.properties.values()):
            text.format_map({**run.NOTHING, "bootstrap": ""})
