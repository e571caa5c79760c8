"""A log-in by OpenID Connect, at a small provider on loopback: who comes in, and with which roles."""

import asyncio
import base64
import contextlib
import hashlib
import http.server
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import rsa

from barnabas.cli.main import cli
from barnabas.console.access import gate, oidc
from barnabas.console.access import login as logins
from barnabas.console.access import passwords as password_files
from barnabas.console.access.login import OIDC_LIFETIME_MS, Login
from barnabas.console.access.oidc import OidcSettings, OpenIdProvider, parsed
from barnabas.console.access.passwords import PasswordFile, set_password
from barnabas.console.access.roles import RoleFile
from barnabas.console.access.sessions import Origin, Sessions
from barnabas.operations import clock
from barnabas.operations.clock import now_ms

ROLES = """
default = []

[users]
"oidc:eve" = ["reads"]

[[roles.kafka-admins]]
resources = ["*"]
may = ["change"]

[[roles.reads]]
resources = ["topic"]
"""
AT = "https://console.example:8989"


class Provider:
    """As much of a provider as a log-in needs; `tamper` changes a token before it is signed."""

    def __init__(self, key):
        self.key = self.signing_key = key
        self.kid = "one"
        self.algorithm = "RS256"
        self.claims = {"sub": "1", "preferred_username": "alice", "groups": ["kafka-admins", "others"]}
        self.tamper = lambda claims: None
        self.codes = {}
        self.asked = []
        self.issuer = ""

    def answer(self, path, query, form, headers):
        self.asked.append(path)
        match path:
            case "/realm/.well-known/openid-configuration":
                names = {"authorization_endpoint": "auth", "token_endpoint": "token", "jwks_uri": "keys"}
                found = {name: f"{self.issuer}/{end}" for name, end in names.items()}
                return 200, {"issuer": self.issuer, **found}
            case "/realm/keys":
                described = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
                return 200, {"keys": [{**described, "kid": self.kid, "use": "sig"}]}
            case "/realm/auth":
                code = f"code-{len(self.codes)}"
                self.codes[code] = query
                back = httpx.URL(query["redirect_uri"], params={"code": code, "state": query["state"]})
                return 302, str(back)
            case "/realm/token":
                return self.token(form, headers)
        return 404, {}

    def token(self, form, headers):
        asked = self.codes.pop(form.get("code"), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        is_right = (
            asked is not None
            and asked["code_challenge"] == challenge.rstrip(b"=").decode()
            and headers["Authorization"] == "Basic " + base64.b64encode(b"console:s3cret").decode()
            and form["redirect_uri"] == asked["redirect_uri"]
        )
        if not is_right:
            return 400, {"error": "invalid_grant"}
        now = now_ms() // 1000
        claims = {"iss": self.issuer, "aud": "console", "iat": now, "exp": now + 60, "nonce": asked["nonce"]}
        claims |= self.claims
        self.tamper(claims)
        key = (
            "x" * 64 if self.algorithm == "HS256" else None if self.algorithm == "none" else self.signing_key
        )
        return 200, {"id_token": jwt.encode(claims, key, self.algorithm, headers={"kid": self.kid})}


@contextlib.contextmanager
def serving(provider):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.reply({})

        def do_POST(self):
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.reply({name: values[0] for name, values in parse_qs(text).items()})

        def reply(self, form):
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            status, body = provider.answer(parts.path, query, form, self.headers)
            self.send_response(status)
            if isinstance(body, str):
                self.send_header("Location", body)
            self.end_headers()
            if isinstance(body, dict):
                self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        provider.issuer = f"http://127.0.0.1:{server.server_port}/realm"
        yield provider
        server.shutdown()


@pytest.fixture(scope="module")
def key():
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def other_key():
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture
def provider(key):
    with serving(Provider(key)) as running:
        yield running


@pytest.fixture
def site(provider, cluster, open_console, tmp_path):
    (tmp_path / "roles.toml").write_text(ROLES)
    (tmp_path / "users").write_text("")
    settings = OidcSettings(
        provider.issuer, "console", f"{AT}/login/oidc/callback", "s3cret", roles_claim="groups"
    )
    login = Login(
        PasswordFile(tmp_path / "users"), RoleFile(tmp_path / "roles.toml"), OpenIdProvider(settings)
    )
    return open_console(cluster.bootstrap_servers, allow_changes=True, login=login)


class Browser:
    """Goes where it is sent, with its cookies."""

    def __init__(self, site):
        self.site = site
        self.cookies = {}

    def get(self, path):
        sent = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self.site.request("GET", path, headers={"cookie": sent} if sent else {})
        for line in answer.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(line).items():
                self.cookies[name] = morsel.value
        return answer

    def begin(self, path="/c/demo/topics"):
        """The provider's page, and what it sends the browser back to."""
        begun = self.get(f"/login/oidc?next={path}")
        assert begun.status_code == 303, begun.text
        back = httpx.get(begun.headers["location"]).headers["location"]
        assert back.startswith(f"{AT}/login/oidc/callback?")
        return back.removeprefix(AT)

    def log_in(self):
        return self.get(self.begin())


def user_of(answer):
    return answer.text.partition('action="/logout">')[2].partition('">')[2].partition(" <")[0]


def test_the_provider_says_who_it_is_and_what_they_may_do(site, provider):
    browser = Browser(site)
    assert "/login/oidc?next=/c/demo/topics" in browser.get("/login?next=/c/demo/topics").text
    done = browser.log_in()
    assert (done.status_code, done.headers["location"]) == (303, "/c/demo/topics")
    page = browser.get("/c/demo/topics")
    assert (page.status_code, user_of(page)) == (200, "oidc:alice")
    assert browser.get("/c/demo/health").status_code == 200  # every resource, by a role of the claim
    assert "/actions/create-topic" in page.text


@pytest.mark.parametrize(
    ("claims", "seen"),
    [
        ({"groups": ["others"]}, []),
        ({"groups": "others kafka-admins"}, ["topics", "health"]),
        ({"groups": {"deep": 1}}, []),
        ({"groups": [5, None]}, []),
        ({"groups": [], "preferred_username": "eve"}, ["topics"]),  # the file names her
    ],
)
def test_roles_are_those_of_the_claim_and_of_the_file(site, provider, claims, seen):
    provider.claims |= claims
    browser = Browser(site)
    assert browser.log_in().status_code == 303
    found = [one for one in ("topics", "health") if browser.get(f"/c/demo/{one}").status_code == 200]
    assert found == seen


def _drop(name):
    return lambda claims: claims.pop(name)


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda claims: claims.update(nonce="other"), "another log-in"),
        (_drop("nonce"), "another log-in"),
        (lambda claims: claims.update(aud="somebody"), "not valid"),
        (lambda claims: claims.update(iss="https://evil.example"), "not valid"),
        (lambda claims: claims.update(exp=claims["iat"] - 3600), "not valid"),
        (_drop("exp"), "not valid"),
        (lambda claims: claims.update(aud=["console", "other"]), "somebody else"),
        (lambda claims: claims.update(azp="other"), "somebody else"),
        (_drop("preferred_username"), "preferred_username"),
        (lambda claims: claims.update(preferred_username="a\nb"), "preferred_username"),
        (lambda claims: claims.update(preferred_username=7), "preferred_username"),
        (lambda claims: claims.update(preferred_username="alice "), "preferred_username"),
        (_drop("sub"), "not valid"),
    ],
)
def test_a_token_that_is_not_what_was_asked_for_lets_nobody_in(site, provider, tamper, said):
    provider.tamper = tamper
    browser = Browser(site)
    answer = browser.log_in()
    assert (answer.status_code, said in answer.text) == (401, True), answer.text
    assert browser.get("/c/demo/topics").status_code == 303


