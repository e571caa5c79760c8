"""docs/console-first-alert.md does what it says."""

import json
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "console-first-alert.md"


def test_the_rule_of_the_page_is_rehearsed_kept_and_fires(site):
    text = PAGE.read_text(encoding="utf-8")
    rule = json.loads(re.search(r"RULE='(.*)'", text)[1]) | {"limit": 6}  # seven records here
    paths = re.findall(r"http://127\.0\.0\.1:8989(/[^\s`,]+)", text)
    below = [one.replace("/cluster/", "/demo/") for one in paths if one.startswith("/api/")]
    rehearsal, rules, alerts = below
    tried = site.request("POST", rehearsal, json=rule)
    assert tried.json()["fired"] == 1, tried.text
    assert site.request("POST", rules, json=rule).status_code == 200
    site.watched.history.every_ms = 0  # the next look is a sample
    site.look()
    firing = site.request("GET", alerts).json()["firing"]
    assert [(one["rule"], one["series"]) for one in firing] == [(rule["name"], "group.lag/behind")]
    now, over = site.page("/alerts").split("<h2>What has fired</h2>")
    assert ("group.lag/behind" in now, "group.lag/behind" in over) == (True, False)
    assert site.request("GET", "/metrics").status_code == 200
    assert "/metrics" in paths
