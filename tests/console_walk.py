"""Chromium through the console's pages: what a walk does with a page, an action, a form."""

import base64
import contextlib
import itertools
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from urllib.parse import urlencode

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from barnabas.console.access.certificate import TlsFiles
from barnabas.console.actions.kinds import KINDS
from barnabas.console.console import Console
from barnabas.console.server import Address, listen, server_of
from barnabas.console.web.routes import SHOWN

WAIT_S = 100
"""Chromium may have the machine with servers and JVMs."""
_REFUSED = {"Not done", "Not here", "Not shown"}
PICTURES = os.environ.get("BARNABAS_PICTURES", "")
"""A folder: the walk through the pages leaves pictures of each there, as `picture` takes them."""
PHONE, DESK = 390, 1280
"""The width of a screen in pixels."""


@contextlib.contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """The distribution's Chromium; a loud skip where it is not, and with CI=true a failure."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        line = "NO BROWSER: the console's pages were not walked; apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(line, pytrace=False)
        pytest.skip(line)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        f"--window-size={DESK},900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    found.set_page_load_timeout(WAIT_S)
    # A page reads itself again each 10 s, and what a test has found on it would be gone: here it does so when
    # a test asks.
    quiet = {"source": "window.setInterval = () => 0"}
    found.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", quiet)
    try:
        yield found
    finally:
        found.quit()


@contextlib.contextmanager
def served(
    console: Console, tls: TlsFiles | None = None, listener: socket.socket | None = None
) -> Iterator[str]:
    """The console on a port of this machine; its address."""
    listener = listener or listen(Address("127.0.0.1", 0))
    server = server_of(console, tls)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(WAIT_S)
        listener.close()


def faults(browser):
    """What the browser complained of: scripts, the policy, what could not be loaded."""
    return [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]


def inaccessible(browser, *rules):
    """What axe-core finds on the page that is serious or worse; of some rules where they are named."""
    axe = pytest.importorskip("axe_core_python", reason="NO CHECKER: pip install axe-core-python")
    script = resources.files(axe) / "axe.min.js"
    # Through the driver: the policy of the page lets no script in.
    browser.execute_script(script.read_text(encoding="utf-8"))
    options = {"runOnly": list(rules)} if rules else {"resultTypes": ["violations"]}
    found = browser.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "const failed = error => done([{id: `${error}`}]);"
        "axe.run(document, arguments[0]).then(found => done(found.violations), failed)",
        options,
    )
    return [
        (one["id"], node["target"], node["html"][:200])
        for one in found
        if one.get("impact") not in {"minor", "moderate"}
        for node in one.get("nodes", [{"target": "", "html": ""}])
    ]


@contextlib.contextmanager
def seen_on(browser: webdriver.Chrome, width: int, scheme: str = "light") -> Iterator[None]:
    """A screen of this width, whose owner likes it light or dark."""
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE}
    taste = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": taste})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def is_too_wide(browser: webdriver.Chrome) -> bool:
    """Whether the page itself scrolls sideways, and not only a table on it."""
    script = "return document.documentElement.scrollWidth > window.innerWidth"
    return bool(browser.execute_script(script))


def picture(browser: webdriver.Chrome, name: str) -> None:
    """The whole page that is open, on a desk and on a phone, light and dark."""
    for width, scheme in itertools.product((DESK, PHONE), ("light", "dark")):
        with seen_on(browser, width, scheme):
            taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        (Path(PICTURES) / f"{name}-{width}-{scheme}.png").write_bytes(base64.b64decode(taken["data"]))


def until(browser, found):
    """What `found` says of the browser once that is true. An element that the next page has taken away
    meanwhile is looked for again.
    """
    waiting = WebDriverWait(browser, WAIT_S, ignored_exceptions=[StaleElementReferenceException])
    return waiting.until(found)


def element(browser, css):
    """The first element that fits, once it is there."""
    return until(browser, lambda one: one.find_element(By.CSS_SELECTOR, css))


class Walk:
    """Through the pages of one cluster of a console at an address."""

    def __init__(self, browser, address, cluster):
        self.browser = browser
        self.below = f"{address}/c/{cluster}"
        browser.get_log("browser")  # what was refused in the walk before is no fault of this one

    def open(self, path):
        """A page below the cluster; its first heading."""
        self.browser.get(self.below + path)
        return self.heading()

    def heading(self, other_than=""):
        """The first heading of a page that is loaded, and has another one than this."""

        def found(one):
            text = one.execute_script(
                "return document.readyState == 'complete' && document.querySelector('h1')?.innerText"
            )
            return text if text and text != other_than else None

        return until(self.browser, found)

    def pages(self, subjects):
        """Opens every page, with something for the parameters of its path; what was wrong with each."""
        wrong = []
        for shown in SHOWN:
            path = subjects.get(shown.path, shown.path)
            if path is None:
                continue
            heading = self.open(path)
            if PICTURES:
                name = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-") or "overview"
                picture(self.browser, name)
            wrong += [(path, one) for one in faults(self.browser)]
            if heading in _REFUSED:
                wrong.append((path, element(self.browser, "main").text))
        return wrong

    def rows(self, table=1):
        """The texts of a table's cells, row by row; tables count from 1 on the page."""
        return self.browser.execute_script(
            "return [...document.querySelectorAll('main table')[arguments[0] - 1].tBodies[0].rows]"
            ".map(row => [...row.cells].map(cell => cell.innerText.trim()))",
            table,
        )

    def act(self, kind, typed=(), **parameters):
        """Walks an action from its form to what became of it; "Done", or why it was refused. `typed` has
        fields that no link fills in.
        """
        title = self.open(f"/actions/{kind}?{urlencode(parameters)}")
        for name, text in dict(typed).items():
            element(self.browser, f"input[name={name}]").send_keys(text)
        return self._confirmed(title)

    def take_back(self):
        """Takes the newest change back that can be taken back."""
        return self._confirmed(self.open("/audit"), "form[action$='/undo'] button")

    def _confirmed(self, title, button="main form button"):
        heading = self._pressed(button, title)
        if heading in _REFUSED:
            return element(self.browser, ".alarm").text
        # What has to be typed stands on the page.
        field = element(self.browser, "input[name=confirm]")
        field.send_keys(element(self.browser, "form.act code").text)
        heading = self._pressed("main form button", heading)
        return heading if heading == "Done" else element(self.browser, ".alarm").text

    def _pressed(self, button, title):
        """The heading that comes. A preview that takes longer than a page is asked for again, as the page
        says.
        """
        while True:
            self.browser.execute_script("window.isPressed = true")
            element(self.browser, button).click()
            until(
                self.browser,
                lambda one: one.execute_script(
                    "return !window.isPressed && document.readyState == 'complete'"
                ),
            )
            alarms = self.browser.find_elements(By.CSS_SELECTOR, ".alarm")
            if not any("ask for the preview again" in one.text for one in alarms):
                return self.heading(title)
            self.browser.get_log("browser")  # that it was told to ask again, which is no complaint