@pytest.mark.parametrize("how", ["other key", "HS256", "none", "new key"])
def test_a_signature_is_the_providers(site, provider, other_key, how):
    browser = Browser(site)
    assert browser.log_in().status_code == 303
    if how in {"HS256", "none"}:
        provider.algorithm = how
    else:
        provider.signing_key = other_key
    if how == "new key":
        provider.key, provider.kid = other_key, "two"
        # The keys were read a moment ago; they are read again for one that is not among them.
        at_ms, kept = site.console.login.provider._keys
        site.console.login.provider._keys = at_ms - oidc._AGAIN_MS, kept
    assert Browser(site).log_in().status_code == (303 if how == "new key" else 401)


def test_a_log_in_ends_in_the_browser_that_began_it_and_once(site):
    mine, other = Browser(site), Browser(site)
    back = mine.begin()
    assert other.get(back).status_code == 401
    assert "begun in this browser" in other.get(back).text
    cookies = dict(mine.cookies)
    assert mine.get(back).status_code == 303
    mine.cookies = cookies
    assert (again := mine.get(back)).status_code == 401
    assert "is over" in again.text


def test_whoever_was_never_at_the_provider_writes_few_lines(site, monkeypatch, caplog):
    monkeypatch.setattr(logins, "_LINES_MAX", 3)
    stranger = Browser(site)
    for number in range(10):
        assert stranger.get(f"/login/oidc/callback?state={number}&code=x").status_code == 401
    assert caplog.text.count("console.login_refused") == 3


