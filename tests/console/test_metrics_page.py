"""The console's own metrics: names, values, who may read them."""

import re

import httpx
import pytest

from barnabas.client.types import OffsetAndMetadata
from barnabas.console.access import passwords as password_files
from barnabas.console.access.login import Login
from barnabas.console.access.passwords import PasswordFile, set_password
from barnabas.console.access.roles import RoleFile
from barnabas.core.ids import TopicPartition

LINE = re.compile(r'barnabas_console_(\w+)\{cluster="demo"(?:,\w+="((?:[^"\\\n]|\\.)*)")?\} (\S+)')
ROLES = """
[users]
reader = ["reads"]
team = ["orders"]
[[roles.reads]]
resources = ["cluster"]
[[roles.orders]]
resources = ["topic"]
"""


def scraped(text):
    """The samples by name and subject; every line is one, or a comment."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("# "):
            match = LINE.fullmatch(line)
            assert match, line
            found[match[1], match[2]] = float(match[3])
    return found


def test_lag_checks_and_the_looks_are_exposed(cluster, site):
    cluster.admin.groups.alter_offsets('a"b\\c', {TopicPartition("orders", 0): OffsetAndMetadata(9)})
    site.look()
    answer = site.request("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = scraped(answer.text)
    assert found["group_lag", "behind"] == 7
    assert found["group_lag_seconds", "behind"] == 60
    assert found["group_lag", "done"] == 0
    assert found["group_lag", r"a\"b\\c"] == 1
    assert found["cluster_brokers", None] == 2
    assert found["check_bad", "no-leader"] == 0
    assert found["up", None] == 1
    assert found["requests_total", None] > 5
    assert 0 <= found["refreshed_seconds", None] < 600
    assert not any(name.startswith(("topic_", "group_offset")) for name, _ in found)
    helped = set(re.findall(r"^# TYPE barnabas_console_(\w+) (?:gauge|counter)$", answer.text, re.MULTILINE))
    assert helped == {name for name, _ in found}


@pytest.fixture
def guarded(cluster, open_console, tmp_path, monkeypatch):
    """A console with log-in."""
    monkeypatch.setattr(password_files, "_N", 1 << 4)
    for user in ("reader", "team"):
        set_password(tmp_path / "users", user, f"secret of {user}")
    (tmp_path / "roles.toml").write_text(ROLES)
    login = Login(PasswordFile(tmp_path / "users"), RoleFile(tmp_path / "roles.toml"))
    return open_console(cluster.bootstrap_servers, login=login)


def ask(site, user, password):
    return site.request("GET", "/metrics", auth=httpx.BasicAuth(user, password))


def test_a_scraper_says_its_password_each_time_and_sees_what_its_role_gives(guarded, monkeypatch):
    guarded.look()
    anonymous = guarded.request("GET", "/metrics")
    assert (anonymous.status_code, "Basic" in anonymous.headers["www-authenticate"]) == (401, True)
    assert ask(guarded, "reader", "wrong").status_code == 401
    assert ask(guarded, "team", "secret of team").status_code == 403
    assert 'group_lag{cluster="demo",group="behind"} 7' in ask(guarded, "reader", "secret of reader").text

    def none_again(*_):
        raise AssertionError("a hash for each scrape")

    monkeypatch.setattr(password_files.PasswordEntry, "matches", none_again)
    assert ask(guarded, "reader", "secret of reader").status_code == 200
    other = guarded.request(
        "GET", "/api/v1/clusters/demo/health", auth=httpx.BasicAuth("reader", "secret of reader")
    )
    assert other.status_code == 401, "elsewhere a program logs in"
