"""Login, sessions and roles: nobody does what their role does not give, by a page or by REST."""

import signal
import ssl
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner
from fastapi.routing import APIRoute

from barnabas.cli.main import cli
from barnabas.console.access import check as checks
from barnabas.console.access import passwords as password_files
from barnabas.console.access import roles
from barnabas.console.access.gate import safe_target
from barnabas.console.access.login import Login
from barnabas.console.access.passwords import PasswordFile, set_password
from barnabas.console.access.roles import RoleFile
from barnabas.console.access.rules import ACTION_RULES, READ_RULES
from barnabas.console.access.sessions import IDLE_MS, LIFETIME_MS, Origin, Sessions
from barnabas.console.actions.kinds import KINDS
from barnabas.console.web.app import routes_of
from barnabas.operations.errors import OperationError
from tls_certificates import Authority

ROLES = """
[users]
admin = ["all"]
reader = ["reads"]
team = ["orders"]
nobody = []

[[roles.all]]
resources = ["*"]
may = ["change"]

[[roles.reads]]
resources = ["*"]

[[roles.orders]]
clusters = ["de*"]
resources = ["topic", "message"]
names = ["orders*"]
may = ["change"]

[[roles.orders]]
resources = ["group"]
names = ["behind"]
"""
USERS = ("admin", "reader", "team", "nobody")


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch):
    """A hash of a test takes no tenth of a second."""
    monkeypatch.setattr(password_files, "_N", 1 << 4)


@pytest.fixture
def folder(tmp_path):
    for user in USERS:
        set_password(tmp_path / "users", user, f"{user}'s")
    (tmp_path / "roles.toml").write_text(ROLES)
    return tmp_path


@pytest.fixture
def guarded(cluster, open_console, folder):
    """A console with login and roles, which has looked twice."""
    login = Login(PasswordFile(folder / "users"), RoleFile(folder / "roles.toml"))
    site = open_console(cluster.bootstrap_servers, allow_changes=True, login=login)
    site.look()
    site.look()
    return site


