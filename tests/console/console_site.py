"""`Site`: a console and a client of its application. A module beside the tests."""

import asyncio

import httpx

from barnabas.console.web.app import application
from barnabas.operations.client_pushes import SERIES_MAX, client_pushes
from barnabas.operations.scrapes import BrokerScrape

ROUND_S = 30.0
"""How long a test waits for a look that it asked for."""


_PUSHED = """\
barnabas_client_metrics_push_age_seconds{client_id="sender",client_instance_id="i"} 1.0
barnabas_client_metrics_lifetime_seconds{client_id="sender",client_instance_id="i"} 60.0
org_apache_kafka_producer_record_send_rate{client_id="sender",client_instance_id="i"} 7.5
"""


async def scraped_sender():
    """A scraper of a broker to which a producer pushes its metrics."""
    return {0: BrokerScrape({}, client_pushes(_PUSHED, SERIES_MAX))}


class Site:
    """What a test has of a console: answers by path, and a wait for the next look."""

    def __init__(self, console):
        self.console = console
        self.app = application(console)
        self.watched = next(iter(console.clusters.values()))

    def request(self, method, path, **more):
        async def ask():
            transport = httpx.ASGITransport(self.app)
            base = "http://127.0.0.1:8989"
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())

    def get(self, path, /, **params):
        """JSON of a path below the cluster."""
        answer = self.request("GET", f"/api/v1/clusters/demo{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def page(self, path, /, **params):
        """The HTML of a path below the cluster."""
        answer = self.request("GET", f"/c/demo{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.text

    def look(self):
        """Returns when a look that begins now is over."""
        assert self.watched.wait_for_round(ROUND_S), self.watched
        assert self.watched.history.settle()
