"""Chromium walks the console: every page, an action up to the audit log, a phone's width, the dark."""

import contextlib
import shutil
import threading

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from barnabas.client import Producer
from barnabas.console.access.login import Login
from barnabas.console.access.passwords import PasswordFile, set_password
from barnabas.console.access.roles import RoleFile
from barnabas.console.routes import SHOWN
from barnabas.console.server import Address, listen, server_of

WAIT_S = 100
"""Chromium may have the machine with servers and JVMs."""

pytestmark = pytest.mark.timeout(400)

LAST_LOOK = "#last-look small"


@pytest.fixture(scope="module")
def browser():
    """The distribution's Chromium; a loud skip where it is not."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip(
            "NO BROWSER: the console's pages were not walked; apt-get install chromium chromium-driver"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chromium = webdriver.Chrome(options=options, service=Service(driver))
    chromium.set_page_load_timeout(WAIT_S)
    # A page reads itself again each 10 s, and what a test has found on it would be gone: here it does so when
    # a test asks.
    quiet = {"source": "window.setInterval = () => 0"}
    chromium.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", quiet)
    yield chromium
    chromium.quit()


@contextlib.contextmanager
def served(site):
    """The console on a port of this machine."""
    listener = listen(Address("127.0.0.1", 0))
    server = server_of(site.console)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(WAIT_S)
        listener.close()


def faults(browser):
    """What the browser complained of: scripts, the policy, what could not be loaded."""
    return [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]


def element(browser, css):
    return WebDriverWait(browser, WAIT_S).until(lambda chromium: chromium.find_element(By.CSS_SELECTOR, css))


def test_every_page_opens_without_a_complaint(browser, site):
    subjects = {
        "/brokers/{broker_id}": "/brokers/0",
        "/topics/{name}": "/topics/orders",
        "/groups/{name:path}": "/groups/behind",
        "/lag-rules/{name:path}": "/lag-rules/behind",
        "/configs/{kind}/{name}": "/configs/broker/0",
        "/explain/{kind}/{name:path}": "/explain/partition/orders-0",
        "/messages": "/messages?topic=orders&start=earliest",
    }
    with served(site) as address:
        for shown in SHOWN:
            if shown.path == "/store":  # this console was not told where the store is
                continue
            browser.get(f"{address}/c/demo{subjects.get(shown.path, shown.path)}")
            assert element(browser, "h1").text
            if not shown.path.startswith(("/explain", "/lag-rules")):
                assert element(browser, "nav a[aria-current]").text
            assert faults(browser) == [], shown.path
            # What a screen reader needs: a language, one main part, a name for each input and each image.
            unnamed = browser.execute_script(
                "return [...document.querySelectorAll('input:not([type=hidden]), select, textarea')]"
                ".filter(one => !one.labels.length).map(one => one.name)"
                ".concat([...document.querySelectorAll('svg:not([aria-label])')])"
            )
            assert unnamed == [], shown.path
            assert browser.execute_script("return document.documentElement.lang") == "en"


def test_links_lead_through_the_cluster(browser, site):
    with served(site) as address:
        browser.get(address)
        element(browser, "main a").click()
        WebDriverWait(browser, WAIT_S).until(lambda chromium: element(chromium, "h1").text == "demo")
        assert element(browser, ".verdict .level").text in {"good", "warning"}
        element(browser, "nav a[href$='/groups']").click()
        element(browser, "main a[href$='/groups/behind']").click()
        WebDriverWait(browser, WAIT_S).until(lambda chromium: "behind" in element(chromium, "h1").text)
        text = element(browser, "main").text
    assert "1 min 0 s" in text
    assert "no record waits" not in text


def test_a_phone_and_the_dark(browser, site):
    with served(site) as address:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 380, "height": 800, "deviceScaleFactor": 2, "mobile": True},
        )
        browser.get(f"{address}/c/demo/topics")
        element(browser, "h1")
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        light = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        )
        dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert light != dark


def test_the_page_moves_without_being_loaded_again(browser, site, cluster):
    with served(site) as address:
        browser.get(f"{address}/c/demo")
        before = element(browser, LAST_LOOK).text
        site.look()
        browser.execute_script("window.kept = true; return refresh()")
        assert element(browser, LAST_LOOK).text != before
        assert browser.execute_script("return window.kept")
        assert faults(browser) == []


def test_an_action_walks_from_its_button_to_the_audit_log(browser, cluster, open_console):
    topic = cluster.create_topic(partitions=1)
    site = open_console(cluster.bootstrap_servers, allow_changes=True)
    site.look()
    with served(site) as address:
        browser.get(f"{address}/c/demo/topics/{topic}")
        element(browser, "a[href*='actions/expand-topic']").click()
        field = element(browser, "input[name=partitions]")
        field.clear()
        field.send_keys("3")
        element(browser, "main button").click()
        element(browser, "input[name=confirm]")
        assert "3" in element(browser, "tbody").text
        element(browser, "input[name=confirm]").send_keys(topic)
        element(browser, "main button").click()
        WebDriverWait(browser, WAIT_S).until(lambda chromium: element(chromium, "h1").text == "Done")
        element(browser, "main a[href$='/audit']").click()
        WebDriverWait(browser, WAIT_S).until(lambda chromium: element(chromium, "h1").text == "Audit")
        assert topic in element(browser, "tbody").text
        assert faults(browser) == []
    assert len(cluster.admin.topics.describe(topic)[topic].partitions) == 3


def test_a_record_with_html_is_text(browser, cluster, open_console):
    topic = cluster.create_topic(partitions=1)
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send_and_wait(
            topic, b"<img src=x onerror='window.broken=1'>", key=b"\xff\x00", timestamp_ms=1
        )
    site = open_console(cluster.bootstrap_servers)
    with served(site) as address:
        browser.get(f"{address}/c/demo/messages?topic={topic}&start=earliest")
        text = element(browser, "tbody").text
        assert browser.execute_script("return window.broken") is None
    assert "<img src=x" in text
    assert "ff 00" in text


def test_records_come_to_a_page_that_follows(browser, cluster, open_console):
    topic = cluster.create_topic(partitions=1)
    site = open_console(cluster.bootstrap_servers)
    with served(site) as address, Producer(cluster.bootstrap_servers) as producer:
        browser.get(f"{address}/c/demo/messages?topic={topic}&follow=true")
        element(browser, "#records .empty")
        for value in (b"first", b"<i>second</i>"):
            producer.send_and_wait(topic, value)
            WebDriverWait(browser, WAIT_S).until(
                lambda one, value=value: value.decode() in element(one, "#records tbody").text
            )
        rows = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#records tbody th")]
        assert rows == ["1", "0"]
        assert faults(browser) == []
        element(browser, "a[data-next]").click()
        WebDriverWait(browser, WAIT_S).until(
            lambda one: not one.find_elements(By.CSS_SELECTOR, "[data-next]")
        )


def test_a_user_logs_in_sees_what_the_role_gives_and_logs_out(browser, cluster, open_console, tmp_path):
    set_password(tmp_path / "users", "alice", "secret")
    (tmp_path / "roles.toml").write_text(
        '[users]\nalice = ["r"]\n[[roles.r]]\nresources = ["topic"]\nnames = ["orders"]\nmay = ["change"]\n'
    )
    login = Login(PasswordFile(tmp_path / "users"), RoleFile(tmp_path / "roles.toml"))
    site = open_console(cluster.bootstrap_servers, allow_changes=True, login=login)
    site.look()
    with served(site) as address:
        browser.get(f"{address}/c/demo/topics")
        for password in ("wrong", "secret"):
            element(browser, "input[name=user]").send_keys("alice")
            element(browser, "input[name=password]").send_keys(password)
            element(browser, "main button").click()
            if password == "wrong":
                WebDriverWait(browser, WAIT_S).until(lambda one: one.find_elements(By.CSS_SELECTOR, ".alarm"))
        WebDriverWait(browser, WAIT_S).until(lambda one: element(one, "h1").text == "Topics")
        assert [one.text for one in browser.find_elements(By.CSS_SELECTOR, "tbody th")] == ["orders"]
        element(browser, "tbody a").click()
        element(browser, "a[href*='actions/truncate-topic']")
        assert not browser.find_elements(By.CSS_SELECTOR, "a[href*='actions/alter-broker']")
        element(browser, ".out button").click()
        WebDriverWait(browser, WAIT_S).until(lambda one: element(one, "h1").text == "Log in")
        browser.get(f"{address}/c/demo/topics")
        assert element(browser, "h1").text == "Log in"
    browser.get_log("browser")  # a wrong password is an answer of 401, which the browser writes down
