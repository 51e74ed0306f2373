// An episode's tokens in blocks, of which those near the window alone are filled.
import { ask, count, h } from "./dom.js";
import { COLOURS } from "./colours.js";

const BLOCK = 160; // tokens
const CHUNK = 2000; // tokens of one question
const CHUNKS = 40; // that are kept
const FIELDS = {
  logprob: "logprobs", advantage: "advantages", teacher: "teacher_logprobs", rescored: "rescored_logprobs",
  mask: "mask", sequence: "sequence", version: "version", masked: "masked", text: "text", kind: "kind",
};

export class Stream {
  constructor(about, { ids, colour, onToken, label, level = "h2" }) {
    this.about = about;
    this.ids = ids;
    this.colour = colour;
    this.onToken = onToken;
    this.level = level;
    this.observers = [];
    this.chunks = new Map();
    this.current = null; // position of the token with the focus
    this.element = h("div", { class: "stream", role: "group", "aria-label": label, tabindex: "0" });
    this.blocks = [];
    this.element.append(...about.calls.flatMap((call, n) => this.ofCall(call, n)));
    if (!about.tokens) this.element.append(h("p", { class: "empty" }, "No token of this episode is recorded."));
    // Filled when near, emptied when far: were both one distance, a block whose size changes as it is
    // filled could go to and fro at the edge.
    this.watch("600px 0px", (block, inside) => inside && this.fill(block).catch((error) => this.onFault?.(error)));
    this.watch("3000px 0px", (block, inside) => { block.near = inside; if (!inside) this.empty(block); });
    const point = (event, how) => {
      const at = event.target.dataset?.p;
      if (at !== undefined) this.onToken(this.token(Number(at)), how);
    };
    this.element.addEventListener("mouseover", (event) => point(event, "hover"));
    this.element.addEventListener("focusin", (event) => {
      if (event.target.dataset.p !== undefined) this.current = Number(event.target.dataset.p);
      point(event, "focus");
    });
    this.element.addEventListener("click", (event) => {
      if (event.target.dataset.p !== undefined && !String(getSelection())) event.target.focus();
    });
  }

  ofCall(call, n) {
    const { segments, calls } = this.about;
    const first = n === 0 || calls[n - 1].segment !== call.segment;
    const kind = segments[call.segment]?.kind ?? "main";
    const facts = [
      `prompt ${count(call.kept + call.sampled_at - call.start)}`,
      call.recorded ? `sampled ${count(call.stop - call.sampled_at)}` : "completion not recorded",
      call.finish_reason, call.used === false ? "superseded" : null,
    ].filter(Boolean);
    const head = h("div", { class: "call", "data-call": n },
      first && call.segment > 0 ? h(this.level, { class: "segment" }, `Chat ${call.segment}, ${kind}`) : null,
      h(this.level, {}, `Call ${call.call_index}`, h("span", { class: "facts" }, facts.join(" · "))),
      call.cause ? h("p", { class: "break" }, h("strong", {}, "Break: "), call.cause.replaceAll("_", " "),
        `, ${count(call.lost)} ids of the history left out`) : null,
      call.kept ? h("p", { class: "kept" }, this.history(call)) : null);
    return [head, this.run(call.start, call.sampled_at, "context"), this.run(call.sampled_at, call.stop, "sampled")];
  }

  history(call) {
    const words = `${count(call.kept)} ids as before`;
    return h("button", { type: "button", tabindex: "-1", title: "Go to where this history ends",
      onclick: () => this.goTo(this.placeOf(call, call.kept - 1)) }, `⋯ ${words}`);
  }

  // Where token k of a call's prompt is on the line: in the call before, or before that.
  placeOf(call, k) {
    let n = this.about.calls.indexOf(call);
    while (n > 0 && k < this.about.calls[n].kept) n -= 1;
    return this.about.calls[n].start + k - this.about.calls[n].kept;
  }

  // What a prompt adds, or what was sampled: blocks that flow into each other once they are filled.
  run(start, stop, kind) {
    if (start === stop) return null;
    const run = h("div", { class: `run ${kind}` });
    for (let at = start; at < stop; at += BLOCK) {
      const block = { start: at, stop: Math.min(stop, at + BLOCK), filled: false, near: false };
      block.element = h("div", { class: "block" });
      block.element.block = block;
      block.element.style.minHeight = `${Math.ceil((block.stop - at) / (this.ids ? 12 : 16)) * 1.75}em`;
      this.blocks.push(block);
      run.append(block.element);
    }
    return run;
  }

  watch(rootMargin, act) {
    const observer = new IntersectionObserver((all) => {
      for (const { target, isIntersecting } of all) act(target.block, isIntersecting);
    }, { root: this.element, rootMargin });
    for (const block of this.blocks) observer.observe(block.element);
    this.observers.push(observer);
  }

