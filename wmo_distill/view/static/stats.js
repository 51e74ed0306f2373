// The numbers of `wmo-distill stats --json`, each with its key there.
import { address, ask, h, number, title, visible } from "./dom.js";

const MOST = 200; // rows of a table
const QUANTILES = ["count", "missing", "implausible", "mean", "low", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "high"];

export async function stats(main, query, app) {
  title("Numbers");
  main.replaceChildren(h("p", { class: "hint" }, "Counting …"));
  const numbers = await ask("stats", query);
  const [facts, parts] = [[], []];
  for (const entry of Object.entries(numbers)) (isPlain(entry[1]) || isRate(entry[1]) ? facts : parts).push(entry);
  const datums = app.start.datums;
  const of = query.of === "datums" ? datums : app.start.name;
  words = app.start.words[query.of === "datums" ? "datums" : "records"];
  const links = datums ? h("p", {}, [["", app.start.name], ["datums", datums]].map(([key, name], i) => [i ? " · " : "",
    (query.of ?? "") === key ? h("strong", {}, name) : h("a", { href: address("stats", { ...query, of: key }) }, name)])) : null;
  main.replaceChildren(h("article", { class: "numbers" },
    h("h1", {}, `Numbers of ${of}`), links,
    query.where ? h("p", {}, "Where ", h("code", {}, query.where), ". ", h("a", { href: address("stats", { of: query.of }) }, "All rows")) : null,
    h("p", { class: "hint" }, "As ", h("code", {}, "wmo-distill stats --json"), " has them. A rate is followed by its numerator and denominator, and by its 95 % interval."),
    h("section", { class: "lead" }, rows(facts, "")),
    h("div", { class: "parts" }, parts.map(([name, value]) => part(name, value)))));
  return { keys: {}, help: [], update: () => stats(main, query, app) };
}

const isPlain = (value) => value === null || typeof value !== "object";
const isRate = (value) => !isPlain(value) && "denominator" in value && "numerator" in value;
const isDistribution = (value) => !isPlain(value) && "histogram" in value;
const isEmpty = (value) => !isPlain(value) && Object.keys(value).length === 0;
// In words, as the text of `stats` has them: `groups.3.measured` by `groups.measured`, else `measured`.
let words = {};
function label(path) {
  const last = path.split(".").at(-1);
  const names = path.split(".").filter((name) => !/^[0-9]+$/.test(name));
  return words[names.join(".")] ?? words[last] ?? visible(last.replaceAll("_", " "));
}
const off = (text) => h("span", { class: "off" }, text);
const one = (x, key, said = number(x)) => h("span", { class: "num", "data-key": key, "data-value": x }, said);

function value(x, key) {
  if (x === null) return off("–");
  if (isRate(x)) return rate(x, key);
  if (typeof x === "number") return one(x, key);
  if (isPlain(x)) return visible(String(x));
  if (isEmpty(x)) return off("none");
  if (Array.isArray(x)) return x.every(isPlain) ? x.map((y, i) => [i ? ", " : "", value(y, `${key}.${i}`)]) : table(x, key);
  if (Object.values(x).every(isDistribution)) return distributions(x, key);
  if (isDistribution(x)) return distributions({ [key.split(".").at(-1)]: x }, key.split(".").slice(0, -1).join("."), key);
  return rows(Object.entries(x), key);
}

function rate(x, key) {
  const share = (name) => one(x[name], `${key}.${name}`, (100 * x[name]).toFixed(1));
  const parts = [one(x.numerator, `${key}.numerator`), " of ", one(x.denominator, `${key}.denominator`)];
  if (x.value === null) return h("span", { class: "rate" }, off("– "), parts);
  return h("span", { class: "rate" }, h("strong", {}, share("value"), " %"), " ", parts,
    h("span", { class: "interval" }, " (", share("low"), " to ", share("high"), " %)"));
}

function rows(entries, under) {
  return h("dl", { class: "facts" }, entries.map(([name, x]) => [
    h("dt", {}, label(under ? `${under}.${name}` : name)), h("dd", {}, value(x, under ? `${under}.${name}` : name))]));
}

function part(name, x) {
  const wide = !isEmpty(x) && (Array.isArray(x) ? !x.every(isPlain) : isDistribution(x) || Object.values(x).some(isDistribution));
  return h("section", { class: wide ? "wide" : null, "aria-labelledby": `n-${name}` },
    h("h2", { id: `n-${name}` }, label(name)), h("div", {}, value(x, name)));
}

function scroll(key, ...children) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `table of ${label(key)}` }, children);
}

function table(all, key) {
  const names = [...new Set(all.flatMap((x) => Object.keys(x)))];
  return [scroll(key, h("table", {},
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, label(`${key}.${name}`))))),
    h("tbody", {}, all.slice(0, MOST).map((x, i) => h("tr", {}, names.map((name) =>
      h("td", {}, value(x[name] ?? null, `${key}.${i}.${name}`)))))))),
  all.length > MOST ? h("p", { class: "hint" }, `The first ${MOST} of ${number(all.length)}.`) : null];
}

function distributions(all, key, name = key) {
  const under = (name) => (key ? `${key}.${name}` : name);
  return scroll(name, h("table", {},
    h("thead", {}, h("tr", {}, ["what", "histogram", ...QUANTILES].map((name, i) => h("th", { scope: "col", class: i > 1 ? "num" : null }, label(name))))),
    h("tbody", {}, Object.entries(all).map(([name, x]) => h("tr", {}, h("th", { scope: "row" }, label(under(name))),
      h("td", {}, x.histogram ? bars(x.histogram, label(under(name))) : off("–")),
      QUANTILES.map((q) => h("td", { class: "num" }, x[q] === undefined ? off("–") : value(x[q], `${under(name)}.${q}`))))))));
}

function bars({ edges, counts }, name) {
  const draw = (tag, props) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, x] of Object.entries(props)) element.setAttribute(key, x);
    return element;
  };
  const most = Math.max(...counts, 1);
  const picture = draw("svg", { viewBox: "0 0 96 24", width: 96, height: 24, role: "img", class: "bars",
    "aria-label": `histogram of ${name} from ${number(edges[0])} to ${number(edges.at(-1))}, the highest bar ${number(most)}` });
  const width = 96 / counts.length;
  for (const [i, n] of counts.entries()) {
    if (n) picture.append(draw("rect", { x: i * width, width: Math.max(.75, width - .5), y: 24 - Math.max(1, 24 * n / most), height: 24 }));
  }
  return picture;
}