def token(site, user, password=None, **headers):
    answer = log_in(site, user, password or f"{user}'s", **headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["token"]


def log_in(site, user, password, **headers):
    body = {"user": user, "password": password}
    return site.request("POST", "/api/v1/login", json=body, headers=headers)


def bearer(given):
    return {"Authorization": f"Bearer {given}"}


def get(site, path, given):
    return site.request("GET", f"/api/v1/clusters/demo{path}", headers=bearer(given))


def post(site, path, body, given):
    return site.request("POST", f"/api/v1/clusters/demo{path}", json=body, headers=bearer(given))


def routes(site):
    """Every route of the application that is behind the login, with its method."""
    public = {"/login", "/api/v1/login", "/api/v1/healthz"}
    found = [
        (method, one.path)
        for one in routes_of(has_login=True, has_provider=False).routes
        if isinstance(one, APIRoute) and one.path not in public
        for method in one.methods
    ]
    return [*found, ("GET", "/api/v1/openapi.json"), ("GET", "/not/there"), ("POST", "/not/there")]


def filled(path):
    """A path with something for each of its parameters."""
    values = {
        "{cluster}": "demo",
        "{broker_id}": "0",
        "{name:path}": "orders",
        "{name}": "orders",
        "{plan_id}": "x",
        "{kind}": "delete-topic" if "/actions/" in path else "topic",
    }
    for parameter, value in values.items():
        path = path.replace(parameter, value)
    assert "{" not in path, f"the test does not know the parameters of {path}"
    return path


def test_nothing_is_answered_before_a_login(guarded):
    for method, path in routes(guarded):
        answer = guarded.request(method, filled(path))
        if path.startswith(("/api", "/metrics")) or method == "POST":
            assert answer.status_code == 401, (method, path)
        else:
            assert answer.status_code == 303, (method, path)
            assert answer.headers["location"].startswith("/login?next=/"), path
        assert "content-security-policy" in answer.headers


def test_every_route_has_a_rule_and_gives_nothing_to_who_has_no_role(guarded):
    """A new route without a rule is refused to the one who may do everything, which fails here, too."""
    nobody, admin = token(guarded, "nobody"), token(guarded, "admin")
    for method, path in routes(guarded):
        if "{cluster}" not in path:
            continue
        refused = guarded.request(method, filled(path), headers=bearer(nobody))
        assert refused.status_code == 403, (method, path, refused.text)
        assert "may" in refused.text
        allowed = guarded.request(method, filled(path), headers=bearer(admin))
        assert "no rule" not in allowed.text, (method, path)
        assert allowed.status_code != 403 or "token" in allowed.text or "this form" in allowed.text, path
    assert set(KINDS) <= set(ACTION_RULES)


def test_who_reads_changes_nothing(guarded, cluster):
    reader = token(guarded, "reader")
    for kind in KINDS:
        answer = post(guarded, f"/actions/{kind}", {"topic": "orders", "group": "behind"}, reader)
        assert (answer.status_code, "may not change" in answer.json()["error"]) == (403, True), kind
    assert get(guarded, "/topics/orders", reader).status_code == 200
    page = guarded.request("GET", "/c/demo/topics/orders", headers=bearer(reader)).text
    assert "Delete all records" not in page


REACH = {
    "/topics/orders": 200,
    "/topics/logs.app": 403,
    "/messages?topic=orders&start=earliest": 200,
    "/messages?topic=logs.app": 403,
    "/configs/topic/orders": 200,
    "/configs/topic/logs.app": 403,
    "/configs/broker/0": 403,
    "/explain/partition/orders-0": 200,
    "/explain/partition/logs.app-0": 403,
    "/explain/coordinator/behind": 200,
    "/explain/coordinator/done": 403,
    "/groups/behind": 200,
    "/groups/done": 403,
    "/history?kind=topic&subject=orders": 200,
    "/history?kind=topic&subject=logs.app": 403,
    "/history?kind=topic": 403,
    "/history?kind=group&subject=done&name=behind": 403,
    "/history": 403,
    "": 403,
    "/brokers": 403,
    "/audit": 403,
    "/timeline": 403,
    "/clients": 403,
    "/clients/sender": 403,
    "/transactions": 403,
    "/store": 403,
}


def test_a_role_reaches_as_far_as_its_pattern(guarded):
    team = token(guarded, "team")
    assert {path: get(guarded, path, team).status_code for path in REACH} == REACH


def test_clusters_are_added_by_those_who_may_change_them(guarded, cluster, folder):
    body = {"name": "demo-2", "bootstrap": cluster.bootstrap_servers}

    def added(user, **more):
        return guarded.request(
            "POST", "/api/v1/clusters", json={**body, **more}, headers=bearer(token(guarded, user))
        )

    for user in ("nobody", "reader", "team"):
        assert added(user).status_code == 403, user
        assert guarded.request("GET", "/add-cluster", headers=bearer(token(guarded, user))).status_code == 403
    roles = ROLES.replace("[[roles.all]]\n", '[[roles.all]]\nclusters = ["demo*"]\n', 1)
    (folder / "roles.toml").write_text(roles)
    other = added("admin", name="prod")
    assert (other.status_code, "in prod" in other.text) == (403, True)
    assert added("admin").status_code == 200
    remove = "/api/v1/clusters/demo-2/remove"
    for user, status in (("reader", 403), ("team", 403), ("admin", 200)):
        answer = guarded.request(
            "POST", remove, json={"confirm": "demo-2"}, headers=bearer(token(guarded, user))
        )
        assert answer.status_code == status, (user, answer.text)


def test_the_timeline_has_actions_for_those_who_may_read_the_audit_log(guarded, folder):
    change = {"topic": "orders", "key": "retention.ms", "value": "86400000"}
    plan = post(guarded, "/actions/alter-topic", change, token(guarded, "admin")).json()
    assert (
        post(guarded, f"/plans/{plan['id']}", {"confirm": "orders"}, token(guarded, "admin")).status_code
        == 200
    )
    (folder / "roles.toml").write_text(
        ROLES.replace('resources = ["*"]\n\n', 'resources = ["cluster"]\n\n', 1)
    )
    seen = get(guarded, "/timeline?kind=action", token(guarded, "reader")).json()
    assert (seen["entries"], "audit log" in seen["left_out"][0]) == ([], True)
    assert get(guarded, "/timeline?kind=action", token(guarded, "admin")).json()["entries"]
    # What is taken back takes the right of the change.
    undo = post(guarded, f"/audit/{plan['id']}/undo", {}, token(guarded, "reader"))
    assert undo.status_code == 403
    assert post(guarded, f"/audit/{plan['id']}/undo", {}, token(guarded, "admin")).status_code == 200


def test_rules_of_alerts_and_limits_are_of_those_who_change_the_cluster(guarded):
    rule = {"name": "a", "series": "group.lag/*", "limit": 1, "when": "above", "for_s": 0}
    for user, status in (("team", 403), ("reader", 403), ("admin", 200)):
        answer = post(guarded, "/alerts/rules", rule, token(guarded, user))
        assert answer.status_code == status, (user, answer.text)
        limit = post(guarded, "/health/limits", {"check": "lag-seconds", "limit": 7}, token(guarded, user))
        assert limit.status_code == status, (user, limit.text)
    assert {one["user"] for one in get(guarded, "/audit", token(guarded, "admin")).json()} == {"admin"}
    assert get(guarded, "/alerts", token(guarded, "team")).status_code == 403
    assert get(guarded, "/alerts", token(guarded, "reader")).status_code == 200


def test_lists_have_what_the_reader_may_know(guarded):
    team = token(guarded, "team")
    assert [one["name"] for one in get(guarded, "/topics", team).json()["rows"]] == ["orders"]
    assert [one["name"] for one in get(guarded, "/groups", team).json()["rows"]] == ["behind"]
    readers = get(guarded, "/topics/orders", team).json()["readers"]
    assert [one["group"] for one in readers] == ["behind"]
    everything = {one["name"] for one in get(guarded, "/topics", token(guarded, "admin")).json()["rows"]}
    assert {"orders", "logs.app"} <= everything


def test_clusters_that_one_may_not_know_are_not_named(guarded):
    nobody = guarded.request("GET", "/api/v1/clusters", headers=bearer(token(guarded, "nobody")))
    assert nobody.json() == []


def test_a_pattern_holds_for_changes(guarded, cluster):
    team = token(guarded, "team")
    assert post(guarded, "/actions/create-topic", {"topic": "orders.new"}, team).status_code == 200
    other = post(guarded, "/actions/create-topic", {"topic": "others"}, team)
    assert (other.status_code, "change topic others" in other.json()["error"]) == (403, True)
    group = post(guarded, "/actions/reset-offsets", {"group": "behind"}, team)
    assert group.status_code == 403
    # No topic named is every topic.
    assert post(guarded, "/actions/elect-leaders", {}, team).status_code == 403


def test_a_role_that_changes_holds_at_once(guarded, folder):
    """Between the preview and its confirmation, too."""
    team = token(guarded, "team")
    preview = post(guarded, "/actions/create-topic", {"topic": "orders.late"}, team).json()
    (folder / "roles.toml").write_text(ROLES.replace('names = ["orders*"]', 'names = ["orders"]'))
    answer = post(guarded, f"/plans/{preview['id']}", {"confirm": "orders.late"}, team)
    assert (answer.status_code, "orders.late" in answer.json()["error"]) == (403, True)
    (folder / "roles.toml").write_text(ROLES.replace('team = ["orders"]', "team = []"))
    assert get(guarded, "/topics/orders", team).status_code == 403


def test_roles_that_cannot_be_read_give_nothing(guarded, folder):
    admin = token(guarded, "admin")
    (folder / "roles.toml").write_text("[users\n")
    answer = get(guarded, "/topics", admin)
    assert (answer.status_code, "roles.toml cannot be read" in answer.json()["error"]) == (403, True)
    (folder / "roles.toml").unlink()
    assert get(guarded, "/topics", admin).status_code == 403
    (folder / "roles.toml").write_text(ROLES)
    assert get(guarded, "/topics", admin).status_code == 200


def test_another_s_plan_is_nobody_s(guarded, cluster):
    preview = post(guarded, "/actions/create-topic", {"topic": "orders.mine"}, token(guarded, "team")).json()
    answer = post(guarded, f"/plans/{preview['id']}", {"confirm": "orders.mine"}, token(guarded, "admin"))
    assert (answer.status_code, "no such preview" in answer.json()["error"]) == (409, True)


def test_the_audit_log_says_who(guarded, cluster):
    admin = token(guarded, "admin")
    preview = post(guarded, "/actions/create-topic", {"topic": "audited"}, admin).json()
    assert post(guarded, f"/plans/{preview['id']}", {"confirm": "audited"}, admin).status_code == 200
    assert {one["user"] for one in get(guarded, "/audit", admin).json()} == {"admin"}


def test_a_wrong_name_is_not_told_from_a_wrong_password(guarded):
    tried = [("admin", "wrong"), ("unknown", "admin's"), ("admin", "admin's ")]
    answers = [log_in(guarded, *one) for one in tried]
    assert [one.status_code for one in answers] == [401] * 3
    assert len({one.text for one in answers}) == 1


def test_many_wrong_passwords_are_stopped(guarded):
    codes = [log_in(guarded, "admin", "wrong").status_code for _ in range(11)]
    assert codes == [401] * 10 + [429]
    assert log_in(guarded, "admin", "admin's").status_code == 429
    assert log_in(guarded, "reader", "reader's").status_code == 200


def test_a_logout_ends_the_session(guarded):
    mine, other = token(guarded, "reader"), token(guarded, "reader")
    assert guarded.request("POST", "/api/v1/logout", headers=bearer(mine)).status_code == 200
    assert get(guarded, "/topics", mine).status_code == 401
    assert get(guarded, "/topics", other).status_code == 200


def test_a_stolen_session_is_worth_nothing_and_ends(guarded):
    mine = token(guarded, "reader")
    headers = {**bearer(mine), "User-Agent": "another"}
    assert guarded.request("GET", "/api/v1/clusters", headers=headers).status_code == 401
    assert get(guarded, "/topics", mine).status_code == 401


def test_a_new_password_ends_the_sessions_of_the_old_one(guarded, folder):
    mine, other = token(guarded, "reader"), token(guarded, "admin")
    set_password(folder / "users", "reader", "new")
    assert get(guarded, "/topics", mine).status_code == 401
    assert get(guarded, "/topics", other).status_code == 200
    assert log_in(guarded, "reader", "reader's").status_code == 401
    assert log_in(guarded, "reader", "new").status_code == 200


def test_a_user_who_is_taken_away_is_out(guarded, folder):
    mine = token(guarded, "reader")
    lines = (folder / "users").read_text().splitlines()
    (folder / "users").write_text("\n".join(one for one in lines if not one.startswith("reader:")))
    assert get(guarded, "/topics", mine).status_code == 401


def test_a_session_ends_by_itself():
    sessions, here = Sessions(), Origin("127.0.0.1", "browser")
    mine = sessions.begin("alice", here, "proof", 0)
    assert sessions.find(mine, here, IDLE_MS) is None
    for_long = sessions.begin("alice", here, "proof", 0)
    times = range(0, LIFETIME_MS, IDLE_MS // 2)
    assert all(sessions.find(for_long, here, at) is not None for at in times)
    assert sessions.find(for_long, here, LIFETIME_MS) is None


def test_a_user_has_a_bound_of_sessions():
    sessions, here = Sessions(), Origin("127.0.0.1", "browser")
    first, *rest = [sessions.begin("alice", here, "proof", 0) for _ in range(21)]
    assert sessions.find(first, here, 1) is None
    assert all(sessions.find(one, here, 1) for one in rest)


def form_login(site, user, **more):
    data = {"user": user, "password": f"{user}'s", **more}
    return site.request("POST", "/login", data=data)


def test_a_browser_logs_in_and_out(guarded):
    answer = form_login(guarded, "admin", next="/c/demo/topics?page=2")
    assert (answer.status_code, answer.headers["location"]) == (303, "/c/demo/topics?page=2")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    session = {"Cookie": cookie.partition(";")[0]}
    page = guarded.request("GET", "/c/demo/topics", headers=session)
    assert (page.status_code, "Log out" in page.text) == (200, True)
    form = page.text.partition('action="/logout"')[2].partition('value="')[2].partition('"')[0]
    assert guarded.request("POST", "/logout", headers=session).status_code == 403
    out = guarded.request("POST", "/logout", headers=session, data={"token": form})
    assert (out.status_code, out.headers["location"]) == (303, "/login")
    assert guarded.request("GET", "/c/demo/topics", headers=session).status_code == 303


def test_a_wrong_password_is_said_on_the_form(guarded):
    answer = guarded.request("POST", "/login", data={"user": "admin", "password": "x", "next": '"><b>'})
    assert answer.status_code == 401
    assert "not right" in answer.text
    assert "<b>" not in answer.text


def test_a_form_from_elsewhere_logs_nobody_in(guarded):
    answer = guarded.request(
        "POST", "/login", data={"user": "admin", "password": "admin's"}, headers={"origin": "http://evil"}
    )
    assert answer.status_code == 403


@pytest.mark.parametrize("there", ["//evil", "http://evil", "/\\evil", "evil", "", "/a\nb", "/" * 2])
def test_a_login_leads_to_no_other_site(there):
    assert safe_target(there) == "/"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "line 1"),
        ("a:scrypt$3$8$1$AAAA$AAAA", "line 1"),
        ("\n\nalice:secret", "line 3"),
        ("a:scrypt$1073741824$8$1$AAAAAAAAAAA=$AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "line 1"),
    ],
)
def test_a_broken_password_file_is_refused_and_not_repeated(text, said):
    with pytest.raises(ValueError, match=said) as refused:
        password_files.parsed(text)
    assert "secret" not in str(refused.value)


