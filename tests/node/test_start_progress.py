"""`StartProgress`: whether a start gets on, by work and by words."""

from barnabas.node import start_progress
from barnabas.node.start_progress import ACCEPTING, GOT_ON, StartProgress


def test_work_counts_until_connections_are_accepted_and_words_from_then_on(monkeypatch):
    worked = [0.0]
    monkeypatch.setattr(start_progress, "processor_s", lambda session: worked[0] if session == 7 else None)
    progress = StartProgress()
    for work, word, got_on in (
        (0.5, "", False),
        (1.6, "", True),
        (2.0, "", False),
        (3.1, ACCEPTING, True),  # as far as that it has come
        (90.0, "", False),  # clients make it work
        (90.0, GOT_ON, True),
        (90.0, "ready", False),
        (190.0, ACCEPTING, False),
    ):
        worked[0] = work
        progress.take(word)
        assert progress.got_on(7) is got_on, (work, word)
