"""Chromium walks the console: every page, an action up to the audit log, a phone's width, the dark."""

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import waiting
from barnabas.client import Producer
from barnabas.console.access.login import Login
from barnabas.console.access.passwords import PasswordFile, set_password
from barnabas.console.access.roles import RoleFile
from barnabas.console.actions.kinds import KINDS
from barnabas.console.web.routes import SHOWN
from barnabas.testing import Fault
from console_walk import (
    DESK,
    PHONE,
    chromium,
    element,
    faults,
    inaccessible,
    is_too_wide,
    seen_on,
    served,
    until,
)

pytestmark = pytest.mark.timeout(400)

LAST_LOOK = "#last-look small"


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


SUBJECTS = {
    "/brokers/{broker_id}": "/brokers/0",
    "/topics/{name}": "/topics/orders",
    "/groups/{name:path}": "/groups/behind",
    "/clients/{name:path}": "/clients/sender",
    "/lag-rules/{name:path}": "/lag-rules/behind",
    "/configs/{kind}/{name}": "/configs/broker/0",
    "/explain/{kind}/{name:path}": "/explain/partition/orders-0",
    "/messages": "/messages?topic=orders&start=earliest",
}
PAGES = [SUBJECTS.get(one.path, one.path) for one in SHOWN if one.path != "/store"] + ["/alerts", "/audit"]
"""All but the store, of which this console was not told where it is."""


def test_every_page_opens_without_a_complaint(browser, standing_site):
    found = []
    with served(standing_site.console) as address:
        for path in PAGES:
            browser.get(f"{address}/c/demo{path}")
            assert element(browser, "h1").text
            if not path.startswith(("/explain", "/lag-rules", "/history")):
                assert element(browser, "#menu a[aria-current]").text
            assert faults(browser) == [], path
            # Names of inputs, language, contrast, order of headings: keyboard and screen reader.
            found += [(path, one) for one in inaccessible(browser)]
    assert found == []


def test_links_lead_through_the_cluster(browser, site):
    with served(site.console) as address:
        browser.get(address)
        element(browser, "main a").click()
        until(browser, lambda chromium: element(chromium, "h1").text == "demo")
        assert element(browser, ".verdict .level").text in {"good", "warning"}
        element(browser, "nav a[href$='/groups']").click()
        element(browser, "main a[href$='/groups/behind']").click()
        until(browser, lambda chromium: "behind" in element(chromium, "h1").text)
        text = element(browser, "main").text
    assert "1 min 0 s" in text
    assert "no record waits" not in text


def test_a_phone_and_the_dark(browser, standing_site):
    wrong, papers = [], {}
    with served(standing_site.console) as address:
        for path in PAGES:
            browser.get(f"{address}/c/demo{path}")
            assert element(browser, "h1").text
            with seen_on(browser, PHONE, "dark"):
                wrong += [(path, "wider than the phone")] if is_too_wide(browser) else []
                wrong += [(path, one) for one in inaccessible(browser, "color-contrast")]
        for scheme in ("light", "dark"):
            with seen_on(browser, PHONE, scheme):
                color = "return getComputedStyle(document.body).backgroundColor"
                papers[scheme] = browser.execute_script(color)
    assert papers["light"] != papers["dark"]
    assert wrong == []


def test_records_on_a_phone_begin_on_the_first_screen_and_have_its_width(browser, standing_site):
    with served(standing_site.console) as address, seen_on(browser, PHONE):
        browser.get(f"{address}/c/demo/messages?topic=orders&start=earliest")
        record = element(browser, "#records tbody tr")
        assert record.rect["y"] < 600
        value = record.find_element(By.CSS_SELECTOR, "[data-label=Value]")
        assert value.rect["width"] > PHONE - 60
        assert value.text.endswith("value 0")


def test_a_phone_has_the_menu_behind_a_button_and_a_desk_at_its_side(browser, standing_site):
    headings = ["Cluster", "Data", "Health", "Access"]
    with served(standing_site.console) as address:
        browser.get(f"{address}/c/demo/groups")
        link, button = element(browser, "#menu a[href$='/quotas']"), element(browser, "header button")
        shown = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#menu b")]
        assert (link.is_displayed(), button.is_displayed(), shown) == (True, False, headings)
        with seen_on(browser, PHONE):
            assert not link.is_displayed()
            button.send_keys(Keys.ENTER)
            assert link.is_displayed()
            ActionChains(browser).send_keys(Keys.TAB).perform()
            assert browser.switch_to.active_element.text == "Overview"
            ActionChains(browser).send_keys(Keys.ESCAPE).perform()
            assert not link.is_displayed()