@pytest.mark.parametrize(
    "query",
    ["error=access_denied", "error=%3Cscript%3E", "code=wrong", "code=x&iss=https://evil.example", ""],
)
def test_what_the_provider_refuses_is_said_and_lets_nobody_in(site, query):
    browser = Browser(site)
    state = parse_qs(urlsplit(browser.begin()).query)["state"][0]
    answer = browser.get(f"/login/oidc/callback?state={state}&{query}")
    assert (answer.status_code, "<script>" in answer.text.partition("<main")[2]) == (401, False)
    assert "s3cret" not in answer.text
    # Nobody is logged in on this page, and what the provider sent stands nowhere on it.
    assert ("Log out" in answer.text, state in answer.text) == (False, False)


def test_an_answer_that_another_provider_says_is_its_own_is_refused(site):
    """RFC 9207: the code is right, and was sent here for somebody else to learn it."""
    browser = Browser(site)
    answer = browser.get(browser.begin() + "&iss=https://evil.example")
    assert (answer.status_code, "another provider" in answer.text) == (401, True)


def test_a_provider_that_is_away_or_another_one_is_said(site, provider):
    provider.issuer += "/"
    answer = Browser(site).get("/login/oidc")
    assert (answer.status_code, "not the issuer" in answer.text) == (502, True)
    provider.answer = lambda *_: (500, {})
    assert Browser(site).get("/login/oidc").status_code == 502


def test_a_target_elsewhere_is_none(site):
    browser = Browser(site)
    assert browser.get(browser.begin("//evil.example")).headers["location"] == "/"


def test_the_session_of_a_provider_is_short_and_its_newest_roles_count():
    sessions, origin = Sessions(), Origin("a", "b")
    first = sessions.begin("oidc:a", origin, "", 0, ("one",), OIDC_LIFETIME_MS)
    sessions.begin("oidc:a", origin, "", 1, ("two",), OIDC_LIFETIME_MS)
    assert (sessions.roles_of("oidc:a"), sessions.roles_of("oidc:b")) == (("two",), ())
    assert sessions.find(first, origin, OIDC_LIFETIME_MS - 1) is not None
    assert sessions.find(first, origin, OIDC_LIFETIME_MS) is None


def test_a_log_out_brings_no_role_back_that_the_provider_took_away():
    sessions, origin = Sessions(), Origin("a", "b")
    first = sessions.begin("oidc:a", origin, "", 0, ("admin",), OIDC_LIFETIME_MS)
    second = sessions.begin("oidc:a", origin, "", 1, (), OIDC_LIFETIME_MS)
    sessions.end(second)
    assert sessions.find(first, origin, 2) is not None
    assert sessions.roles_of("oidc:a") == ()


def test_a_provider_that_hangs_keeps_no_password_waiting(tmp_path, monkeypatch):
    """Passwords are looked at on the threads of asyncio, of which a small machine has five."""
    monkeypatch.setattr(password_files, "_N", 1 << 4)
    set_password(tmp_path / "users", "alice", "alice's")
    answers = threading.Event()

    class Hanging:
        def begin(self, _target, _address):
            answers.wait(20)

    async def run():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        login = Login(PasswordFile(tmp_path / "users"), provider=Hanging())
        asking = [asyncio.create_task(login.begin_at_provider("/", str(place))) for place in range(8)]
        await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(login.log_in("alice", "alice's", Origin("a", "b"), now_ms()), 10)
        finally:
            answers.set()
            await asyncio.gather(*asking)

    assert asyncio.run(run())


def test_whoever_begins_many_log_ins_pushes_out_their_own(provider):
    asks = OpenIdProvider(OidcSettings(provider.issuer, "console", f"{AT}/login/oidc/callback", "s3cret"))
    mine = asks.begin("/mine", "10.0.0.1")
    flood = [asks.begin("/", "10.0.0.2") for _ in range(1_200)]
    spread = [asks.begin("/", f"10.1.{place}.1") for place in range(200) for _ in range(10)]

    def is_kept(begun):
        with pytest.raises(oidc.OidcRefusedError) as refused:
            asks.end({"state": begun.state}, begun.state)
        return "is over" not in str(refused.value)

    assert is_kept(mine)
    assert [is_kept(flood[0]), is_kept(spread[-1])] == [False, True]


def test_one_address_does_not_take_all_places_at_the_provider():
    answers = threading.Event()

    class Hanging:
        def begin(self, _target, address):
            return address if address == "other" else answers.wait(20)

    async def run():
        login = Login(provider=Hanging())
        flood = [asyncio.create_task(login.begin_at_provider("/", "one")) for _ in range(30)]
        await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(login.begin_at_provider("/", "other"), 10)
        finally:
            answers.set()
            await asyncio.gather(*flood, return_exceptions=True)

    assert asyncio.run(run()) == "other"


