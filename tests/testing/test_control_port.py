"""The control port of a broker in a process of its own, from a shell and over HTTP."""

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest

from barnabas.client import Consumer, KafkaError, Producer
from serving import READY_SECONDS, ServeProcess

A_WHILE_S = 30


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    process = ServeProcess(tmp_path_factory.mktemp("controlled") / "data", "--control", "0")
    process.wait_until_ready()
    process.control = process.ready_line.rpartition("control=http://")[2]
    yield process
    process.stop()
    assert "Traceback" not in process.log.read_text()


@pytest.fixture(autouse=True)
def _no_faults_left(served):
    yield
    asked(served, "DELETE", "/faults")


def asked(served, method, path, given=None, **headers):
    """Status and answer."""
    connection = http.client.HTTPConnection(served.control, timeout=A_WHILE_S)
    body = given if given is None or isinstance(given, str) else json.dumps(given)
    connection.request(method, path, body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    try:
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def control(served, *words):
    """Exit code, and what was printed."""
    command = [sys.executable, "-m", "barnabas", "control", *words]
    ran = subprocess.run(
        command,
        env=os.environ | {"BARNABAS_CONTROL": served.control},
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_a_fault_from_a_shell(served):
    words = ["apis=Produce", "topic=orders", "error=INVALID_RECORD"]
    code, said = control(served, "fault", "add", *words)
    assert (code, said.partition(": ")[2]) == (0, "PRODUCE topic=orders error=INVALID_RECORD\n")
    number = said.partition(":")[0]
    with Producer(served.bootstrap) as producer:
        with pytest.raises(KafkaError):
            producer.send("orders", b"").result()
        producer.send("orders", b"").result()
    assert control(served, "fault", "wait", number) == (0, "hits=1\n")
    assert control(served, "fault", "list")[1].endswith("hits=1\n")
    assert control(served, "fault", "remove", number) == (0, "")


def test_a_fault_over_http_is_waited_for(served):
    _, planted = asked(served, "POST", "/faults", {"apis": ["Metadata"], "client_id": "me"})
    waited = []
    thread = threading.Thread(
        target=lambda: waited.append(asked(served, "GET", f"/faults/{planted['id']}/wait?timeout_s=20"))
    )
    thread.start()
    with Producer(served.bootstrap, client_id="me") as producer:
        producer.send("orders", b"").result()
    thread.join(A_WHILE_S)
    assert waited == [(200, {"hits": 1})]


def test_a_fault_that_is_removed_is_gone_and_its_number_is_never_anothers(served):
    first, second = (asked(served, "POST", "/faults", {"apis": "Fetch"})[1]["id"] for _ in range(2))
    assert asked(served, "DELETE", f"/faults/{first}") == (200, {})
    assert [one["id"] for one in asked(served, "GET", "/faults")[1]] == [second]
    assert asked(served, "POST", "/faults", {"apis": "Fetch"})[1]["id"] > second
    assert asked(served, "DELETE", "/faults") == (200, {})
    assert asked(served, "GET", "/")[1]["faults"] == []


def test_one_who_does_not_wait_for_the_answer_is_no_error_of_the_broker(served):
    _, planted = asked(served, "POST", "/faults", {"apis": "Metadata", "client_id": "impatient"})
    connection = http.client.HTTPConnection(served.control, timeout=A_WHILE_S)
    connection.request("GET", f"/faults/{planted['id']}/wait?timeout_s=20")
    # A reset, with which the answer meets a closed door.
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sock.close()
    with Producer(served.bootstrap, client_id="impatient") as producer:
        producer.send("orders", b"").result()
    assert asked(served, "GET", f"/faults/{planted['id']}/wait?hits=1")[0] == 200


def test_a_group_is_waited_for(served):
    with Producer(served.bootstrap) as producer:
        producer.send("grouped", b"").result()
    with Consumer(served.bootstrap, group_id="readers") as consumer:
        consumer.subscribe(["grouped"])
        consumer.poll(timeout_ms=5000)
        found = control(served, "group", "wait", "readers", "--members", "1", "--timeout", "20")
    assert found == (0, "readers Stable members=1\n")


def test_time_moves_on(served):
    assert control(served, "advance", "5") == (0, "")
    for never in ("-1", "NaN", "Infinity", "1e300", "null", '"soon"'):
        assert asked(served, "POST", "/time", f'{{"advance_s": {never}}}')[0] == 400
    with Producer(served.bootstrap) as producer:
        assert producer.send("in-time", b"").result(A_WHILE_S).offset == 0


def test_a_leader_is_where_it_is_moved(served):
    with Producer(served.bootstrap) as producer:
        producer.send("led", b"").result()
    moved = asked(served, "POST", "/leaders", {"topic": "led", "partition": 0, "broker": 0})
    assert moved == (200, {"topic": "led", "partition": 0, "leader": 0})


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "says"),
    [
        ("POST", "/faults", {"topics": "t"}, 400, "did you mean topic?"),
        ("POST", "/faults", {"apis": "Prodce"}, 400, "did you mean produce?"),
        ("POST", "/faults", {"count": [1]}, 400, ""),
        ("POST", "/faults", [1], 400, "send a JSON object"),
        ("POST", "/faults", "{", 400, ""),
        ("GET", "/faults/99/wait", None, 404, "there is no fault 99"),
        ("GET", "/faults/1x/wait", None, 404, "there is no fault 1x"),
        ("GET", "/groups/nobody/wait?timeout_s=0", None, 408, "group nobody Stable did not come"),
        ("GET", "/groups/nobody/wait?state=Steady", None, 400, "state='Steady'"),
        ("GET", "/groups/nobody/wait?member=2", None, 400, "there is no field member"),
        ("GET", "/groups/nobody/wait?timeout_s=soon", None, 400, "timeout_s=soon: it is a number"),
        ("GET", "/groups/nobody/wait?timeout_s=nan", None, 400, "timeout_s=nan: it is a number"),
        ("GET", "/groups/nobody/wait?members=1e999", None, 400, "members=1e999: it is a number"),
        ("GET", "/disk/wait?hits=infinity", None, 400, "hits=infinity: it is a number"),
        ("POST", "/faults", {"apis": [None]}, 400, "no API is called None"),
        ("POST", "/faults", {"apis": "Fetch", "error": []}, 400, "no error is called []"),
        ("POST", "/faults", {"topic": 5}, 400, "topic=5: it is a text"),
        ("POST", "/faults", {"delay_ms": 10**400}, 400, "delay_ms="),
        ("POST", "/faults", {"count": 1.5}, 400, "count=1.5: it is a number"),
        ("POST", "/faults", '{"a":' * 12_000, 400, "less deep"),
        ("POST", "/leaders", '{"topic": "t", "broker": Infinity}', 400, "broker=inf: it is a number"),
        ("POST", "/leaders", {"broker": 1}, 400, "topic is missing"),
        ("POST", "/leaders", {"topic": "t"}, 400, "broker is missing"),
        ("PUT", "/faults", None, 501, None),
        ("GET", "/nothing", None, 404, "there is nothing at GET /nothing"),
    ],
)
def test_what_cannot_be_is_said(served, method, path, given, status, says):
    if says is None:
        connection = http.client.HTTPConnection(served.control, timeout=A_WHILE_S)
        connection.request(method, path)
        assert connection.getresponse().status == status
        connection.close()
        return
    got, answer = asked(served, method, path, given)
    assert got == status
    assert says in answer["error"]


