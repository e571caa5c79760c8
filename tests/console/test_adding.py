"""Clusters that are added while the console runs: audit, secrets hidden, kept over restarts."""

import json
import stat

import pytest
from console_site import ROUND_S, Site

from barnabas.console.collector import Pace
from barnabas.console.console import console_of
from barnabas.console.stores.added_clusters import AddedClusters, added_cluster
from barnabas.console.watched import WatchedCluster
from barnabas.operations.errors import OperationError

SECRET = "s3cret-of-the-cluster"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{SECRET}";'


@pytest.fixture
def acting(cluster, open_console):
    site = open_console(cluster.bootstrap_servers, allow_changes=True)
    site.look()
    return site


def post(site, path, **body):
    return site.request("POST", f"/api/v1{path}", json=body)


def names(site):
    return [one["name"] for one in site.request("GET", "/api/v1/clusters").json()]


def test_a_cluster_is_added_looked_at_and_taken_away(acting, cluster):
    added = post(acting, "/clusters", name="two", bootstrap=cluster.bootstrap_servers)
    assert (added.status_code, added.json()["problem"]) == (200, None)
    assert names(acting) == ["demo", "two"]
    assert acting.console.clusters["two"].wait_for_round(ROUND_S)
    topics = acting.request("GET", "/api/v1/clusters/two/topics").json()["rows"]
    assert "orders" in {one["name"] for one in topics}
    again = post(acting, "/clusters", name="two", bootstrap="127.0.0.1:1")
    assert (again.status_code, "already" in again.text) == (409, True)
    assert post(acting, "/clusters/two/remove", confirm="demo").status_code == 409
    assert post(acting, "/clusters/two/remove", confirm="two").status_code == 200
    assert names(acting) == ["demo"]
    assert not acting.console.clusters.keys() - {"demo"}
    log = [json.loads(line) for line in (acting.console.data / "audit.jsonl").read_text().splitlines()]
    assert [(one["kind"], one["outcome"]) for one in log] == [
        ("add-cluster", "begun"), ("add-cluster", "done"),
        ("add-cluster", "begun"), ("add-cluster", "failed"),
        ("remove-cluster", "begun"), ("remove-cluster", "done"),
    ]  # fmt: skip


def test_one_that_is_down_harms_no_other_and_is_kept_over_a_restart(acting, cluster):
    properties = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n"
    added = post(acting, "/clusters", name="down", bootstrap="127.0.0.1:1", properties=properties)
    assert added.status_code == 200, added.text
    acting.look()

    levels = {one["name"]: one["level"] for one in acting.request("GET", "/api/v1/clusters").json()}
    assert levels["down"] in {"unknown", "critical"}
    assert levels["demo"] in {"good", "warning"}
    path = acting.console.data / "clusters.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET in path.read_text()
    # Nothing that is answered or written down has it.
    shown = [acting.request("GET", one).text for one in ("/", "/c/down", "/c/down/health", "/c/down/audit",
             "/api/v1/clusters", "/api/v1/clusters/down", "/api/v1/clusters/down/audit")]  # fmt: skip
    shown += [added.text, (acting.console.data / "audit.jsonl").read_text(), repr(acting.console)]
    assert not [one for one in shown if SECRET in one]
    assert "with sasl.jaas.config, sasl.mechanism" in shown[-2]

    restarted = console_of([], data=acting.console.data, pace=Pace(round_s=3600))
    try:
        assert list(restarted.clusters) == ["down"]
        assert restarted.clusters["down"].bootstrap == "127.0.0.1:1"
        site = Site(restarted)
        assert site.request("GET", "/c/down").status_code == 200
    finally:
        restarted.close()


def test_a_file_that_cannot_be_read_is_said_and_not_written_over(acting, cluster):
    path = acting.console.data / "clusters.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("[{")
    refused = post(acting, "/clusters", name="two", bootstrap=cluster.bootstrap_servers)
    assert (refused.status_code, "cannot be read" in refused.text) == (409, True)
    assert path.read_text() == "[{"
    other = WatchedCluster("a", {"bootstrap.servers": "127.0.0.1:1"})
    restarted = console_of([other], data=acting.console.data)
    try:
        assert "cannot be read" in restarted.problem
        assert "cannot be read" in Site(restarted).request("GET", "/").text
    finally:
        restarted.close()


@pytest.mark.parametrize(
    ("name", "bootstrap", "properties", "said"),
    [
        ("a/b", "h:1", "", "name"),
        ("..", "h:1", "", "name"),
        ("a", "h", "", "h"),
        ("a", ",", "", "bootstrap"),
        ("a", "h:1", "ssl.truststore.location=/etc/passwd", "names a file"),
        ("a", "h:1", "ssl.keystore.location=/etc/passwd", "names a file"),
        ("a", "h:1", "plugin=x", "no option"),
        ("a", "h:1", "sasl.oauthbearer.token.endpoint.url=http://x", "no option"),
        ("a", "h:1", "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.jaas.config"),
        ("a", "h:1", f"security.protocol=SASL_SSL\nsasl.jaas.config={JAAS}", "sasl.mechanism"),
        (
            "a",
            "h:1",
            f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config={JAAS}",
            "sasl.mechanism",
        ),
        (
            "a",
            "h:1",
            f"security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.jaas.config={JAAS}",
            "sasl.mechanism",
        ),
        (
            "a",
            "h:1",
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=x {SECRET}",
            "",
        ),
        ("a", "h:1", f"security.protocol={SECRET}", ""),
        ("a", "h:1", f"{SECRET}", "KEY=VALUE"),
        ("a", "h:1", "security.protocol=SSL\nssl.truststore.certificates=no PEM", "certificate"),
    ],
)
def test_what_cannot_be_added_is_refused_without_its_secrets(name, bootstrap, properties, said):
    with pytest.raises(OperationError) as refused:
        added_cluster(name, bootstrap, properties)
    assert said in str(refused.value)
    if "security.protocol=s3" not in properties:
        assert SECRET not in str(refused.value)


def test_those_of_the_command_line_stay(acting):
    refused = post(acting, "/clusters/demo/remove", confirm="demo")
    assert (refused.status_code, "when the console was started" in refused.text) == (409, True)
    assert AddedClusters(acting.console.data).read() == {}


def test_a_console_that_only_reads_adds_nothing(site):
    assert post(site, "/clusters", name="two", bootstrap="h:1").status_code == 403
    assert post(site, "/clusters/demo/remove", confirm="demo").status_code == 403
    assert "Add a cluster" not in site.request("GET", "/").text


def test_a_form_adds_and_takes_away(acting, cluster):
    assert "Add a cluster" in acting.request("GET", "/").text
    token = acting.request("GET", "/add-cluster").text.partition('name="token" value="')[2].partition('"')[0]
    given = {"name": "two", "bootstrap": cluster.bootstrap_servers, "properties": ""}
    assert acting.request("POST", "/add-cluster", data=given).status_code == 403
    added = acting.request("POST", "/add-cluster", data={**given, "token": token})
    assert (added.status_code, added.headers["location"]) == (303, "/c/two")
    assert "Take two away" in acting.request("GET", "/").text
    gone = acting.request("POST", "/c/two/remove", data={"confirm": "two", "token": token})
    assert (gone.status_code, names(acting)) == (303, ["demo"])
