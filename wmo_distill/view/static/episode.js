// One episode: its tokens, with what is known of each, and the trial's own files next to them.
import { ask, count, failure, go, grade, h, note, number, title } from "./dom.js";
import { COLOURS, available } from "./colours.js";
import { details, legend } from "./details.js";
import { files } from "./files.js";
import { Stream } from "./stream.js";

const TABS = [["token", "Token"], ["jumps", "Jumps"], ["files", "Files"], ["record", "Record"]];

export async function episode(main, query, app) {
  const about = await ask("episode", { id: query.id });
  title(about.record.trial_name);
  const colours = available(about);
  const first = colours.find((name) => name !== "none") ?? "none";
  const now = {
    ids: !about.has_text || query.view === "ids",
    colour: colours.includes(query.colour) ? query.colour : first,
    tab: query.tab || "token",
  };
  const panel = h("div", { class: "panel", id: "panel", role: "tabpanel", tabindex: "0" });
  const token = h("div", { id: "token" }, h("p", { class: "hint" }, "Point at a token, or move with the arrow keys."));
  const stream = new Stream(about, {
    ...now, label: "Tokens",
    onToken: (one, how) => {
      if (one === null) return;
      token.replaceChildren(details(one, about));
      if (how === "focus") note({ token: one.at });
    },
  });
  stream.onFault = (error) => token.replaceChildren(failure(error));
  const legends = h("div", {}, legend(now.colour, about));
  const choice = h("select", { id: "colour", onchange: (e) => recolour(e.target.value) },
    colours.map((name) => h("option", { value: name, selected: name === now.colour }, COLOURS[name].name)));
  const form = h("button", { type: "button", id: "form", disabled: !about.has_text, "aria-pressed": String(now.ids),
    title: about.has_text ? "Text or ids (t)" : "--tokenizer gives text to ids", onclick: () => toggle() }, "ids");
  const tabs = TABS.map(([name, label]) => h("button", { type: "button", role: "tab", id: `tab-${name}`,
    "aria-controls": "panel", onclick: () => tab(name) }, label));

  main.replaceChildren(h("article", { class: "episode" }, heading(about, app),
    h("div", { class: "tools" }, h("label", { for: "colour" }, "Colour"), choice, form, others(about)),
    h("div", { class: "sides" }, stream.element,
      h("aside", { class: "side", "aria-label": "About the tokens" },
        h("div", { role: "tablist", "aria-label": "About" }, tabs), panel))));

  function recolour(name) {
    now.colour = choice.value = name;
    stream.redraw({ colour: name });
    legends.replaceChildren(legend(name, about));
    note({ colour: name });
  }

  function toggle() {
    if (!about.has_text) return;
    now.ids = !now.ids;
    form.setAttribute("aria-pressed", String(now.ids));
    stream.redraw({ ids: now.ids });
    note({ view: now.ids ? "ids" : "" });
  }

  function tab(name, file = "") {
    now.tab = name;
    for (const [i, [one]] of TABS.entries()) tabs[i].setAttribute("aria-selected", String(one === name));
    panel.setAttribute("aria-labelledby", `tab-${name}`);
    panel.closest(".sides").classList.toggle("reading", name === "files");
    if (name === "token") panel.replaceChildren(token, legends);
    if (name === "jumps") panel.replaceChildren(...jumps(about, stream));
    if (name === "record") panel.replaceChildren(...record(about));
    if (name === "files") files(about.episode_id, panel, file);
    note({ tab: name === "token" ? "" : name, file });
  }

  const breaks = about.calls.filter((call) => call.cause).map((call) => call.start);
  const unlikely = about.unlikely.map((one) => one.at);
  let rank = -1;
  const here = () => stream.current ?? 0;
  const next = (starts) => () => { const to = starts.find((p) => p > here()); if (to !== undefined) stream.goTo(to); };
  const before = (starts) => () => { const to = starts.findLast((p) => p < here()); if (to !== undefined) stream.goTo(to); };
  const starts = about.calls.filter((call) => call.stop > call.start).map((call) => call.start);
  const ranked = (step) => () => {
    if (!unlikely.length) return;
    rank = Math.min(unlikely.length - 1, Math.max(0, rank + step));
    app.say(`${count(rank + 1)} of the ${count(unlikely.length)} least likely tokens`);
    stream.goTo(unlikely[rank]);
  };
  const line = (step) => () => {
    const box = stream.spanAt(here())?.getBoundingClientRect();
    const hit = box && document.elementFromPoint(box.left + box.width / 2, step > 0 ? box.bottom + 12 : box.top - 12);
    stream.goTo(hit?.dataset.p === undefined ? here() + step * 12 : Number(hit.dataset.p), { place: "nearest" });
  };
  const step = (n) => () => stream.goTo(stream.current === null ? 0 : here() + n, { place: "nearest" });

  tab(TABS.some(([name]) => name === now.tab) ? now.tab : "token", query.file);
  if (query.token !== undefined) await stream.goTo(Number(query.token) || 0);
  return {
    stop: () => stream.stop(),
    keys: {
      ArrowRight: step(1), ArrowLeft: step(-1), l: step(1), h: step(-1), ArrowDown: line(1), ArrowUp: line(-1),
      j: next(starts), k: before(starts), b: next(breaks), B: before(breaks), u: ranked(1), U: ranked(-1),
      Home: () => stream.goTo(0), End: () => stream.goTo(about.tokens - 1),
      t: toggle, c: () => recolour(colours[(colours.indexOf(now.colour) + 1) % colours.length]),
      1: () => tab("token"), 2: () => tab("jumps"), 3: () => tab("files"), 4: () => tab("record"),
      d: () => (app.marked && app.marked !== about.episode_id
        ? go("compare", { a: app.marked, b: about.episode_id })
        : about.others.length && go("compare", { a: about.episode_id, b: about.others[0].episode_id })),
      m: () => { app.marked = about.episode_id; app.say("Marked. Open another episode and press d to compare them."); },
      Escape: () => (history.length > 1 ? history.back() : go("list", {})),
    },
    help: [["Tokens", [
      ["← →", "token before, after"], ["↑ ↓", "line above, below"], ["j k", "next, previous call"],
      ["b B", "next, previous break"], ["u U", "less, more unlikely token"], ["t", "text or ids"],
      ["c", "next colour"], ["1 2 3 4", "token, jumps, files, record"], ["m", "mark for comparison"],
      ["d", "compare with the marked one, or another attempt"]]]],
  };
}

