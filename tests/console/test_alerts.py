"""Alerts: a rule fires the same live and in rehearsal, once, across restarts, and tells who wants to know."""

import email
import email.policy
import http.server
import json
import queue
import socketserver
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from barnabas.console.alerts.book import AlertBook, Silence
from barnabas.console.alerts.notices import Addresses, Notifier
from barnabas.console.alerts.rules import AlertRule, rehearse
from barnabas.console.history import history as histories
from barnabas.console.web import alert_routes
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError
from waiting import until

MINUTE = 60_000
SERIES = "group.lag/billing"
RULE = AlertRule("late", SERIES, 10, for_s=120)


class Recorder(Notifier):
    """Remembers what it was told."""

    def __init__(self):
        super().__init__(Addresses())
        self.told = []

    def send(self, cluster, incident):
        self.told.append((incident.id, incident.ended_ms is None))


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def book(tmp_path, recorder):
    return AlertBook(tmp_path, "demo", recorder)


def live(book, values, series=SERIES):
    return [
        one
        for minute, value in enumerate(values)
        for one in book.judge(minute * MINUTE, {} if value is None else {series: float(value)})
    ]


@pytest.mark.parametrize(
    ("values", "fired"),
    [
        ([11, 11], []),  # not long enough
        ([11, 11, 11], [2]),
        ([10, 10, 10, 10], []),  # the limit itself is not beyond it
        ([11, 11, 5, 11, 11], []),  # the time begins again
        ([11, None, 11], [2]),  # what is not known ends nothing
        ([11, 11, 11, 50, 3, 11, 11, 11], [2, 7]),
        ([11, 11, 11, None, None, 11], [2]),
    ],
)
def test_a_rule_fires_live_as_it_does_in_rehearsal(book, values, fired):
    book.put(RULE)
    began = [one.fired_ms // MINUTE for one in live(book, values) if one.ended_ms is None or one.fired_ms]
    points = [(minute * MINUTE, float(value)) for minute, value in enumerate(values) if value is not None]

    assert [one.fired_ms // MINUTE for one in rehearse(RULE, "demo", SERIES, points)] == fired
    assert sorted(set(began)) == fired


def test_an_incident_has_the_numbers_that_it_came_from(book, recorder):
    book.put(RULE)
    live(book, [11, 20, 12, 90, 13, 4])

    (one,) = book.past()
    assert (one.begun_ms, one.fired_ms, one.ended_ms) == (0, 2 * MINUTE, 5 * MINUTE)
    assert (one.value, one.worst, one.limit) == (12, 90, 10)
    assert recorder.told == [(one.id, True), (one.id, False)]
    assert book.firing() == []


def test_below_and_a_prefix(book):
    book.put(AlertRule("idle", "broker.network_idle/*", 0.3, "below", 0))
    found = book.judge(0, {"broker.network_idle/1": 0.1, "broker.network_idle/2": 0.9, "broker.leaders/1": 0})
    assert [(one.series, one.worst) for one in found] == [("broker.network_idle/1", 0.1)]


def test_a_restart_goes_on_with_an_incident_and_tells_nobody_twice(book, tmp_path, recorder):
    book.put(RULE)
    (began,) = live(book, [11, 11, 11])

    again = AlertBook(tmp_path, "demo", recorder)
    assert [one.id for one in again.firing()] == [began.id]
    assert again.judge(3 * MINUTE, {SERIES: 12.0}) == []
    (ended,) = again.judge(4 * MINUTE, {SERIES: 1.0})
    assert (ended.id, ended.ended_ms) == (began.id, 4 * MINUTE)
    assert recorder.told == [(began.id, True), (began.id, False)]
    assert AlertBook(tmp_path, "demo", recorder).firing() == []


def test_a_silence_keeps_incidents_and_tells_nobody(book, recorder):
    book.put(RULE)
    book.silence(Silence("late", 4 * MINUTE, "operator", "we know"))
    live(book, [11, 11, 11, 1, 11, 11, 11])

    assert len(book.past()) == 2
    assert [began for _, began in recorder.told] == [True]
    with pytest.raises(OperationError, match="no rule"):
        book.silence(Silence("other", 1, "x", ""))


@pytest.mark.parametrize(
    "wrong",
    [
        {"series": "nothing/x"},
        {"series": "group.lag"},
        {"name": " "},
        {"name": "a\nb"},
        {"limit": float("nan")},
        {"for_s": -1},
    ],
)
def test_a_rule_that_can_watch_nothing_is_refused(book, wrong):
    with pytest.raises(OperationError):
        book.put(AlertRule(**({"name": "a", "series": SERIES, "limit": 1.0} | wrong)))
    assert book.rules == {}


@pytest.mark.parametrize(
    "damaged", ['{"rules": [{"name"', "[]", '{"rules": [{"name": 5, "series": 1, "limit": 2}]}', "\x00"]
)
def test_a_damaged_file_of_rules_is_said_and_kept(tmp_path, recorder, damaged):
    (tmp_path / "alerts.json").write_text(damaged)
    book = AlertBook(tmp_path, "demo", recorder)
    assert book.rules == {}
    book.put(RULE)
    live(book, [11, 11, 11])
    (aside,) = tmp_path.glob("alerts.json.unreadable-*")
    assert aside.read_text() == damaged
    # What was lost stays said, also when what came after was written.
    assert ("alerts.json cannot be read" in book.problem, aside.name in book.problem) == (True, True)
    again = AlertBook(tmp_path, "demo", recorder)
    assert (list(again.rules), len(again.firing()), again.problem) == (["late"], 1, None)


@pytest.mark.parametrize(
    ("part", "field", "value", "said"),
    [
        ("rules", "for_s", "long", "rules.0.for_s"),
        ("rules", "limit", None, "rules.0.limit"),
        ("rules", "when", "aside", "rules.0.when"),
        ("rules", "extra", 1, "rules.0.extra"),
        ("silences", "until_ms", "soon", "silences.0.until_ms"),
        ("silences", "until_ms", 10**30, "silences.0.until_ms"),
        ("silences", "why", ["x"], "silences.0.why"),
        ("open", "fired_ms", "soon", "open.0.fired_ms"),
        ("open", "worst", "much", "open.0.worst"),
        ("open", "ended_ms", -1, "open.0.ended_ms"),
    ],
)
def test_each_field_of_the_file_is_looked_at_and_named(book, tmp_path, recorder, part, field, value, said):
    book.put(RULE)
    book.silence(Silence("late", 4 * MINUTE, "operator", "we know"))
    live(book, [11, 11, 11])
    kept = json.loads((tmp_path / "alerts.json").read_text())
    kept[part][0][field] = value
    (tmp_path / "alerts.json").write_text(json.dumps(kept))
    again = AlertBook(tmp_path, "demo", recorder)
    assert (again.rules, said in again.problem, "\n" in again.problem) == ({}, True, False)
    again.judge(3 * MINUTE, {SERIES: 12.0})


def test_a_line_of_incidents_that_is_none_is_passed_over(book, tmp_path):
    book.put(RULE)
    live(book, [11, 11, 11])
    (line,) = (tmp_path / "incidents.jsonl").read_text().splitlines()
    damaged = json.dumps({**json.loads(line), "id": "other", "fired_ms": "soon"})
    (tmp_path / "incidents.jsonl").write_text(f"{line}\n{damaged}\n[]\n")
    assert [one.rule for one in book.past()] == ["late"]


def test_an_incident_does_not_outlive_a_rule_that_is_gone(book, tmp_path, recorder):
    """The console was killed between the two."""
    book.put(RULE)
    live(book, [11, 11, 11])
    kept = json.loads((tmp_path / "alerts.json").read_text())
    (tmp_path / "alerts.json").write_text(json.dumps({**kept, "rules": [], "silences": []}))
    again = AlertBook(tmp_path, "demo", recorder)
    assert (again.firing(), again.problem) == ([], None)
    assert all(one.ended_ms for one in again.past())
    assert [began for _, began in recorder.told] == [True, False]


def test_nobody_is_told_of_the_end_of_a_silent_rule_that_is_removed(book, recorder):
    book.put(RULE)
    book.silence(Silence("late", now_ms() + MINUTE, "operator", "we know"))
    live(book, [11, 11, 11])
    book.remove("late")
    assert (recorder.told, [one.ended_ms is None for one in book.past()]) == ([], [False])


def test_what_was_before_is_what_the_other_operator_left(site):
    """Of two who change a rule at once, the audit log of the later one names the earlier one's."""

    def put(limit):
        rule = {"name": "a", "series": "group.lag/*", "limit": limit, "when": "above", "for_s": 0}
        return site.request("POST", "/api/v1/clusters/demo/alerts/rules", json=rule).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(put, range(1, 25))) == {200}
    done = [one["effects"][0] for one in site.get("/audit")[::-1] if one["outcome"] == "done"]
    assert [one["before"] for one in done] == ["none", *(one["after"] for one in done[:-1])]


def test_a_file_of_rules_that_cannot_be_opened_is_not_written_over(tmp_path, recorder):
    (tmp_path / "alerts.json").mkdir()
    book = AlertBook(tmp_path, "demo", recorder)
    with pytest.raises(OperationError, match="nothing is changed"):
        book.put(RULE)
    assert (book.rules, [one.name for one in tmp_path.iterdir()]) == ({}, ["alerts.json"])


def test_an_incident_is_over_when_its_rule_is_removed_or_put_again(book, tmp_path, recorder):
    book.put(RULE)
    live(book, [11, 11, 11])
    book.put(RULE)
    assert book.firing() == []
    live(book, [11, 11, 11])
    book.remove("late")
    assert book.firing() == AlertBook(tmp_path, "demo", recorder).firing() == []
    assert all(one.ended_ms for one in book.past())
    assert len(book.past()) == 1  # of one rule, one series and one beginning
    assert [began for _, began in recorder.told] == [True, False, True, False]


def test_a_notice_says_how_it_was_when_it_was_sent_and_what_did_not_arrive_stays_said():
    got = queue.Queue()

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.put(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["state"])
            self.wfile.write(b"no HTTP at all\r\n\r\n")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        secret = f"http://127.0.0.1:{server.server_port}/?token=s3cret"
        notifier = Notifier(Addresses(webhook=secret), retry_s=0)
        (incident,) = rehearse(AlertRule("r", SERIES, 1, for_s=0), "demo", SERIES, [(5, 2.0)])
        notifier.send("demo", incident)
        incident.ended_ms = 9  # it is over before the beginning was delivered
        notifier.send("demo", incident)
        states = [got.get(timeout=30) for _ in range(6)]
        server.shutdown()
    assert states == ["firing"] * 3 + ["resolved"] * 3
    until(lambda: notifier.problem is not None, "the problem is said")
    assert ("not delivered" in notifier.problem, "s3cret" in notifier.problem) == (True, False)


def test_a_webhook_is_told_the_beginning_and_the_end():
    got, both = [], threading.Event()

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(503 if len(got) == 1 else 204)  # the first try fails
            self.end_headers()
            if len(got) == 3:
                both.set()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        notifier = Notifier(Addresses(webhook=f"http://127.0.0.1:{server.server_port}/x"), retry_s=0)
        (incident,) = rehearse(AlertRule("r", SERIES, 1, for_s=0), "demo", SERIES, [(5, 2.0)])
        notifier.send("demo", incident)
        notifier.send("demo", incident)
        assert both.wait(30)
        server.shutdown()
    assert [(one["cluster"], one["state"], one["rule"], one["value"]) for one in got] == [
        ("demo", "firing", "r", 2.0)
    ] * 3


class _MailServer(socketserver.StreamRequestHandler):
    """As much of SMTP as a mail takes; the first one is refused."""

    got = queue.Queue()
    refused = iter([b"451 busy", *[b"250 ok"] * 99])

    def handle(self):
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline().strip():
            match line[:4].upper():
                case b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    mail = b""
                    while not mail.endswith(b"\r\n.\r\n"):
                        mail += self.rfile.readline()
                    answer = next(self.refused)
                    if answer.startswith(b"250"):
                        self.got.put(mail.decode())
                    self.wfile.write(answer + b"\r\n")
                case b"QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                case _:
                    self.wfile.write(b"250 ok\r\n")


def test_mail_is_sent_of_the_beginning_and_of_the_end():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _MailServer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        notifier = Notifier(
            Addresses(smtp=host, mail_from="c@x.example", mail_to=("a@x.example", "b@x.example")), retry_s=0
        )
        (incident,) = rehearse(AlertRule("r\u00fc", SERIES, 1, for_s=0), "demo", SERIES, [(5, 2.0)])
        notifier.send("demo", incident)
        began = email.message_from_string(_MailServer.got.get(timeout=30), policy=email.policy.default)
        incident.ended_ms = 9
        notifier.send("demo", incident)
        over = email.message_from_string(_MailServer.got.get(timeout=30), policy=email.policy.default)
        server.shutdown()
    assert [one["Subject"] for one in (began, over)] == ["[demo] firing: r\u00fc", "[demo] resolved: r\u00fc"]
    assert (began["From"], began["To"]) == ("c@x.example", "a@x.example, b@x.example")
    assert {f"series: {SERIES}", "value: 2.0", "limit: 1"} <= set(began.get_content().splitlines())


def test_rules_are_kept_rehearsed_silenced_and_shown(site):
    def post(path, **body):
        return site.request("POST", f"/api/v1/clusters/demo/alerts/{path}", json=body)

    rule = {"name": "behind <b>", "series": "group.lag/*", "limit": 5.0, "when": "above", "for_s": 0}
    tried = post("rehearsal", **rule).json()
    assert (tried["fired"], [one["series"] for one in tried["incidents"]]) == (1, ["group.lag/behind"])
    assert site.get("/alerts")["rules"] == []

    assert post("rules", **rule).json() == rule
    assert post("silences", rule="behind <b>", for_s=60, why="test").json()["until_ms"] > now_ms()
    assert site.get("/alerts")["rules"] == [rule]
    page = site.page("/alerts", series="group.lag/*", limit="5", for_s="0")
    assert "would have fired 1 time<" in page
    assert "behind &lt;b&gt;" in page
    assert "behind <b>" not in page
    assert post("rules", **{**rule, "series": "x"}).status_code == 409
    assert post("rules/remove", name="behind <b>").status_code == 200
    assert site.get("/alerts")["rules"] == []
    log = [(one["kind"], one["outcome"], one["effects"][0]["after"]) for one in site.get("/audit")[::-1]]
    said = "group.lag/* above 5 for 0 s"
    assert log[:2] == [("put-alert-rule", "begun", said), ("put-alert-rule", "done", said)]
    assert log[2][:2] == ("silence-alert-rule", "begun")
    assert log[4:] == [("remove-alert-rule", each, "none") for each in ("begun", "done")]
    form = site.request("POST", "/api/v1/clusters/demo/alerts/rules", data=rule)
    assert form.status_code in {409, 422}


def test_one_rule_is_rehearsed_at_a_time_and_once(site, monkeypatch):
    asked = {"series": "group.lag/*", "limit": "5", "for_s": "0"}
    runs, goes_on = threading.Event(), threading.Event()

    def slow(*given):
        runs.set()
        goes_on.wait(30)
        return rehearse(*given)

    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as operators:
        patched.setattr(alert_routes, "rehearse", slow)
        first = operators.submit(site.page, "/alerts", **asked)
        assert runs.wait(30)
        other = site.request("GET", "/api/v1/clusters/demo/alerts", params=asked)
        assert (other.status_code, "for somebody else" in other.text) == (503, True)
        assert site.get("/alerts")["rehearsal"] is None
        goes_on.set()
        page = first.result(30)
    # It is not read again by itself, as other pages are.
    assert ("data-refresh" in page, "data-refresh" in site.page("/alerts")) == (False, True)
    assert "would have fired 1 time<" in site.page("/alerts", **asked)


def test_a_rehearsal_has_few_series_in_memory_at_once(site, monkeypatch):
    asked = {"series": "check.number/*", "limit": -1, "for_s": 0}
    history, read = site.watched.history, []
    read_points = history.points_of

    def points_of(series, *times):
        read.append(len(series))
        return read_points(series, *times)

    whole = site.get("/alerts", **asked)["rehearsal"]
    assert whole["fired"] == len(whole["incidents"]) == whole["series"] > 2
    monkeypatch.setattr(history, "points_of", points_of)
    monkeypatch.setattr(histories, "_KEYS_AT_ONCE", 2)
    in_parts = site.get("/alerts", **asked)["rehearsal"]
    assert (max(read), sum(read)) == (2, whole["series"])
    assert [one["series"] for one in in_parts["incidents"]] == [one["series"] for one in whole["incidents"]]


def test_a_rule_is_rehearsed_kept_silenced_and_removed_from_the_page(cluster, open_console):
    site = open_console(cluster.bootstrap_servers)
    site.look()
    asked = {"series": "group.lag/*", "limit": "0.5", "for_s": "60"}
    assert "Keep this rule" not in site.page("/alerts")
    page = site.page("/alerts", **asked)
    assert "Keep this rule" in page
    token = page.partition('name="token" value="')[2].partition('"')[0]

    def send(path, **given):
        return site.request("POST", f"/c/demo/alerts/{path}", data={**given, "token": token})

    kept = send("rules", name="any lag", when="above", **asked)
    assert (kept.status_code, kept.headers["location"]) == (303, "/c/demo/alerts")
    assert site.get("/alerts")["rules"] == [
        {"name": "any lag", "series": "group.lag/*", "limit": 0.5, "when": "above", "for_s": 60}
    ]
    send("silences", rule="any lag", for_s=3600)
    assert [one["rule"] for one in site.get("/alerts")["silences"]] == ["any lag"]
    assert "End the silence" in site.page("/alerts")
    send("silences", rule="any lag", for_s=0)
    assert "Silence for an hour" in site.page("/alerts")
    for wrong in ({"name": ""}, {"name": "x", "limit": "much"}, {"name": "x", "series": "nothing"}):
        refused = send("rules", **{"when": "above", **asked, **wrong})
        assert (refused.status_code, "Not done" in refused.text) == (409, True), wrong
    forged = site.request("POST", "/c/demo/alerts/rules/remove", data={"name": "any lag", "token": "x"})
    assert forged.status_code == 403
    send("rules/remove", name="any lag")
    assert site.get("/alerts")["rules"] == []
    kinds = [one["kind"] for one in site.get("/audit") if one["outcome"] == "done"]
    assert kinds == ["remove-alert-rule", "silence-alert-rule", "silence-alert-rule", "put-alert-rule"]
