"""The node agent: one short step at a time, each decided from what is there.

Without a certificate, it asks for one with its token. With one, it registers its Node, and from then on renews its Lease every
ten seconds, looks at its Node once a minute, and orders new certificates long before the old ones expire. `step` does what is
due and returns the seconds until something is due again; its caller waits, so that tests need not.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, time
from typing import NamedTuple

from rackless.node import keypair, status
from rackless.node.api import MERGE, STRATEGIC, Answer, Api, ApiServerConnection, Away, Distrusted, Json
from rackless.node.certificates import CLIENT, SERVING, Declined, MakeKey, Order, Pair, Unauthorized, refused
from rackless.node.facts import Facts
from rackless.node.settings import AgentSettings

RENEW_EVERY = 10.0
LOOK_EVERY = 60.0
SPEAK_EVERY = 300.0
"""Seconds between renewals of the Lease, between looks at our Node, and between heartbeats in its status when nothing has
changed."""
SILENT_FOR = 20.0
"""Seconds without a renewal of the Lease after which the cluster may have marked our Node as lost. The agent then looks at its
Node at once and reports it well."""
ASK_EVERY, ASK_SLOWEST = 0.25, 60.0
"""Seconds between two looks at a certificate order: at first, and at most when nobody approves it. In between, a fifth of the
time that it has waited so far."""
SLOWEST = 10.0
"""Seconds between two tries to reach an API that does not answer."""
STARTING, STARTING_SLOWEST = 60.0, 2.0
"""For so many seconds after its start, until its node was ready, the agent tries as often as this: the API of a cluster that is
being made comes any moment."""
DECLINED_WAIT = 60.0
SPACED = 3600.0
"""Seconds between two orders of the same certificate. When a new certificate looks expired at once, the clock is wrong, and
another order would not help."""
UNKNOWN_AFTER = 3
"""How often the API must refuse our certificate before the agent discards it and asks for another one with the token."""

OpenApi = Callable[[AgentSettings, Pair | None], Api]


class AgentClock(NamedTuple):
    steady: Callable[[], float] = monotonic
    """For how long to wait: a jump of the system's time does not count."""
    wall: Callable[[], float] = time
    """For times that are written into objects."""


def open_api(settings: AgentSettings, pair: Pair | None) -> Api:
    """Connects with our certificate, or, when there is none, with the token."""
    tls = ssl.create_default_context(cadata=settings.ca)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    if pair is not None:
        tls.load_cert_chain(pair.path)
    return ApiServerConnection(settings.host, settings.port, tls, "" if pair is not None else settings.token)