def test_a_page_in_a_browser_cannot_use_it(served):
    assert asked(served, "GET", "/", Host="attacker.example")[0] == 403
    status, answer = asked(served, "POST", "/faults", "{}", **{"Content-Type": "text/plain"})
    assert (status, answer["error"]) == (415, "send JSON, with Content-Type: application/json")
    assert asked(served, "GET", "/faults") == (200, asked(served, "GET", "/")[1]["faults"])


def test_a_body_that_is_too_large_is_not_read(served):
    assert asked(served, "POST", "/faults", "x" * 70_000)[0] == 413


def test_where_nothing_listens(served):
    assert control(served, "--at", "1", "fault", "list")[1].startswith(
        "Error: no control port at http://127.0.0.1:1"
    )
    assert control(served, "--at", "nowhere", "fault", "list")[0] != 0
    port = served.bootstrap.rpartition(":")[2]
    assert "Error: " in control(served, "--at", port, "fault", "list")[1]


def test_a_port_that_is_taken_ends_the_start_with_one_line(tmp_path, served):
    port = served.control.rpartition(":")[2]
    command = [sys.executable, "-m", "barnabas", "serve", "--data", str(tmp_path / "d"), "--port", "0"]
    ran = subprocess.run(
        [*command, "--control", port], capture_output=True, text=True, timeout=READY_SECONDS, check=False
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"Error: --control {port}: Address already in use\n"


def test_the_broker_ends_while_somebody_waits(tmp_path):
    process = ServeProcess(tmp_path / "data", "--control", "0")
    process.wait_until_ready()
    process.control = process.ready_line.rpartition("control=http://")[2]
    _, planted = asked(process, "POST", "/faults", {"apis": "Produce"})
    connection = http.client.HTTPConnection(process.control, timeout=A_WHILE_S)
    connection.request("GET", f"/faults/{planted['id']}/wait?timeout_s=3000")
    process.process.send_signal(signal.SIGTERM)
    assert process.stop() == 0
    connection.close()


def test_a_disk_that_is_full_and_has_room_again(served):
    assert control(served, "disk", "fill") == (0, "")
    assert asked(served, "GET", "/")[1]["disk_full"] is True
    with Producer(served.bootstrap, delivery_timeout_ms=A_WHILE_S * 1000) as producer:
        waiting = producer.send("on-a-full-disk", b"waits", partition=0)
        assert control(served, "disk", "wait", "--timeout", str(A_WHILE_S))[0] == 0
        assert not waiting.done()
        assert control(served, "disk", "free") == (0, "")
        waiting.result(timeout=A_WHILE_S)


@pytest.mark.parametrize("given", [{}, {"full": "yes"}, {"full": True, "half": True}])
def test_a_slip_in_what_is_said_of_the_disk(served, given):
    status, answer = asked(served, "POST", "/disk", given)
    assert (status, "full" in answer["error"] or "half" in answer["error"]) == (400, True)
    assert asked(served, "GET", "/")[1]["disk_full"] is False