def test_what_is_written_at_a_plot_is_as_large_on_a_phone(browser, standing_site):
    # A unit of the drawing may be half a pixel, text of the page is not.
    size = "return parseFloat(getComputedStyle(document.querySelector('.chart span')).fontSize)"
    with served(standing_site.console) as address:
        browser.get(f"{address}/c/demo/history")
        assert element(browser, ".chart span")
        assert not browser.find_elements(By.CSS_SELECTOR, ".chart text")
        for width in (PHONE, DESK):
            with seen_on(browser, width):
                assert browser.execute_script(size) >= 12


def test_what_was_opened_stays_open_and_what_is_marked_stays_marked(browser, standing_site):
    with served(standing_site.console) as address:
        browser.get(f"{address}/c/demo/messages?topic=orders")
        element(browser, "main summary").click()
        browser.execute_script("return refresh()")
        assert element(browser, "input[name=contains]").is_displayed()
        browser.execute_script(
            "window.kept = document.querySelector('#found'); getSelection().selectAllChildren(kept)"
        )
        browser.execute_script("return refresh()")
        assert browser.execute_script("return kept.isConnected")
        browser.execute_script("getSelection().removeAllRanges(); return refresh()")
        assert not browser.execute_script("return kept.isConnected")


def test_every_form_has_names_and_the_keyboard_reaches_what_it_needs(browser, cluster, open_console):
    site = open_console(cluster.bootstrap_servers, allow_changes=True)
    site.look()
    found = []
    with served(site.console) as address:
        for path in [f"/actions/{kind}" for kind in KINDS] + ["/audit", "/alerts"]:
            browser.get(f"{address}/c/demo{path}")
            assert faults(browser) == [], path
            found += [(path, one) for one in inaccessible(browser, "label", "select-name", "button-name")]
        for path in ("/", "/add-cluster", "/c/demo/nothing"):
            browser.get(f"{address}{path}")
            found += [(path, one) for one in inaccessible(browser)]
        browser.get(f"{address}/c/demo/actions/create-topic")
        keys = ActionChains(browser)
        keys.send_keys(Keys.TAB).perform()
        # The first stop leads past the menu, and what has the focus can be seen.
        assert browser.switch_to.active_element.get_attribute("class") == "skip"
        keys.send_keys(Keys.ENTER).send_keys(Keys.TAB).perform()
        field = browser.switch_to.active_element
        outline = browser.execute_script("return getComputedStyle(arguments[0]).outlineStyle", field)
        assert (field.get_attribute("name"), outline == "none") == ("topic", False)
        field.send_keys("by-keyboard" + Keys.ENTER)
        until(browser, lambda one: one.find_elements(By.NAME, "confirm"))
    browser.get_log("browser")  # a page that is not there is an answer of 404, which the browser writes down
    assert found == []


def test_the_page_moves_without_being_loaded_again(browser, site, cluster):
    with served(site.console) as address:
        browser.get(f"{address}/c/demo")
        before = element(browser, LAST_LOOK).text
        site.look()
        browser.execute_script("window.kept = true; return refresh()")
        assert element(browser, LAST_LOOK).text != before
        assert browser.execute_script("return window.kept")
        assert faults(browser) == []


@pytest.fixture
def slow_offsets(cluster):
    """Records come later than their page waits."""
    slow = cluster.plant(Fault("ListOffsets", delay_ms=300, count=None))
    yield
    slow.remove()


@pytest.mark.usefixtures("slow_offsets")
def test_a_form_that_was_written_into_stays_when_the_answer_comes(browser, cluster, open_console):
    site = open_console(cluster.bootstrap_servers, patience_s=0)
    site.look()
    with served(site.console) as address:
        browser.get(f"{address}/c/demo/messages?topic=orders&partition=0")
        assert "has not answered yet" in element(browser, "#not-known").text
        element(browser, "main summary").click()
        element(browser, "input[name=contains]").send_keys("value 7")
        element(browser, "input[name=committed_only]").click()
        # It is not where the cursor is that tells what somebody is about to send.
        browser.execute_script("document.activeElement.blur()")
        waiting.until(lambda: "running=0" in repr(site.watched.questions), "the records")
        browser.execute_script("return refresh()")
        assert element(browser, "#records tbody tr")
        assert element(browser, "input[name=contains]").get_attribute("value") == "value 7"
        assert element(browser, "input[name=committed_only]").is_selected()
        assert faults(browser) == []


