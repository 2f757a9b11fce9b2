// The page's live connection, as the interface describes it: the server only says what changed, the page re-fetches.
// A lost message, a lost connection or a sleeping laptop costs latency, never truth:
//   * a fragment is fetched again when the server names a newer version than the one it shows,
//   * after every reconnect, and at least every 30 s (or every `data-live-every` seconds), connected or not,
//   * the connection carries a heartbeat every 20 s; silence for 50 s counts as lost; reconnects are jittered.
// A fragment says `data-live-topic="session:<id>"` (several: separated by spaces), `data-live-version` where it has one,
// and listens to the event `live` (hx-trigger="live").

import { htmx } from "./fragments.js";

export const HEARTBEAT = 20_000;
export const SILENCE = 50_000;
export const STALE = 30_000;
export const FIRST_DELAY = 500;
export const LONGEST_DELAY = 20_000;
const REFUSED = new Set([4401, 4403]); // the server says: signed out, or not allowed

/** Time to wait before try number `attempt` (from 0): full jitter below a doubling bound. */
export const delayBefore = (attempt, random = Math.random) =>
  Math.round(FIRST_DELAY / 2 + random() * Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** attempt));

/** Whether a fragment that shows `shown` must be fetched again when the server says `told`; unknown versions must. */
export const isNewer = (told, shown) => !(Number(told) <= Number(shown));

const fragments = () => [...document.querySelectorAll("[data-live-topic]")];
const topicsOf = (element) => element.dataset.liveTopic.split(/\s+/).filter(Boolean);
const fetchedAt = new WeakMap();
const pageAt = Date.now();

/** Somebody types or chooses inside: the refresh waits for the next round. */
const isBusy = (element) =>
  element.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");

function refresh(element) {
  if (isBusy(element)) return;
  fetchedAt.set(element, Date.now());
  htmx.trigger(element, "live");
}

class Live {
  #socket = null;
  #attempt = 0;
  #subscribed = new Set();
  #heardAt = 0;
  #retry = 0;
  #everOpen = false;

  constructor(address) {
    this.address = address;
  }

  connect() {
    clearTimeout(this.#retry);
    if (this.#socket || !navigator.onLine) return;
    const socket = new WebSocket(this.address);
    this.#socket = socket;
    this.#heardAt = Date.now();
    socket.addEventListener("open", () => {
      this.#attempt = 0;
      this.#heardAt = Date.now();
      this.#subscribed.clear();
      this.follow();
      if (this.#everOpen) fragments().forEach(refresh);
      this.#everOpen = true;
      showConnection("live");
    });
    socket.addEventListener("message", (event) => this.#hear(event.data));
    socket.addEventListener("close", (event) => this.#lost(socket, event.code));
  }

  /** Subscribes to what the page shows now, and leaves what it shows no more. */
  follow() {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    const wanted = new Set(fragments().flatMap(topicsOf));
    const fresh = [...wanted].filter((topic) => !this.#subscribed.has(topic));
    const gone = [...this.#subscribed].filter((topic) => !wanted.has(topic));
    if (fresh.length) this.#say({ subscribe: fresh });
    if (gone.length) this.#say({ unsubscribe: gone });
    this.#subscribed = wanted;
  }

  beat() {
    if (!this.#socket) return;
    if (Date.now() - this.#heardAt > SILENCE) this.#drop();
    else if (this.#socket.readyState === WebSocket.OPEN) this.#say({ ping: Date.now() });
  }

  #say(message) {
    this.#socket.send(JSON.stringify(message));
  }

  #hear(text) {
    this.#heardAt = Date.now();
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return; // not ours; the next sweep fetches anyway
    }
    if (!message.topic) return;
    for (const element of fragments()) {
      if (topicsOf(element).includes(message.topic) && isNewer(message.version, element.dataset.liveVersion)) {
        refresh(element);
      }
    }
  }

  /** A connection that fell silent: its close event may take minutes, so it counts as lost at once. */
  #drop() {
    const socket = this.#socket;
    this.#lost(socket, 1006);
    socket.close();
  }

  #lost(socket, code) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    if (REFUSED.has(code)) {
      location.reload();
      return;
    }
    showConnection("waiting");
    this.#retry = setTimeout(() => this.connect(), delayBefore(this.#attempt++));
  }
}

/** The words beside the dot: live, or that the page is waiting for its connection. Fragments still refresh meanwhile. */
function showConnection(state) {
  document.documentElement.dataset.connection = state;
}

/** Fetches again whatever is older than 30 s, unless nobody looks at the page. */
function sweep() {
  if (document.hidden) return;
  for (const element of fragments()) {
    const limit = Number(element.dataset.liveEvery) * 1_000 || STALE;
    if (Date.now() - (fetchedAt.get(element) ?? pageAt) >= limit) refresh(element);
  }
}

function showFreshness() {
  const shown = fragments();
  const oldest = shown.length ? Math.min(...shown.map((element) => fetchedAt.get(element) ?? pageAt)) : pageAt;
  const seconds = Math.max(0, Math.round((Date.now() - oldest) / 1000));
  for (const element of document.querySelectorAll("[data-fresh]")) {
    element.textContent = element.dataset.fresh.replace("{n}", String(seconds));
  }
}

export function startLive() {
  const path = document.body.dataset.live;
  if (!path) return;
  const address = new URL(path, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const live = new Live(address);
  live.connect();
  setInterval(() => live.beat(), HEARTBEAT);
  setInterval(sweep, 1_000);
  setInterval(showFreshness, 1_000);
  document.addEventListener("htmx:afterSettle", (event) => {
    const fragment = event.target.closest?.("[data-live-topic]");
    if (fragment) fetchedAt.set(fragment, Date.now());
    live.follow();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) {
      live.connect();
      sweep();
    }
  });
  addEventListener("online", () => live.connect());
  addEventListener("pageshow", (event) => {
    if (event.persisted) fragments().forEach(refresh);
  });
}