def test_a_broken_password_file_lets_nobody_in_and_nobody_stay(guarded, folder):
    admin = token(guarded, "admin")
    (folder / "users").write_text("x")
    assert log_in(guarded, "admin", "admin's").status_code == 403
    assert get(guarded, "/topics", admin).status_code == 403


@pytest.mark.parametrize("name", ["", "a:b", " a", "#a", "a\n", "x" * 101])
def test_names_that_a_line_cannot_have(tmp_path, name):
    with pytest.raises(OperationError, match="name"):
        set_password(tmp_path / "users", name, "p")


def test_the_password_file_is_its_owner_s_alone(folder):
    assert (folder / "users").stat().st_mode & 0o077 == 0
    assert "admin's" not in (folder / "users").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "no key 'x'"),
        ('[users]\na = ["b"]', "no role 'b'"),
        ("[[roles.a]]\n", "names its resources"),
        ('[[roles.a]]\nresources = ["topics"]', "no resource 'topics'"),
        ('[[roles.a]]\nresources = ["topic"]\nmay = ["write"]', "not 'write'"),
        ('[[roles.a]]\nresources = ["topic"]\nname = ["x"]', "no key 'name'"),
        ('[[roles.a]]\nresources = "topic"', "list of texts"),
        ("roles = 1", "table"),
    ],
)
def test_a_mistake_in_the_roles_is_named(text, said):
    with pytest.raises(ValueError, match=said):
        roles.parsed(text)


