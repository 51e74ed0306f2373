// The list of episodes: filters, sorting and pages.
import { address, ask, count, ended, ending, failure, go, grade, h, note, number, title } from "./dom.js";

const ROWS = 100;
const COLUMNS = [
  ["trial_name", "Trial"], ["task_id", "Task", "wide"], ["attempt", "Attempt", "widest num"],
  ["passed", "Grade"], ["reward", "Reward", "medium num"], ["stop_reason", "Ending"],
  ["n_calls", "Calls", "wide num"], ["output_tokens", "Sampled", "medium num"], ["total_tokens", "Tokens", "widest num"],
  ["policy_versions", "Version", "widest"], ["format", "Format", "wide"], ["n_issues", "Issues", "medium num"],
];
const RARE = { policy_versions: "version", format: "format" }; // not worth a column where all say the same
const FILTERS = [
  ["task_id", "Task"], ["grade", "Grade"], ["stop_reason", "Ending"], ["completion", "Completion"],
  ["issue", "Issue"], ["version", "Version"], ["format", "Format"], ["group_id", "Group"],
  ["agent_name", "Agent"], ["model_name", "Model"],
];
const GRADES = { passed: "passed", failed: "failed", open: "no verdict", unmeasured: "not measured" };

export async function list(main, query, app) {
  title("Episodes");
  let now = { ...query };
  let form = filterBar(now, app, change);
  const body = h("div", { class: "results" });
  main.replaceChildren(
    h("h1", { class: "hidden" }, "Episodes"), form, body);
  let page = null;

  function change(changes, keep = false) {
    now = { ...now, page: "", at: "", ...changes };
    if (keep) note(now);
    else go("list", now);
  }

  async function fill(focus) {
    const start = Number(now.page || 0) * ROWS;
    try {
      page = await ask("episodes", { ...now, page: "", at: "", start, n: ROWS });
    } catch (error) {
      body.replaceChildren(failure(error));
      return;
    }
    if (page.mark === null) waiting(app.start);
    else body.replaceChildren(...table(page, now, start, change, app.start.facets));
    showMarked(app, body);
    if (focus && now.at) linkOf(now.at)?.focus();
  }

  function waiting({ building_parts: parts }) {
    body.replaceChildren(h("div", { class: "empty" },
      h("h2", {}, "Nothing is committed yet"),
      h("p", {}, parts
        ? `A build has finished ${count(parts)} part file${parts === 1 ? "" : "s"}. Episodes appear here with its first commit.`
        : "Episodes appear here when a build has made its first commit.")));
  }

  const links = () => [...body.querySelectorAll("tbody a")];
  const linkOf = (id) => links().find((link) => link.dataset.id === id);
  const move = (step) => () => {
    const all = links();
    const at = all.indexOf(document.activeElement);
    all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))]?.focus();
  };
  const turn = (step) => () => {
    const last = Math.max(0, Math.ceil((page?.found ?? 0) / ROWS) - 1);
    const next = Math.min(last, Math.max(0, Number(now.page || 0) + step));
    if (next !== Number(now.page || 0)) go("list", { ...now, at: "", page: next || "" });
  };
  body.addEventListener("focusin", (event) => {
    const id = event.target.dataset?.id;
    if (id) note((now = { ...now, at: id }));
  });

  await fill(true);
  return {
    update: () => {
      if (!form.contains(document.activeElement)) {
        const next = filterBar(now, app, change);
        form.replaceWith(next);
        form = next;
      }
      return fill(document.activeElement?.dataset?.id !== undefined);
    },
    waiting,
    keys: {
      j: move(1), k: move(-1), ArrowDown: move(1), ArrowUp: move(-1),
      "]": turn(1), "[": turn(-1),
      "/": () => form.querySelector("[name=q]").focus(),
      w: () => form.querySelector("[name=where]").focus(),
      x: () => go("list", {}),
      Escape: () => go("list", {}),
      m: () => mark(document.activeElement?.dataset?.id, app, body),
      d: () => app.marked && document.activeElement?.dataset?.id
        && go("compare", { a: app.marked, b: document.activeElement.dataset.id }),
    },
    help: [["Episodes", [
      ["j k", "next, previous episode"], ["Enter", "open it"], ["] [", "next, previous page"],
      ["/", "search"], ["w", "SQL expression"], ["x", "clear all filters"],
      ["m", "mark for comparison"], ["d", "compare with the marked one"],
    ]]],
  };
}

function mark(id, app, body) {
  if (!id) return;
  app.marked = app.marked === id ? null : id;
  showMarked(app, body);
  app.say(app.marked ? "Marked. Move to another episode and press d to compare them." : "No longer marked.");
}

function showMarked(app, body) {
  for (const link of body.querySelectorAll("tbody a")) {
    const isMarked = link.dataset.id === app.marked;
    link.closest("tr").classList.toggle("marked", isMarked);
    link.parentElement.querySelector(".mark")?.remove();
    if (isMarked) link.before(h("span", { class: "mark chip" }, "marked"));
  }
}

