"""The rules of the VIP's holder, one by one; what they come to between machines is in `tests/simulation/test_vip.py`."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from dataclasses import dataclass, field

import pytest

from rackless.node.vip import holding
from rackless.node.vip.holding import RecordUnanswered, VipHolder, VipRecord
from rackless.node.vip.main import balancer_is_ready
from rackless.node.vip.record import EtcdRecord


@dataclass
class Bench:
    """A record, a NIC and a clock, all in the hand of the test."""

    time: float = 100.0
    record: VipRecord = field(default_factory=lambda: VipRecord("", 0))
    answers: bool = True
    loses_answers: bool = False
    ready: bool | None = True
    slow: float = 0.0
    strangers: list[str] = field(default_factory=list)
    until: float | None = None
    announced: int = 0
    said: list[str] = field(default_factory=list)

    def holder(self) -> VipHolder:
        """Of a machine that has known a ready API server for long."""
        holder = VipHolder("me", self, self, lambda: self.ready, lambda: self.time, self.said.append)
        holder._unready = self.time - holding.READY_SECONDS
        return holder

    def read(self) -> VipRecord:
        if not self.answers:
            raise RecordUnanswered("away")
        return self.record

    def swap(self, seen: VipRecord, holder: str) -> tuple[bool, VipRecord]:
        there = self.read()
        done = there.revision == seen.revision
        if done:
            self.record = VipRecord(holder, there.revision + 1)
        self.time += self.slow
        if self.loses_answers:
            raise RecordUnanswered("cut off")
        return done, self.record

    def hold(self, seconds: int) -> None:
        self.until = self.time + seconds

    def drop(self) -> None:
        self.until = None

    def announce(self) -> None:
        self.announced += 1

    def others(self) -> list[str]:
        return self.strangers


def test_a_record_of_nobodys_is_taken_at_once_and_told_to_the_neighbours() -> None:
    bench = Bench()
    bench.holder().step()
    assert bench.record == VipRecord("me", 1) and bench.until == 110.0 and bench.announced == 1
    assert bench.said == ["has it"]


def test_the_address_lives_from_the_moment_that_the_renewal_was_sent() -> None:
    bench = Bench(slow=2.5)
    bench.holder().step()
    assert bench.until is not None and bench.until <= 100.0 + holding.HOLD_SECONDS


def test_one_that_was_stopped_between_the_answer_and_the_address_drops_it_again() -> None:
    bench = Bench(slow=11.0)
    holder = bench.holder()
    holder.step()
    assert bench.until is None and not holder.holds


def test_a_balancer_that_has_just_started_is_not_believed_at_once() -> None:
    """haproxy takes servers for ready until it has asked each of them."""
    bench = Bench()
    holder = bench.holder()
    holder._unready = None
    for _ in range(3):
        holder.step()
        assert not holder.holds
        bench.time += holding.LOOK_SECONDS
    bench.ready = False
    holder.step()
    bench.ready, bench.time = True, bench.time + holding.LOOK_SECONDS
    holder.step()
    assert not holder.holds
    bench.time += holding.READY_SECONDS
    holder.step()
    assert holder.holds


def test_another_ones_record_is_taken_only_after_it_has_not_changed_for_long() -> None:
    bench = Bench(record=VipRecord("other", 7))
    holder = bench.holder()
    for _ in range(6):
        holder.step()
        assert not holder.holds
        bench.time += 2
    bench.record = VipRecord("other", 8)  # renewed at the last moment
    holder.step()
    assert not holder.holds and bench.said == ["other has it"]
    bench.time += holding.TAKE_SECONDS
    holder.step()
    assert holder.holds and bench.record == VipRecord("me", 9)


def test_its_own_record_of_an_earlier_life_is_taken_at_once() -> None:
    bench = Bench(record=VipRecord("me", 7))
    bench.holder().step()
    assert bench.record == VipRecord("me", 8)


def test_one_that_was_overtaken_drops_the_address_at_once() -> None:
    bench = Bench()
    holder = bench.holder()
    holder.step()
    bench.record, bench.time = VipRecord("other", 5), bench.time + holding.RENEW_SECONDS
    holder.step()
    assert bench.until is None and bench.record == VipRecord("other", 5)


def test_a_renewal_whose_answer_was_lost_is_found_again() -> None:
    bench = Bench()
    holder = bench.holder()
    holder.step()
    bench.loses_answers, bench.time = True, bench.time + holding.RENEW_SECONDS
    holder.step()
    bench.loses_answers, bench.time = False, bench.time + holding.LOOK_SECONDS
    holder.step()
    assert holder.holds and bench.record.revision == 3 and bench.until == bench.time + holding.HOLD_SECONDS


def test_without_an_answer_of_etcd_it_is_kept_for_so_long_and_no_longer() -> None:
    bench = Bench()
    holder = bench.holder()
    holder.step()
    bench.answers = False
    bench.time += holding.HOLD_SECONDS - 1
    holder.step()
    assert holder.holds
    bench.time += 1
    holder.step()
    assert not holder.holds and bench.until is None


def test_where_no_api_server_is_ready_it_is_let_go_and_others_need_not_wait() -> None:
    bench = Bench()
    holder = bench.holder()
    holder.step()
    bench.ready = False
    holder.step()
    assert bench.until is None and bench.record.holder == ""
    holder.step()
    assert bench.record.holder == ""  # not taken either


def test_while_the_balancer_does_not_answer_it_is_not_renewed_and_not_taken() -> None:
    bench = Bench(ready=None)
    holder = bench.holder()
    holder.step()
    assert bench.record == VipRecord("", 0)
    bench.ready, bench.time = True, bench.time + holding.READY_SECONDS
    holder.step()
    bench.ready = None
    for _ in range(5):
        bench.time += holding.LOOK_SECONDS
        holder.step()
    assert not holder.holds and bench.until is None and bench.record.revision == 1


def test_it_is_not_taken_while_a_stranger_answers_for_it() -> None:
    bench = Bench(strangers=["02:00:00:00:00:09"])
    holder = bench.holder()
    holder.step()
    assert not holder.holds and bench.until is None and bench.record.holder == ""
    assert bench.said == ["somebody else answers for it: 02:00:00:00:00:09"]
    bench.strangers = []
    holder.step()
    assert not holder.holds  # not at every look
    bench.time += holding.STRANGER_SECONDS
    holder.step()
    assert holder.holds


def test_one_that_is_asked_to_go_lets_it_go_for_the_next() -> None:
    bench = Bench()
    holder = bench.holder()
    holder.step()
    holder.leave()
    assert bench.until is None and bench.record == VipRecord("", 2)


def test_the_times_leave_room_for_a_kernel_that_is_late() -> None:
    assert holding.HOLD_SECONDS + 1 < holding.TAKE_SECONDS
    assert 2 * holding.RENEW_SECONDS <= holding.HOLD_SECONDS


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [(b"HTTP/1.0 200 OK\r\n\r\n", True), (b"HTTP/1.0 503 Service Unavailable\r\n\r\n", False), (b"", None)],
)
def test_what_haproxy_says(answer: bytes, wanted: bool | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(100)
                line.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        assert balancer_is_ready(port) is wanted
        thread.join()
    assert balancer_is_ready(port) is None


def test_looks_cost_the_members_no_agreement_and_a_look_that_is_behind_writes_nothing() -> None:
    asked = []

    def answer(_: str, path: str, __: object, body: bytes) -> tuple[int, bytes]:
        asked.append((path, json.loads(body)))
        written = {"kvs": [{"value": "bWU=", "mod_revision": "7"}]}
        return 200, json.dumps(written if "range" in path else {"responses": [{"response_range": written}]}).encode()

    record = EtcdRecord("127.0.0.1", "/vip/10.0.0.1", ssl.create_default_context())
    record._http.ask = answer  # type: ignore[method-assign, assignment]
    assert record.read() == VipRecord("me", 7)
    assert record.swap(VipRecord("other", 5), "me") == (False, VipRecord("me", 7))
    (look, read), (write, swap) = asked
    assert (look, read["serializable"]) == ("/v3/kv/range", True)
    assert write == "/v3/kv/txn" and swap["compare"][0]["mod_revision"] == "5"
