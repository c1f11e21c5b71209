// What the page knows of the lab, and the line it comes over. The line mends itself: it goes on after the last event it had.

const MOST_EVENTS = 1000;
const FIRST = -300;

export const store = { lab: null, labs: [], readOnly: true, rack: null, events: [], seq: FIRST, line: "connecting" };

const listeners = new Set();
let socket = null;
let tries = 0;
let timer = 0;

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(what, value) {
  for (const listener of [...listeners]) listener(what, value);
}

export class Failure extends Error {
  constructor(status, error) {
    super(error?.what ?? `the page's server answered ${status}`);
    this.status = status;
    this.why = error?.why ?? "";
    this.hint = error?.hint ?? "";
  }
}

async function request(path, options) {
  const answer = await fetch(path, options);
  const type = answer.headers.get("Content-Type") ?? "";
  const body = type.startsWith("application/json") ? await answer.json() : null;
  if (!answer.ok) throw new Failure(answer.status, body?.error);
  return body;
}

export const get = (path) => request(path, {});
export const post = (path, value) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });

export const place = (...parts) => `/api/labs/${[store.lab, ...parts].map(encodeURIComponent).join("/")}`;
export const line = (path) => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;

export function open(lab) {
  store.lab = lab;
  store.rack = null;
  store.events = [];
  store.seq = FIRST;
  tell("lab");
  connect();
}

function connect() {
  clearTimeout(timer);
  if (socket) {
    socket.onclose = null;
    socket.close();
  }
  const mine = new WebSocket(line(`${place("live")}?since=${store.seq}`));
  socket = mine;
  mine.onopen = () => { tries = 0; setLine("live"); };
  mine.onmessage = (message) => { if (mine === socket) take(JSON.parse(message.data)); };
  mine.onclose = async () => {
    setLine("reconnecting");
    const refused = tries >= 1 ? await refusal() : null;
    if (refused === 401) return setLine("ended"); // `rackless web` was started again and does not know this browser: it needs a new link
    if (refused === 404) setLine("gone"); // destroyed; it may be made again
    if (mine === socket) timer = setTimeout(connect, Math.min(250 * 2 ** tries++, 5000));
  };
}

// Why the line was refused, as an HTTP status; null when nobody says.
async function refusal() {
  try {
    await get(place("logs"));
  } catch (error) {
    if (error instanceof Failure) return error.status;
  }
  return null;
}

function setLine(state) {
  store.line = state;
  tell("line");
}

function take(message) {
  if (message.rack) {
    store.rack = message.rack;
    tell("rack", null);
  } else if (message.change) {
    apply(message.change);
  } else if (message.events) {
    takeEvents(message.events);
  }
}

function apply({ servers, order, ...rest }) {
  const known = new Map(store.rack.servers.map((one) => [one.name, one]));
  for (const one of servers) known.set(one.name, one);
  store.rack = { ...store.rack, ...rest, servers: order.map((name) => known.get(name)) };
  tell("rack", new Set(servers.map((one) => one.name)));
}

function takeEvents(batch) {
  for (const one of batch) {
    // a number that goes back is another lab's of the same name: what was known is of the old one
    if (one.seq !== undefined) {
      if (one.seq <= store.seq && store.seq > 0) { store.events = []; tell("events", null); }
      store.seq = one.seq;
    } else if (one.missed) store.seq = one.missed.before - 1;
  }
  store.events.push(...batch);
  if (store.events.length > MOST_EVENTS) store.events.splice(0, store.events.length - MOST_EVENTS);
  tell("events", batch);
}