function filterBar(now, app, change) {
  const text = (name, label, hint) => h("label", { class: `field ${name}` }, h("span", {}, label),
    h("input", { name, type: name === "q" ? "search" : "text", value: now[name] ?? "", placeholder: hint,
      autocomplete: "off", spellcheck: "false", onchange: (e) => change({ [name]: e.target.value }) }));
  const facets = app.start.facets;
  const selects = FILTERS.filter(([name]) => now[name] || name === "grade" || (facets[name]?.length ?? 0) > 1);
  const options = (name) => name === "grade"
    ? app.start.grades.map((word) => [word, GRADES[word]])
    : (facets[name] ?? []).map(([word, n]) => [word, `${ending(word)} (${count(n)})`]);
  const inner = selects.map(([name, label]) => {
    const known = options(name);
    if (now[name] && !known.some(([word]) => word === now[name])) known.unshift([now[name], ending(now[name])]);
    return h("label", { class: "field" }, h("span", {}, label),
      h("select", { name, onchange: (e) => change({ [name]: e.target.value }) },
        h("option", { value: "" }, "any"),
        known.map(([word, said]) => h("option", { value: word, selected: word === now[name] }, said))));
  });
  const active = selects.filter(([name]) => now[name]).length;
  return h("form", { class: "filters", role: "search", "aria-label": "Episodes",
    onsubmit: (e) => { e.preventDefault(); change(Object.fromEntries(new FormData(e.target))); } },
    text("q", "Search", "trial, task, exception …"),
    text("where", "SQL expression", "output_tokens > 500 AND reward = 1"),
    h("details", { class: "more", open: active > 0 || innerWidth > 900 },
      h("summary", {}, active ? `Filters (${active})` : "Filters"), h("div", { class: "selects" }, inner)),
    h("button", { type: "submit", class: "hidden" }, "Filter"));
}

function table(page, now, start, change, facets) {
  const sorted = now.sort || "order";
  const columns = COLUMNS.filter(([name]) => !(name in RARE) || facets[RARE[name]].length > 1);
  const head = columns.map(([name, label, kind]) => {
    const here = name === sorted;
    const down = now.down === "1";
    return h("th", { scope: "col", class: kind, "aria-sort": here ? (down ? "descending" : "ascending") : null },
      h("button", { type: "button",
        onclick: () => change({ sort: here && down ? "" : name, down: here && !down ? "1" : "" }) },
        label, h("span", { class: "arrow", "aria-hidden": "true" }, here ? (down ? " ↓" : " ↑") : "")));
  });
  const all = page.found === page.of
    ? `${count(page.of)} episodes` : `${count(page.found)} of ${count(page.of)} episodes`;
  const last = start + page.rows.length;
  const of = Number(now.page || 0);
  const turn = (to, label, off) => off
    ? h("span", { class: "off" }, label)
    : h("a", { href: address("list", { ...now, at: "", page: to || "" }) }, label);
  const pager = h("p", { class: "pager" },
    h("strong", { id: "found" }, all), now.where || now.q ? " found" : "",
    page.found > ROWS ? [
      h("span", {}, `${count(start + 1)}–${count(last)}`),
      turn(of - 1, "‹ previous", of === 0), turn(of + 1, "next ›", last >= page.found)] : null);
  if (!page.rows.length) {
    return [pager, h("div", { class: "empty" }, h("h2", {}, "No episode is left"),
      h("p", {}, h("a", { href: "#/" }, "Clear all filters")))];
  }
  return [pager, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of episodes" },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, page.rows.map((one) => row(one, columns)))))];
}

function row(one, columns) {
  const name = one.trial_name + (one.step_name === null ? "" : ` / ${one.step_name}`);
  const long = { trial_name: name, task_id: one.task_id };
  const cells = {
    trial_name: h("a", { href: address("episode", { id: one.episode_id }), "data-id": one.episode_id, "aria-label": name }, ended(name)),
    task_id: one.task_id === null ? null : h("span", {}, ended(one.task_id)),
    attempt: count(one.attempt), passed: grade(one), reward: number(one.reward),
    stop_reason: [one.stop_reason.replaceAll("_", " "),
      one.completion === "none" ? "" : h("span", { class: "off" }, ` · ${one.completion}`)],
    n_calls: count(one.n_calls), output_tokens: count(one.output_tokens), total_tokens: count(one.total_tokens),
    policy_versions: one.policy_versions.join(", ") || "–",
    n_issues: one.issues.length ? h("span", { title: one.issues.join(", ") }, count(one.issues.length)) : "0",
  };
  return h("tr", {}, columns.map(([name, , kind]) =>
    h("td", { class: `${name} ${kind ?? ""}`, title: long[name] }, cells[name] ?? one[name] ?? "–")));
}