  empty(block) {
    if (!block.filled || block.element.contains(document.activeElement)) return;
    block.element.style.minHeight = `${block.element.offsetHeight}px`;
    block.element.classList.remove("filled");
    block.element.replaceChildren();
    block.filled = false;
  }

  async fill(block) {
    await this.load(block.start, block.stop);
    if (!block.filled && (block.near || block.wanted)) this.draw(block);
  }

  draw(block) {
    const all = document.createDocumentFragment();
    for (let p = block.start; p < block.stop; p += 1) all.append(this.span(p));
    block.element.replaceChildren(all);
    block.element.classList.add("filled");
    block.filled = true;
  }

  span(p) {
    const token = this.token(p);
    const span = document.createElement("span");
    span.dataset.p = p;
    span.tabIndex = p === (this.current ?? 0) ? 0 : -1;
    const joined = token.text === null && this.about.has_text;
    const known = this.about.has_text && token.kind !== 3;
    if (this.ids || !known) span.textContent = this.ids ? token.id : `[${token.id}]`;
    else span.textContent = joined ? "·" : token.text.replaceAll("\n", "↵\n") || "∅";
    const kind = this.ids ? "id" : joined ? "joined" : ["text", "special", "bytes", "id", "secret"][known ? token.kind : 3];
    span.className = `t ${kind} ${this.classOf(token)}`;
    return span;
  }

  classOf(token) {
    return COLOURS[this.colour].class(token, this.about.colours[this.colour]);
  }

  // Colour or form of all filled blocks anew.
  redraw({ ids = this.ids, colour = this.colour }) {
    const focused = this.element.contains(document.activeElement) ? this.current : null;
    const top = this.firstSeen();
    Object.assign(this, { ids, colour });
    for (const block of this.blocks.filter((one) => one.filled)) this.draw(block);
    if (focused !== null) this.spanAt(focused)?.focus({ preventScroll: true });
    if (top !== null) this.spanAt(focused ?? top)?.scrollIntoView({ block: focused === null ? "start" : "nearest" });
  }

  firstSeen() {
    const edge = this.element.getBoundingClientRect().top;
    const block = this.blocks.find((b) => b.filled && b.element.getBoundingClientRect().bottom > edge);
    const span = block && [...block.element.children].find((s) => s.getBoundingClientRect().bottom > edge);
    return span ? Number(span.dataset.p) : null;
  }

  async load(start, stop) {
    const wanted = [];
    for (let n = Math.floor(start / CHUNK); n * CHUNK < stop; n += 1) {
      if (!this.chunks.has(n)) {
        const query = { id: this.about.episode_id, start: n * CHUNK, stop: (n + 1) * CHUNK };
        const answer = ask("tokens", query).then((slice) => this.chunks.set(n, slice));
        this.chunks.set(n, answer);
        answer.catch(() => this.chunks.delete(n));
      }
      wanted.push(this.chunks.get(n));
    }
    await Promise.all(wanted);
    for (const [n, chunk] of this.chunks) {
      if (this.chunks.size <= CHUNKS) break;
      if (!(chunk instanceof Promise) && !wanted.includes(chunk)) this.chunks.delete(n);
    }
  }

  // All that is known of a token; null for what is not.
  token(p) {
    const slice = this.chunks.get(Math.floor(p / CHUNK));
    if (!slice || slice instanceof Promise) return null;
    const at = p - slice.start;
    const token = { at: p, id: slice.ids[at], sampled: slice.sampled[at], call: this.about.calls[slice.call[at]] };
    for (const [name, column] of Object.entries(FIELDS)) token[name] = slice[column]?.[at] ?? null;
    return token;
  }

  blockAt(p) {
    let [low, high] = [0, this.blocks.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.blocks[middle].start <= p) low = middle;
      else high = middle - 1;
    }
    return this.blocks[low];
  }

  spanAt(p) {
    const block = this.blockAt(p);
    return block?.filled ? block.element.children[p - block.start] : null;
  }

  async goTo(p, { focus = true, place = "center" } = {}) {
    if (!this.blocks.length) return;
    p = Math.min(Math.max(0, p), this.about.tokens - 1);
    const block = this.blockAt(p);
    block.wanted = true;
    await this.fill(block);
    block.wanted = false;
    const old = this.current === null ? null : this.spanAt(this.current);
    if (old) old.tabIndex = -1;
    this.current = p;
    const span = this.spanAt(p);
    span.tabIndex = 0;
    if (focus) span.focus({ preventScroll: true });
    span.scrollIntoView({ block: place });
    // Blocks above get their true heights a moment later.
    setTimeout(() => { if (this.current === p) this.spanAt(p)?.scrollIntoView({ block: "nearest" }); }, 150);
  }

  stop() {
    for (const observer of this.observers) observer.disconnect();
  }
}
