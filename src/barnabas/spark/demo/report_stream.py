"""The part of the report on how the streams ran: event time, lag, speed, batches, and the crash."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from barnabas.spark.demo.findings import Findings, span
from barnabas.spark.demo.replay import DAY_MS, WATERMARK_MS
from barnabas.spark.demo.streams import MicroBatch
from barnabas.spark.pages import charts
from barnabas.spark.pages.charts import Band, Series, Tick

POINTS_MIN: Final = 3
"""A line of fewer points says nothing."""
_COLOURS: Final = {"delays": "c1", "alerts": "c3"}


def section(findings: Findings, covered: str) -> str:
    """The words and the charts."""
    filled = [batch for batch in findings.batches["delays"] if batch.rows]
    return (
        f"<p>The stream of delays read the {covered} in {len(filled)} micro-batches. "
        f"{_apart(findings.skew_ms)}a watermark of "
        f"{WATERMARK_MS / DAY_MS:.0f} days dropped nothing; a closing record in each partition let the last "
        "windows out.</p>"
        f"<p>{_crash_words(findings)}</p>"
        + "".join(
            f"<h3>{title}</h3>{chart}"
            for title, chart in (
                ("Event time: the newest flight read, and the watermark behind it", _event_time(findings)),
                ("Lag: records sent and not yet read, when a batch was committed", _lag(findings)),
                ("Rows a second, by batch", _by_batch(findings, _rows_a_second, "rows a second")),
                ("Batch times in seconds", _by_batch(findings, lambda batch: batch.duration_ms / 1000, "s")),
            )
            if chart
        )
    )


def _crash_words(findings: Findings) -> str:
    crash = findings.crash
    how = (
        "between two batches"
        if crash.unfinished is None
        else f"in the middle of batch {crash.unfinished}, which was planned and not committed"
    )
    when = (
        "while the replay went on" if crash.stopped < findings.history[-1][0] else "when the replay was over"
    )
    return (
        f"<b>One stream was ended on purpose</b>, {how}, {when}. It started again from its checkpoint, and "
        f"{crash.seconds:.1f} s later a batch was committed. The table has each window once, and each is "
        "the one that pandas finds: no row was lost and none counted twice."
    )


def _apart(skew_ms: int) -> str:
    """How far the partitions were apart, where the reader was ever between two of them."""
    if not skew_ms:
        return "Each batch ended at the same event time in all partitions, and "
    return f"Partitions were at most {span(skew_ms)} of event time apart, so "


def _event_time(findings: Findings) -> str:
    first, last = (findings.data.flights["event_time"].iloc[at].to_pydatetime() for at in (0, -1))
    newest, marks = [], []
    for batch in findings.batches["delays"]:
        at = _at(findings, batch.ended)
        # The closing records lie behind the last flight: they are no flights.
        if batch.newest is not None and batch.newest <= last:
            newest.append((at, _days(first, batch.newest)))
        if batch.watermark is not None and batch.watermark >= first:
            marks.append((at, _days(first, min(batch.watermark, last))))
    if len(newest) < POINTS_MIN:
        return ""
    series = [
        Series(name, colour, points)
        for name, colour, points in (("newest flight read", "c1", newest), ("watermark", "c5", marks))
        if points
    ]
    return charts.lines(
        series,
        height=250,
        y_ticks=_dates(first, last),
        seconds=_seconds(findings),
        bands=_bands(findings),
        hint=lambda name, x, y: f"{name} after {x:.1f} s: {first + timedelta(days=y):%d %B}",
    )


def _dates(first: datetime, last: datetime) -> list[Tick]:
    """Five dates from the first flight to the last."""
    days = _days(first, last)
    moments = [(days * part / 4, first + timedelta(days=days * part / 4)) for part in range(5)]
    return [Tick(at, f"{moment.day} {moment:%b}") for at, moment in moments]


def _lag(findings: Findings) -> str:
    if not any(behind for points in findings.lag.values() for _, behind in points):
        return ""
    series = [
        Series(
            name,
            _COLOURS[name],
            [
                (_at(findings, moment), float(behind))
                for moment, behind in points
                if moment >= findings.history[0][0]
            ],
        )
        for name, points in findings.lag.items()
    ]
    return _lines(findings, series, lambda name, x, y: f"{name} after {x:.1f} s: {y:,.0f} records behind")


def _rows_a_second(batch: MicroBatch) -> float:
    return batch.rows / max(batch.duration_ms, 1) * 1000


def _by_batch(findings: Findings, measure: Callable[[MicroBatch], float], unit: str) -> str:
    """A line a stream, a point a batch that had records."""
    series = [
        Series(
            name,
            _COLOURS[name],
            [(_at(findings, batch.ended), measure(batch)) for batch in batches if batch.rows],
        )
        for name, batches in findings.batches.items()
    ]
    return _lines(findings, series, lambda name, x, y: f"{name} after {x:.1f} s: {y:,.1f} {unit}")


def _lines(findings: Findings, series: list[Series], hint: Callable[[str, float, float], str]) -> str:
    if max((len(one.points) for one in series), default=0) < POINTS_MIN:
        return ""
    return charts.lines(series, height=210, hint=hint, seconds=_seconds(findings), bands=_bands(findings))


def _seconds(findings: Findings) -> float:
    """From the first flight sent to the last batch: one time line for all charts."""
    return (
        max(_at(findings, batch.ended) for batches in findings.batches.values() for batch in batches) * 1.02
    )


def _bands(findings: Findings) -> list[Band]:
    crash = findings.crash
    return [
        Band(_at(findings, crash.stopped), _at(findings, crash.restarted), "stream delays ended and back")
    ]


def _at(findings: Findings, moment: datetime) -> float:
    """Seconds since the first flight was sent."""
    return (moment - findings.history[0][0]).total_seconds()


def _days(first: datetime, moment: datetime) -> float:
    return max(0.0, (moment - first).total_seconds() / 86_400)
