"""What the console lets nobody do: pages from elsewhere, names that are not its own, bodies without end."""

import pytest


@pytest.fixture
def site(standing_site):
    return standing_site


def test_a_page_may_load_nothing_from_elsewhere_and_stand_in_no_frame(site):
    headers = site.request("GET", "/c/demo").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert (headers["x-frame-options"], headers["x-content-type-options"]) == ("DENY", "nosniff")
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize("path", ["/api/v1/clusters", "/c/demo/nothing", "/static/console.css"])
def test_every_answer_has_the_headers(site, path):
    assert "content-security-policy" in site.request("GET", path).headers


def test_it_answers_to_no_name_that_is_not_its_own(site):
    answer = site.request("GET", "/", headers={"host": "evil.example:8989"})
    assert answer.status_code == 421
    assert site.request("GET", "/", headers={"host": "localhost:8989"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_from_elsewhere_changes_nothing(site, headers):
    answer = site.request("POST", "/api/v1/clusters/demo/anything", headers=headers)
    assert (answer.status_code, "elsewhere" in answer.json()["error"]) == (403, True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 200),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}, 200),
        ({"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 200),
        ({}, 200),
    ],
)
def test_a_page_from_elsewhere_reads_nothing_but_may_link_here(site, headers, status):
    assert site.request("GET", "/c/demo/topics", headers=headers).status_code == status


def test_a_body_has_a_bound(site):
    answer = site.request("POST", "/api/v1/clusters", content=b"x" * ((1 << 20) + 1))
    assert answer.status_code == 413


def test_an_unknown_cluster_is_said_in_one_line(site):
    answer = site.request("GET", "/api/v1/clusters/other")
    assert (answer.status_code, answer.json()) == (404, {"error": "there is no cluster 'other'"})
    assert "there is no cluster" in site.request("GET", "/c/other").text


def test_a_page_that_is_not_shown_says_where_to_go(site):
    page = site.request("GET", "/c/demo/topics/not-there").text
    assert ("<h1>Not here</h1>" in page, 'href="/c/demo/topics">All topics' in page) == (True, True)
    page = site.request("GET", "/c/demo/store").text
    assert ("<h1>Not shown</h1>" in page, 'href="/c/demo">The overview of demo' in page) == (True, True)
    assert "<h1>Not done</h1>" in site.request("POST", "/c/demo/actions/delete-topic").text


def test_a_wrong_parameter_is_said_in_one_line(site):
    answer = site.request("GET", "/api/v1/clusters/demo/topics", params={"size": "many"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("size: ")


def test_names_are_written_as_text(site):
    """Topics cannot have such names; groups, keys of records and searches can."""
    text = site.page("/topics", search="<script>alert(1)</script>")
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_description_of_the_interface_names_every_path(site):
    paths = site.request("GET", "/api/v1/openapi.json").json()["paths"]
    assert "/api/v1/clusters/{cluster}/topics/{name}" in paths
    assert all(path.startswith("/api/v1/") for path in paths)
