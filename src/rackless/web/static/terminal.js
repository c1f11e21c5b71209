// A server's console. The terminal is emulated on the other side; here are its rows as text, and keys on their way.

import { h } from "./dom.js";
import { line, place } from "./store.js";

const KEYS = {
  Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~", Insert: "\x1b[2~", Home: "\x1b[H", End: "\x1b[F",
  PageUp: "\x1b[5~", PageDown: "\x1b[6~", ArrowUp: "\x1b[A", ArrowDown: "\x1b[B", ArrowRight: "\x1b[C", ArrowLeft: "\x1b[D",
  F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS", F5: "\x1b[15~", F6: "\x1b[17~", F7: "\x1b[18~", F8: "\x1b[19~", F9: "\x1b[20~",
  F10: "\x1b[21~", F11: "\x1b[23~", F12: "\x1b[24~",
};
const MOST_SCROLLED = 1000;
const PIECE = 512;

export class Terminal {
  constructor(server, said) {
    this.server = server;
    this.said = said;
    this.rows = [];
    this.cursor = null;
    this.scrolled = h("div", {});
    this.screen = h("div", {});
    this.keys = h("textarea", {
      "aria-label": `Keys for the console of ${server}; Control and ] leaves it`, autocapitalize: "off", autocomplete: "off", spellcheck: "false", rows: 1, tabindex: -1, // whoever tabs through the page passes the console by: in here Tab is a key like others
      keydown: (event) => this.struck(event), input: () => this.typed(),
    });
    this.element = h("div", { class: "terminal", tabindex: "0", role: "group", "aria-label": `Serial console of ${server}; Enter begins to type`,
      click: () => { if (!String(getSelection())) this.keys.focus({ preventScroll: true }); },
      keydown: (event) => {
        if (event.target !== this.element || event.key !== "Enter") return;
        event.preventDefault();
        this.keys.focus({ preventScroll: true });
      },
    },
      this.scrolled, this.screen, this.keys);
    this.tries = 0;
    this.connect();
  }

  connect() {
    this.socket = new WebSocket(line(place("servers", this.server, "console")));
    this.socket.onmessage = (message) => this.take(JSON.parse(message.data));
    this.socket.onclose = () => {
      if (this.closed) return;
      this.timer = setTimeout(() => this.connect(), Math.min(500 * 2 ** this.tries++, 8000));
    };
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket.close();
  }

  // The power of its server; null while the lab's daemon is away.
  power(power) {
    this.now = power ?? null;
    const before = this.now === "off" ? "The server is off; this is what it showed. " : this.now ? "" : "Whether the server is on is not known now; this is what it showed. ";
    if (this.typing !== undefined) this.said(`${before}${this.typing ? "Click, or press Enter here, to type; Ctrl-] leaves." : "You may look."}`);
  }

  take(message) {
    if (message.error) return this.said([message.error.what, message.error.why, message.error.hint].filter(Boolean).join(". "));
    if (message.typing !== undefined) {
      this.tries = 0;
      this.rows = [];
      this.scrolled.replaceChildren();
      this.screen.replaceChildren();
      this.keys.disabled = !message.typing;
      this.typing = message.typing;
      return this.power(message.on ? "on" : this.now);
    }
    const atEnd = this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < 40;
    for (const runs of message.scrolled) this.scrolled.append(h("pre", {}, spans(runs)));
    while (this.scrolled.childElementCount > MOST_SCROLLED) this.scrolled.firstElementChild.remove();
    for (const [row, runs] of Object.entries(message.rows)) this.draw(Number(row), runs);
    this.move(message.cursor);
    if (atEnd) this.element.scrollTop = this.element.scrollHeight;
  }

  draw(row, runs) {
    while (this.rows.length <= row) {
      this.rows.push([]);
      this.screen.append(h("pre", {}));
    }
    this.rows[row] = runs;
    this.screen.children[row].replaceChildren(...spans(runs));
  }

  move([x, y, visible]) {
    if (this.cursor !== null && this.rows[this.cursor]) this.screen.children[this.cursor].replaceChildren(...spans(this.rows[this.cursor]));
    this.cursor = null;
    // empty rows below the cursor and the last text are not shown
    const last = this.rows.findLastIndex((runs) => runs.length);
    this.rows.forEach((_, row) => { this.screen.children[row].hidden = row > Math.max(last, y); });
    if (!visible) return;
    if (!this.rows[y]) this.draw(y, []);
    this.cursor = y;
    this.screen.children[y].replaceChildren(...withCursor(this.rows[y], x));
  }

  struck(event) {
    if (event.ctrlKey && event.key === "]") {
      event.preventDefault();
      return this.element.focus();
    }
    if (event.isComposing || event.metaKey) return;
    let keys = event.ctrlKey || event.altKey ? null : KEYS[event.key];
    if (event.ctrlKey && !event.altKey && /^[a-z@[\\^_]$/i.test(event.key)) {
      if (event.key.toLowerCase() === "v") return; // paste is the browser's
      keys = String.fromCharCode(event.key.toUpperCase().charCodeAt(0) & 31);
    }
    if (!keys) return;
    event.preventDefault();
    this.send(keys);
  }

  typed() {
    const text = this.keys.value.replaceAll("\n", "\r");
    this.keys.value = "";
    this.send(text);
  }

  send(text) {
    for (let at = 0; at < text.length; at += PIECE) if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text.slice(at, at + PIECE));
  }
}

function looks(look) {
  return look ? look.split(" ").map((word) => `t-${word}`).join(" ") : null;
}

function spans(runs) {
  return runs.map(([text, look]) => (look ? h("span", { class: looks(look) }, text) : document.createTextNode(text)));
}

function withCursor(runs, x) {
  const found = [];
  let at = 0;
  for (const [text, look] of runs) {
    const signs = [...text];
    if (x >= at && x < at + signs.length) {
      const here = x - at;
      if (here) found.push([signs.slice(0, here).join(""), look]);
      found.push(h("span", { class: "cursor" }, signs[here]));
      if (here + 1 < signs.length) found.push([signs.slice(here + 1).join(""), look]);
    } else found.push([text, look]);
    at += signs.length;
  }
  if (x >= at) found.push([" ".repeat(x - at), ""], h("span", { class: "cursor" }, " "));
  return found.flatMap((one) => (one instanceof Node ? [one] : spans([one])));
}