def operate(walk, broker, topic, group):
    """Every action on a topic and a group of its own, by their forms; (kind, what became of it) where that is
    not what was expected. A cluster without rules or tokens refuses in its own words.
    """
    copy, user = f"{group}-copy", f"user-of-{topic}"
    key = {"key": "message.max.bytes"}
    rule = {"resource": "topic", "name": topic, "principal": f"User:{user}"}
    quota = {"key": "producer_byte_rate", "user": user}
    steps = [
        ("create-topic", {"topic": topic, "partitions": 1, "replication_factor": 1}, "Done"),
        ("expand-topic", {"topic": topic, "partitions": 2}, "Done"),
        ("alter-topic", {"topic": topic, "key": "retention.ms", "value": "7200000"}, "Done"),
        ("alter-broker", {"broker": broker, **key, "value": "1048600"}, "Done"),
        ("alter-broker", {"broker": broker, **key, "value": ""}, "Done"),
        ("alter-brokers", {**key, "value": "1048601"}, "Done"),
        ("alter-brokers", {**key, "value": ""}, "Done"),
        ("produce-record", {"topic": topic, "key": "k", "value": "v", "partition": 0}, "Done"),
        ("elect-leaders", {"topic": topic}, "nothing would change"),
        ("reassign", {"topic": topic, "brokers": broker}, "Done|nothing would change"),
        # With other brokers it moves, and may have arrived when the cancelling is confirmed.
        ("cancel-reassignment", {"topic": topic}, "Done|nothing would change|not as it was in the preview"),
        ("replication-factor", {"topic": topic, "replication_factor": 9}, "brokers for 9 replicas"),
        (
            "move-log-dir",
            {"topic": topic, "partition": 0, "broker": broker, "log_dir": "/not/there"},
            f"broker {broker} has",
        ),
        ("set-offset", {"group": group, "topic": topic, "partition": 0, "offset": 0}, "Done"),
        ("reset-offsets", {"group": group, "topic": topic, "to": "latest"}, "Done"),
        ("copy-offsets", {"source": group, "group": copy}, "Done"),
        ("delete-offsets", {"group": copy, "topic": topic}, "Done"),
        ("delete-group", {"group": group}, "Done"),
        ("restore-offsets", None, "Done"),
        ("truncate-topic", {"topic": topic}, "Done"),
        ("abort-hanging", {"topic": topic, "partition": 0, "start_offset": 0}, "."),
        ("fence-producer", {"transactional_id": f"of-{topic}"}, "Done"),
        ("set-user", {"user": user, "iterations": 4096}, "Done"),
        ("delete-user", {"user": user}, "Done"),
        ("set-quota", {**quota, "value": "1000"}, "Done"),
        ("set-quota", {**quota, "value": ""}, "Done"),
        ("add-acl", rule, "Done|[Aa]uthorizer"),
        ("delete-acl", rule, "Done|[Aa]uthorizer"),
        ("expire-token", {"token_id": "none"}, "token"),
        ("delete-topic", {"topic": topic}, "Done"),
    ]
    assert {kind for kind, _, _ in steps} == set(KINDS), "an action is not walked"
    found = []
    for kind, parameters, expected in steps:
        if parameters is None:
            outcome = walk.take_back()
        else:
            typed = {"password": "s3cret"} if kind == "set-user" else {}
            outcome = walk.act(kind, typed, **parameters)
        # The browser writes each refusal down, as an answer that is none.
        wrong = faults(walk.browser) if outcome == "Done" else walk.browser.get_log("browser") and []
        if not re.search(expected, outcome) or wrong:
            found.append((kind, outcome, wrong))
    return found