def test_a_clock_that_is_set_ends_no_log_in_and_prolongs_none(site, monkeypatch):
    browser = Browser(site)
    back = browser.begin()
    wall = time.time_ns
    monkeypatch.setattr(clock.time, "time_ns", lambda: wall() + 24 * 3_600_000 * 10**6)
    assert "is over" not in browser.get(back.replace("code=", "other=")).text
    monkeypatch.setattr(clock.time, "time_ns", wall)
    assert browser.log_in().status_code == 303
    monkeypatch.setattr(clock.time, "time_ns", lambda: wall() + 24 * 3_600_000 * 10**6)
    assert browser.get("/c/demo/topics").status_code == 200
    monkeypatch.setattr(clock.time, "time_ns", lambda: wall() - 24 * 3_600_000 * 10**6)
    monkeypatch.setattr(gate, "monotonic_ms", lambda: clock.monotonic_ms() + OIDC_LIFETIME_MS)
    assert browser.get("/c/demo/topics").status_code == 303


def test_keys_that_cannot_be_read_again_count_for_a_while(site, provider, monkeypatch):
    assert Browser(site).log_in().status_code == 303
    answer = provider.answer
    provider.answer = lambda path, *more: (503, {}) if path == "/realm/keys" else answer(path, *more)

    def later(passed_ms):
        monkeypatch.setattr(oidc, "monotonic_ms", lambda: clock.monotonic_ms() + passed_ms)
        provider.asked.clear()
        return Browser(site).log_in()

    assert later(oidc._KEPT_MS + 1).status_code == 303
    asked = []
    provider.answer = lambda path, *more: (
        (asked.append(path), (503, {}))[1] if path == "/realm/keys" else answer(path, *more)
    )
    assert later(oidc._KEPT_MS + 2).status_code == 303
    assert asked == []  # it failed a moment ago
    gone = later(oidc._KEYS_MAX_MS + 1)
    assert (gone.status_code, "keys cannot be read" in gone.text, len(asked)) == (401, True, 1)
    provider.answer = answer
    assert later(oidc._KEYS_MAX_MS + 2).status_code == 303


@pytest.mark.parametrize(
    ("path", "claims"),
    [
        ("https://example.com/roles", {"https://example.com/roles": ["a"]}),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}),
        ("resource_access.my.client.roles", {"resource_access": {"my.client": {"roles": ["a"]}}}),
        ("a.b", {"a.b": ["a"], "a": {"b": ["other"]}}),
    ],
)
def test_names_of_claims_may_have_dots(path, claims):
    assert oidc._roles(claims, path) == ("a",)
    assert oidc._roles({}, path) == oidc._roles({"a": 1}, path) == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"issuer": "http://id.example"}, "issuer is a URL with https"),
        ({"issuer": "https://u:p@id.example"}, "issuer is a URL"),
        ({"redirect": "https://console.example/"}, "login/oidc/callback"),
        ({"client_id": ""}, "is a text"),
        ({"scopes": "profile"}, "openid"),
        ({"nothing": "x"}, "'nothing'"),
        ({"client_secret_file": "not-there"}, "client_secret_file cannot be read"),
        ({"client_secret_file": "empty"}, "client_secret_file is empty"),
        ({"ca_file": "empty"}, "ca_file is empty"),
        ({"ca_file": "blank"}, "ca_file is empty"),
        ({"ca_file": "secret"}, "ca_file has no certificate in PEM"),
        ({"client_secret_file": "secret", "client_secret": "s3cret"}, "leave one of them out"),
    ],
)
def test_settings_that_cannot_be_are_said(tmp_path, changed, said):
    right = {"issuer": "https://id.example/", "client_id": "c", "redirect": f"{AT}/login/oidc/callback"}
    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "empty").touch()
    (tmp_path / "blank").write_text("\n")

    def toml(table):
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())

    found = parsed(toml({**right, "client_secret_file": "secret"}), tmp_path)
    assert (found.issuer, found.client_secret, "s3cret" in repr(found)) == (
        "https://id.example/",
        "s3cret",
        False,
    )
    with pytest.raises(ValueError, match=said):
        parsed(toml({**right, **changed}), tmp_path)


def test_a_file_that_is_none_ends_the_start_in_a_line(tmp_path):
    (tmp_path / "oidc.toml").write_text('issuer = "https://id.example"\nclient_secret = "s3cret"\n')
    given = ["console", "--bootstrap-server", "127.0.0.1:1", "--oidc", str(tmp_path / "oidc.toml")]
    ended = CliRunner().invoke(cli, given)
    assert (ended.exit_code, "client_id is missing" in ended.output, "s3cret" in ended.output) == (
        1,
        True,
        False,
    )
    roles = CliRunner().invoke(cli, [*given[:3], "--roles", str(tmp_path / "oidc.toml")])
    assert (roles.exit_code, "--passwords or --oidc" in roles.output) == (2, True)