class Agent:
    """A plain class and no dataclass, as everywhere in this package: importing `dataclasses` is a sixth of the time to start."""

    def __init__(
        self,
        settings: AgentSettings,
        folder: Path,
        look: Callable[[], Facts],
        say: Callable[[str], None],
        open: OpenApi = open_api,
        clock: AgentClock | None = None,
        make_key: MakeKey = keypair.make,
        age: float = 0.0,
    ) -> None:
        """Keys and certificates are kept in `folder`; `age` is for how many seconds this process has been running."""
        self.settings, self.folder, self.look, self.say, self.open = settings, folder, look, say, open
        self.clock = clock or AgentClock()
        name = settings.name
        self.client = Order(folder, CLIENT, name, make_key)
        self.serving = Order(folder, SERVING, name, make_key)
        self.pair: Pair | None = self.client.load()
        self.served: Pair | None = self.serving.load()
        self._api: Api | None = None
        self._node: Json | None = None
        """The Node as it was seen last; None before the agent has registered it."""
        self._renewed = self._looked = self._spoke = float("-inf")
        self._ordered = {CLIENT: float("-inf"), SERVING: float("-inf")}
        self._asking = float("-inf")
        self._failures = self._unknown = 0
        self._new = False
        """The node has just joined for the first time."""
        self.renewals = 0
        self._started = self.clock.steady() - age
        self.ready_after: float | None = None
        """Seconds from the start of this process until its node was ready for the first time."""
        self._refused_until = 0.0
        """For how many of these seconds the API did not answer, or did not know the node's token yet."""
        self._last_word = ""

    @property
    def ready(self) -> bool:
        return self._node is not None

    def step(self) -> float:
        """Does what is due; returns the seconds until something is due again."""
        try:
            wait = self._join() if self.pair is None else self._live(self.pair)
        except Declined as error:
            self._tell(str(error))
            self._asking = float("-inf")
            return DECLINED_WAIT
        except (Unauthorized, Distrusted) as error:
            return self._doubt(str(error))
        except Away as error:
            if self.pair is not None and self.pair.until < self.clock.wall():
                return self._doubt(str(error))  # some API servers close the connection when a certificate has expired
            return self._retry(f"the API at {self.settings.host} is away: {error}")
        except OSError as error:
            self._tell(f"{self.folder} cannot be written: {error}")
            return SLOWEST
        self._failures = 0
        return wait

    def close(self) -> None:
        if self._api is not None:
            self._api.close()
            self._api = None

    # joining

    def _join(self) -> float:
        if not self.settings.token:
            self._tell("there is no certificate and no token to ask for one with")
            return DECLINED_WAIT
        waits = self.client.advance(self._reach())
        if waits:
            self._tell(f"waiting for {waits}")
            return self._ask_again()
        self._install_client("joined as")
        self._new = True
        return 0.0

    def _install_client(self, word: str) -> None:
        self.pair = self.client.load()
        self._ordered[CLIENT] = self.clock.steady()
        self._asking = float("-inf")
        self._unknown = 0
        self.close()  # the next request uses the new certificate
        self._tell(f"{word} {self.client.subject}")

    def _ask_again(self) -> float:
        now = self.clock.steady()
        self._asking = now if self._asking == float("-inf") else self._asking
        return min(ASK_SLOWEST, max(ASK_EVERY, (now - self._asking) / 5))

    def _doubt(self, why: str) -> float:
        """The API does not know us. It may be wrong for a moment; when it stays so, the agent begins again with the token."""
        self._unknown += 1
        if self.pair is None or self._unknown < UNKNOWN_AFTER or not self.settings.token:
            return self._retry(f"the API at {self.settings.host} does not know us: {why}")
        return self._begin_again(f"our certificate is not taken any more ({why})")

    def _begin_again(self, why: str) -> float:
        self._tell(f"{why}: asking for another certificate with the token")
        self.pair, self._node, self._unknown = None, None, 0
        self.close()
        return 0.0

    def _retry(self, why: str) -> float:
        self._tell(why)
        self.close()
        self._failures += 1
        slowest = SLOWEST
        if self.ready_after is None:
            self._refused_until = self.clock.steady() - self._started
            slowest = STARTING_SLOWEST if self._refused_until < STARTING else SLOWEST
        return float(min(slowest, 2.0 ** (self._failures - 1)))

    # living

    def _live(self, pair: Pair) -> float:
        if not pair.path.exists():
            return self._begin_again(f"{pair.path} is gone")
        now = self.clock.steady()
        silent = now - self._renewed >= SILENT_FOR
        if self._node is None or silent or now - self._looked >= LOOK_EVERY:
            self._ensure_node()
        if now - self._renewed >= RENEW_EVERY:
            self._renew_lease()
        self._unknown = 0
        asking = self._go_on_ordering(pair)
        due = min(self._renewed + RENEW_EVERY, self._looked + LOOK_EVERY) - self.clock.steady()
        return max(0.0, min(due, asking))

    def _ensure_node(self) -> None:
        name = self.settings.name
        found = self._register() if self._new else None
        if found is None:
            found = self._ask("GET", f"/api/v1/nodes/{name}", missing=True)
        if found.status == 404:
            found = self._ask("POST", "/api/v1/nodes", status.node(name, self.settings.taints))
        self._new = False
        there = found.body
        labels = (there.get("metadata") or {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in status.own_labels(name).items()):
            wanted: Json = {"metadata": {"labels": status.own_labels(name)}}
            there = self._ask("PATCH", f"/api/v1/nodes/{name}", wanted, MERGE).body
        first = self._node is None
        self._node = there
        self._looked = self.clock.steady()
        self._report(there)
        if first:
            self._tell("ready")
        if self.ready_after is None:
            self.ready_after = self.clock.steady() - self._started
            self._record(self.ready_after)

    def _record(self, seconds: float) -> None:
        """Writes an Event with the seconds until the node was ready. When it cannot be written, the node is ready all the same."""
        uid = str(((self._node or {}).get("metadata") or {}).get("uid", ""))
        event = status.ready_event(self.settings.name, uid, self.clock.wall(), seconds, self._refused_until)
        try:
            self._reach().request("POST", "/api/v1/namespaces/default/events", event)
        except Away:
            self.close()

    def _register(self) -> Answer | None:
        """Creates our Node, which is missing after a first certificate; None when the API did not create it."""
        answer = self._reach().request("POST", "/api/v1/nodes", status.node(self.settings.name, self.settings.taints))
        return answer if answer.status == 201 else None

    def _report(self, there: Json) -> None:
        name, before = self.settings.name, there.get("status") or {}
        told = status.status(name, self.look(), self.clock.wall(), before, serving=self.served is not None)
        if self.clock.steady() - self._spoke < SPEAK_EVERY and not status.differs(told, before):
            return
        self._node = self._ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": told}, STRATEGIC).body
        self._spoke = self.clock.steady()

    def _renew_lease(self) -> None:
        name, now = self.settings.name, self.clock.wall()
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        found = self._ask("PATCH", f"{leases}/{name}", status.renewal(name, now), MERGE, missing=True)
        if found.status == 404:
            uid = str(((self._node or {}).get("metadata") or {}).get("uid", ""))
            self._ask("POST", leases, status.lease(name, uid, now))
            self._looked = float("-inf")  # a Lease goes with its Node
        self._renewed = self.clock.steady()
        self.renewals += 1

    # certificates

    def _go_on_ordering(self, pair: Pair) -> float:
        """Continues with certificate orders that are begun or due; returns the seconds until the next look at them."""
        addresses, name, wall = self._addresses(), self.settings.name, self.clock.wall()
        if self.client.begun or (pair.due(name) <= wall and self._spaced(CLIENT)):
            if wait := self._advance(CLIENT, self.client):
                return wait
            self._install_client("renewed the certificate of")
        moved = not self.serving.good_for([name], addresses)
        due = self.served is None or self.served.due(name) <= wall
        if addresses and (self.serving.begun or moved or due) and (moved or self._spaced(SERVING)):
            if wait := self._advance(SERVING, self.serving, [name], addresses):
                return wait
            self._ordered[SERVING] = self.clock.steady()
            self._asking = float("-inf")
            self.served = self.serving.load()
            self._looked = float("-inf")  # look at our Node at once, to report the port that we serve
            self._tell("has a certificate to serve with")
        return RENEW_EVERY

    def _advance(self, purpose: str, order: Order, names: Sequence[str] = (), addresses: Sequence[str] = ()) -> float:
        """The next step of an order; returns the seconds until the one after that, 0 when the certificate is there."""
        try:
            waits = order.advance(self._reach(), names, addresses)
        except Declined as error:
            self._tell(str(error))
            self._ordered[purpose], self._asking = self.clock.steady(), float("-inf")
            return RENEW_EVERY
        if waits:
            self._tell(f"waiting for {waits}")
            return self._ask_again()
        return 0.0

    def _addresses(self) -> tuple[str, ...]:
        """The addresses for the serving certificate: those in our Node's status."""
        told = ((self._node or {}).get("status") or {}).get("addresses") or ()
        return tuple(each["address"] for each in told if each.get("type") == "InternalIP")

    def _spaced(self, purpose: str) -> bool:
        return self.clock.steady() - self._ordered[purpose] >= SPACED

    # speaking

    def _reach(self) -> Api:
        if self._api is None:
            if self.pair is not None and self.client.load() is None:
                self.pair, self._node = None, None
                raise Away("our certificate, or its key, cannot be read any more")
            self._api = self.open(self.settings, self.pair)
        return self._api

    def _ask(
        self, method: str, path: str, body: Json | None = None, kind: str = "application/json", *, missing: bool = False
    ) -> Answer:
        answer = self._reach().request(method, path, body, kind)
        if answer.status in (200, 201) or (missing and answer.status == 404):
            return answer
        raise refused(answer)

    def _tell(self, words: str) -> None:
        """Logs a message once, however often its cause comes again."""
        if words != self._last_word:
            self._last_word = words
            self.say(words)
