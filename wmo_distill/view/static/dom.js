// Elements, numbers and questions to the server. Text is only ever set as text.

export function h(name, props = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(9).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

// What cannot be seen is written as its escape, as the server does with all recorded text; keys and
// words that it sends as they are go through here. What is long is cut.
export function visible(text, most = 200) {
  const seen = text.slice(0, most).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (odd) => `\\u{${odd.codePointAt(0).toString(16)}}`);
  return text.length > most ? `${seen}…` : seen;
}

// The end of a name tells it apart from others: where there is little room, its start is cut.
export function ended(text, tail = 16) {
  const points = [...text];
  if (points.length <= 2 * tail) return [text];
  const part = (name, some) => h("span", { class: name }, some.join(""));
  return [part("start", points.slice(0, -tail)), part("end", points.slice(-tail))];
}

export function ending(text, most = 80) {
  return text.length > most ? `…${visible(text.slice(1 - most), most)}` : visible(text, most);
}

const whole = new Intl.NumberFormat("en");

export function count(n) {
  return n === null || n === undefined ? "–" : whole.format(n);
}

export function number(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  const said = Number.isInteger(x) ? whole.format(x)
    : size >= 1e6 || size < 1e-4 ? x.toExponential(digits - 1)
      : new Intl.NumberFormat("en", { maximumSignificantDigits: digits }).format(x);
  return said.replaceAll("-", "−");
}

export function bytes(n) {
  for (const [unit, scale] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (n >= scale) return `${(n / scale).toFixed(1)} ${unit}`;
  }
  return `${n} B`;
}

export class Refused extends Error {}

async function asked(path, query) {
  const given = Object.entries(query).filter(([, v]) => v !== null && v !== undefined && v !== "");
  const answer = await fetch(`api/${path}?${new URLSearchParams(given)}`);
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Refused(said.error ?? `the server answered ${answer.status}`);
  }
  return answer;
}

export async function ask(path, query = {}) {
  return (await asked(path, query)).json();
}

export async function askText(path, query = {}) {
  const answer = await asked(path, query);
  const [size, next] = ["X-File-Size", "X-File-Next"].map((name) => Number(answer.headers.get(name)));
  return { text: await answer.text(), size, next };
}

// The state of the page is in the address: #/PAGE?KEY=VALUE
export function state() {
  const [page, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { page: page || "list", query: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

export function address(page, query = {}) {
  const given = Object.entries(query).filter(([, v]) => v !== null && v !== undefined && v !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${page === "list" ? "" : page}${text && `?${text}`}`;
}

// What is shown is left at once: keys that follow are for the page that is drawn next.
export function go(page, query) {
  leaveFor(address(page, query));
}

export function leaveFor(hash) {
  const before = location.href;
  location.hash = hash;
  if (location.href !== before) dispatchEvent(new Event("leave"));
}

// Keeps the address true without a step in the history and without drawing the page again.
export function note(changes) {
  const { page, query } = state();
  history.replaceState(null, "", address(page, { ...query, ...changes }));
}

export function failure(error) {
  return h("div", { class: "fault", role: "alert" }, h("h2", {}, "This cannot be shown"), h("p", {}, error.message));
}

export function grade(row) {
  if (!row.measured) return h("span", { class: "chip none" }, "not measured");
  if (row.passed === null) return h("span", { class: "chip none" }, "no verdict");
  return h("span", { class: row.passed ? "chip good" : "chip bad" }, row.passed ? "passed" : "failed");
}

export function title(text) {
  document.title = `${text} · wmo-distill`;
}