@pytest.mark.usefixtures("slow_offsets")
def test_a_page_that_waits_shows_the_refusal_that_comes(browser, cluster, open_console):
    site = open_console(cluster.bootstrap_servers, patience_s=0)
    site.look()
    with served(site.console) as address:
        browser.get(f"{address}/c/demo/messages?topic=orders&partition=99")
        assert "has not answered yet" in element(browser, "#not-known").text
        waiting.until(lambda: "running=0" in repr(site.watched.questions), "the refusal")
        browser.execute_script("return refresh()")
        assert "topic orders has no partition 99" in element(browser, "main .alarm").text
        assert browser.execute_script("return every") == 0
        (refused,) = faults(browser)  # the browser notes it; what it notes next is another test's
        assert "409" in refused


def test_an_action_walks_from_its_button_to_the_audit_log(browser, cluster, open_console):
    topic = cluster.create_topic(partitions=1)
    site = open_console(cluster.bootstrap_servers, allow_changes=True)
    site.look()
    with served(site.console) as address:
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
        until(browser, lambda chromium: element(chromium, "h1").text == "Done")
        element(browser, "main a[href$='/audit']").click()
        until(browser, lambda chromium: element(chromium, "h1").text == "Audit")
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
    with served(site.console) as address:
        browser.get(f"{address}/c/demo/messages?topic={topic}&start=earliest")
        text = element(browser, "tbody").text
        assert browser.execute_script("return window.broken") is None
    assert "<img src=x" in text
    assert "ff 00" in text


def test_records_come_to_a_page_that_follows(browser, cluster, open_console):
    topic = cluster.create_topic(partitions=1)
    site = open_console(cluster.bootstrap_servers)
    with served(site.console) as address, Producer(cluster.bootstrap_servers) as producer:
        browser.get(f"{address}/c/demo/messages?topic={topic}&follow=true")
        element(browser, "#records .empty")
        for value in (b"first", b"<i>second</i>"):
            producer.send_and_wait(topic, value)
            until(browser, lambda one, value=value: value.decode() in element(one, "#records tbody").text)
        rows = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#records tbody th")]
        assert rows == ["1", "0"]
        assert faults(browser) == []
        element(browser, "a[data-next]").click()
        until(browser, lambda one: not one.find_elements(By.CSS_SELECTOR, "[data-next]"))


def test_a_user_logs_in_sees_what_the_role_gives_and_logs_out(browser, cluster, open_console, tmp_path):
    set_password(tmp_path / "users", "alice", "secret")
    (tmp_path / "roles.toml").write_text(
        '[users]\nalice = ["r"]\n[[roles.r]]\nresources = ["topic"]\nnames = ["orders"]\nmay = ["change"]\n'
    )
    login = Login(PasswordFile(tmp_path / "users"), RoleFile(tmp_path / "roles.toml"))
    site = open_console(cluster.bootstrap_servers, allow_changes=True, login=login)
    site.look()
    with served(site.console) as address:
        browser.get(f"{address}/c/demo/topics")
        for password in ("wrong", "secret"):
            element(browser, "input[name=user]").send_keys("alice")
            element(browser, "input[name=password]").send_keys(password)
            element(browser, "main button").click()
            if password == "wrong":
                until(browser, lambda one: one.find_elements(By.CSS_SELECTOR, ".alarm"))
        until(browser, lambda one: element(one, "h1").text == "Topics")
        assert [one.text for one in browser.find_elements(By.CSS_SELECTOR, "tbody th")] == ["orders"]
        element(browser, "tbody a").click()
        element(browser, "a[href*='actions/truncate-topic']")
        assert not browser.find_elements(By.CSS_SELECTOR, "a[href*='actions/alter-broker']")
        element(browser, ".out button").click()
        until(browser, lambda one: element(one, "h1").text == "Log in")
        browser.get(f"{address}/c/demo/topics")
        assert element(browser, "h1").text == "Log in"
    browser.get_log("browser")  # a wrong password is an answer of 401, which the browser writes down