def test_users_without_roles_read(cluster, open_console, folder):
    login = Login(PasswordFile(folder / "users"))
    site = open_console(cluster.bootstrap_servers, allow_changes=True, login=login)
    site.look()
    mine = token(site, "admin")
    assert get(site, "/topics/orders", mine).status_code == 200
    assert post(site, "/actions/delete-topic", {"topic": "orders"}, mine).status_code == 403


def test_rules_are_of_paths_that_there_are(guarded):
    below = {path.partition("{cluster}")[2] for _, path in routes(guarded) if "{cluster}" in path}
    assert set(READ_RULES) <= below


def shown(port):
    """The certificate that a client sees now."""
    return ssl.get_server_certificate(("localhost", int(port)), timeout=60)


def test_the_console_is_served_over_tls_to_those_who_log_in(cluster, tmp_path):
    """As an operator begins it, on another name than the loopback's."""
    authority = Authority()
    signed = authority.sign("localhost", "127.0.0.1")
    key = tmp_path / "key.pem"
    key.write_text(signed.key_pem())
    cert = tmp_path / "cert.pem"
    cert.write_text(signed.chain_pem)
    program = [sys.executable, "-m", "barnabas", "console"]
    users = ["--passwords", str(tmp_path / "users")]
    made = CliRunner().invoke(cli, ["console", *users, "--set-password", "alice"], input="secret\nsecret\n")
    assert (made.exit_code, "secret" in made.output) == (0, False), made.output
    served = ["--host", "0.0.0.0", "--port", "0", "--tls-cert", str(cert), "--tls-key", str(key)]
    command = [*program, "-b", cluster.bootstrap_servers, *users, *served]
    trust = ssl.create_default_context(cadata=authority.pem_text)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            line = process.stderr.readline()
            assert line.startswith("The console is at https://0.0.0.0:"), line
            port = line.strip("/\n").rpartition(":")[2]
            with httpx.Client(base_url=f"https://localhost:{port}", verify=trust, timeout=60) as client:
                assert client.get("/api/v1/clusters").status_code == 401
                answer = client.post("/login", data={"user": "alice", "password": "secret"})
                assert (answer.status_code, answer.headers["location"]) == (303, "/")
                assert answer.headers["set-cookie"].startswith("__Host-barnabas_session=")
                assert "Secure" in answer.headers["set-cookie"]
                assert answer.headers["strict-transport-security"]
                assert client.get("/api/v1/clusters").status_code == 200
            # Who renews writes one file after the other; nobody is kept out meanwhile.
            renewed = authority.sign("localhost", "127.0.0.1")
            cert.write_text(renewed.chain_pem)
            assert shown(port) == signed.chain_pem
            key.write_text(renewed.key_pem())
            assert shown(port) == renewed.chain_pem
            cert.unlink()
            assert shown(port) == renewed.chain_pem
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130)
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tls-cert", "cert.pem"], "go together"),
        (["--tls-cert", "cert.pem", "--tls-key", "cert.pem"], "no certificate and its key"),
        (["--roles", "roles.toml"], "give --passwords"),
        (["--passwords", "cert.pem"], "line 1"),
        (["--passwords", "not-there"], "cannot be read"),
        (["--set-password", "alice"], "name the file"),
        (["--set-password", "a:b", "--passwords", "users"], "no colon"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_served(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cert.pem").write_text("nothing")
    done = CliRunner().invoke(cli, ["console", "-b", "127.0.0.1:1", *arguments])
    assert done.exit_code != 0
    assert said in done.output
    assert "Traceback" not in done.output


def test_a_parameter_beside_the_one_that_is_read_gives_no_right():
    """What is asked for is what the rule is asked about."""
    given = {"kind": "topic", "subject": "secret", "name": "orders"}
    assert [one.name for one in READ_RULES["/history"].needs(given)] == ["secret"]


def test_a_name_in_the_query_is_not_that_of_the_path(guarded):
    team = token(guarded, "team")
    assert get(guarded, "/topics/logs.app?name=orders", team).status_code == 403
    assert get(guarded, "/configs/topic/logs.app?name=orders&kind=topic", team).status_code == 403
    assert get(guarded, "/messages?topic=orders&topic=logs.app", team).status_code == 403


def test_a_path_without_a_rule_is_refused_to_everybody(guarded, monkeypatch):
    admin = token(guarded, "admin")
    monkeypatch.setattr(checks, "READ_RULES", {})
    answer = get(guarded, "/topics", admin)
    assert (answer.status_code, "no rule" in answer.json()["error"]) == (403, True)
