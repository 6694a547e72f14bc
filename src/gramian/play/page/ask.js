// Questions to the server: one at a time for each room, the newest state wins, slow ones tell of their progress.
const page = Array.from(crypto.getRandomValues(new Uint32Array(2)), (n) => n.toString(36)).join("");
const PATIENCE = 300; // milliseconds
let number = 0;

const post = (path, body, signal) => fetch(path, { method: "POST", body: JSON.stringify(body), signal });

export function revive(value) {
  if (Array.isArray(value)) return value.map(revive);
  if (value === null || typeof value !== "object") return value;
  if ("float32" in value) {
    const bytes = Uint8Array.from(atob(value.float32), (c) => c.charCodeAt(0));
    const flat = Array.from(new Float32Array(bytes.buffer));
    const [rows, columns] = value.shape;
    if (value.shape.length === 1) return flat;
    return Array.from({ length: rows }, (_, i) => flat.slice(i * columns, (i + 1) * columns));
  }
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, revive(v)]));
}

async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (text + value).split("\n");
    text = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

// The answer to one question; `progress` hears of slow ones.
export async function askOnce(room, state, { signal, progress = () => {} } = {}) {
  const response = await post(`ask/${room}`, { page, number: ++number, state }, signal);
  if (!response.ok) throw new Error((await response.json()).error);
  for await (const line of lines(response)) {
    if (line.progress) progress(line.progress);
    else if (line.dropped) throw new DOMException("dropped", "AbortError");
    else if (line.error) throw new Error(line.error);
    else return revive(line.answer);
  }
  throw new Error("the server went away; start gramian play again.");
}

export class Asker {
  constructor(room, heard) {
    Object.assign(this, { room, heard, wanted: null, busy: false });
  }

  ask(state) {
    this.wanted = structuredClone(state);
    if (!this.busy) this.run();
    else if (performance.now() - this.begun > PATIENCE) this.cancel();
  }

  cancel() {
    this.controller?.abort();
    post(`cancel/${this.room}`, { page, number: ++number }).catch(() => {});
  }

  async run() {
    this.busy = true;
    while (this.wanted) {
      const state = this.wanted;
      this.wanted = null;
      this.begun = performance.now();
      this.controller = new AbortController();
      try {
        const answer = await askOnce(this.room, state, { signal: this.controller.signal, progress: this.heard.progress });
        this.heard.answer(answer, state, performance.now() - this.begun);
      } catch (error) {
        if (error.name === "AbortError") this.heard.dropped();
        else this.heard.error(error.message === "Failed to fetch" ? "no answer: is gramian play still running?" : error.message);
      }
    }
    this.busy = false;
  }
}