function heading(about, app) {
  const { record } = about;
  const others = about.calls.length - record.n_calls;
  const facts = [record.task_id, record.attempt === null ? null : `attempt ${record.attempt}`,
    record.stop_reason.replaceAll("_", " "), record.completion === "none" ? null : `completion ${record.completion}`,
    record.model_name, record.policy_version && `version ${record.policy_version}`,
    `${count(record.n_calls)} calls`, `${count(record.output_tokens)} sampled`,
    others > 0 ? `${count(others)} calls in other chats` : null];
  const other = about.datums_of_other_rows
    ? h("p", { class: "warning" }, `${app.start.datums} was made from another state of this dataset: what it says may be missing here.`) : null;
  const doubt = about.doubt
    ? h("p", { class: "warning" }, `Token ids, not text: the tokenizer cannot be the one of these ids: ${about.doubt}`) : null;
  const lost = about.sequences.filter((one) => !one.matched).length;
  return h("div", { class: "heading" },
    h("h1", {}, record.trial_name, record.step_name === null ? "" : ` / ${record.step_name}`),
    h("p", {}, grade({ ...record, measured: about.measured }),
      record.reward === null ? "" : ` reward ${number(record.reward)}`, " · ", facts.filter(Boolean).join(" · ")),
    about.issues.length ? h("ul", { class: "issues" }, about.issues.map((one) =>
      h("li", { title: one.meaning }, one.code.replaceAll("_", " "), one.n > 1 ? ` × ${one.n}` : ""))) : null,
    lost ? h("p", { class: "warning" }, `${count(lost)} training sequences of this episode fit none of its calls.`) : null, doubt, other);
}

function others(about) {
  if (!about.others.length) return null;
  return h("label", {}, "Compare ", h("select", { id: "others",
    onchange: (e) => e.target.value && go("compare", { a: about.episode_id, b: e.target.value }) },
    h("option", { value: "" }, "with another attempt"),
    about.others.map((one) => h("option", { value: one.episode_id },
      `${one.attempt === null ? "" : `attempt ${one.attempt}, `}${!one.measured ? "not measured" : one.passed ? "passed" : "failed"}, ${one.trial_name}`))));
}

function jumps(about, stream) {
  const to = (at, ...words) => h("li", {}, h("button", { type: "button", class: "jump", onclick: () => stream.goTo(at) }, words));
  const breaks = about.calls.filter((call) => call.cause);
  const some = (all) => all.slice(0, 300);
  return [
    h("h2", {}, `Breaks (${count(breaks.length)})`),
    breaks.length ? h("ol", {}, some(breaks).map((call) => to(call.start, `call ${call.call_index}`, call.segment ? `, chat ${call.segment}` : "", `: ${call.cause.replaceAll("_", " ")}`)))
      : h("p", { class: "hint" }, "Every prompt extends all that came before."),
    h("h2", {}, `Least likely tokens (${count(about.unlikely.length)})`),
    h("ol", {}, about.unlikely.map((one) => to(one.at, h("span", { class: "num" }, number(one.logprob)), " ",
      one.text ? h("code", { class: "said" }, one.text.replaceAll("\n", "↵")) : `id ${one.id}`))),
    h("h2", {}, `Calls (${count(about.calls.length)})`),
    h("ol", {}, some(about.calls).map((call) => to(call.start, `call ${call.call_index}`, call.segment ? `, chat ${call.segment}` : "",
      `: ${count(call.stop - call.sampled_at)} sampled`))),
  ];
}

function record(about) {
  const said = (value) => {
    if (value === null) return "–";
    if (Array.isArray(value)) return value.map(said).join(", ") || "none";
    if (typeof value === "object") return Object.entries(value).map(([k, v]) => `${k} ${said(v)}`).join(", ");
    return typeof value === "number" ? number(value, 8) : String(value);
  };
  return [
    about.issues.length ? h("section", {}, h("h2", {}, "Issues"),
      h("dl", { class: "facts" }, about.issues.map((one) => [h("dt", {}, `${one.code} × ${one.n}`), h("dd", {}, one.meaning)]))) : null,
    h("section", {}, h("h2", {}, "Columns"), h("dl", { class: "facts" }, Object.entries(about.record).map(([name, value]) =>
      [h("dt", {}, name), h("dd", {}, said(value))]))),
  ].filter(Boolean);
}
