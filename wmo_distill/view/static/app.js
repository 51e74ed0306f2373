// Pages by address, keys of all pages, and the news that a build brings.
import { ask, count, failure, go, h, state } from "./dom.js";
import { Keys } from "./keys.js";
import { compare } from "./compare.js";
import { episode } from "./episode.js";
import { list } from "./list.js";
import { stats } from "./stats.js";

const PAGES = { list, episode, compare, stats };
const POLL = 3000;
const main = document.getElementById("main");
const news = document.getElementById("news");
const help = document.getElementById("help");

const app = { start: null, mark: null, say };
let shown = null; // what the page gave: keys, a help table, update(), stop(); null while it is drawn
let drawing = 0;

function say(text) {
  news.textContent = text;
}

const KEYS = [
  ["?", "these keys"], ["g e", "list of episodes"], ["g s", "numbers"], ["Esc", "back"],
];

async function draw() {
  const turn = ++drawing;
  const { page, query } = state();
  leave();
  for (const link of document.querySelectorAll("nav [data-page]")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    if (app.start === null) await begin();
    const next = await (PAGES[page] ?? list)(main, query, app);
    if (turn === drawing) shown = next;
    else next?.stop?.();
  } catch (error) {
    if (turn !== drawing) return;
    main.replaceChildren(failure(error));
    shown = { failed: true };
  }
  if (turn === drawing) keys.replay();
}

function leave() {
  shown?.stop?.();
  shown = null;
}

async function begin() {
  app.start = await ask("start");
  app.mark = app.start.mark;
  document.getElementById("name").textContent = app.start.name;
}

async function poll() {
  try {
    if (!document.hidden) {
      const now = await ask("state");
      if (news.dataset.lost) say("");
      delete news.dataset.lost;
      if (app.start !== null && (now.mark !== app.mark || now.building_parts !== app.start.building_parts)) {
        await changed(now);
      }
    }
  } catch {
    news.dataset.lost = "1";
    say("No answer: the server has ended, or this machine slept. What is shown may be old.");
  }
  setTimeout(poll, POLL);
}

async function changed(now) {
  const before = app.start.episodes;
  const committed = now.mark !== app.mark;
  await begin();
  if (!committed) {
    shown?.waiting?.(now);
    return;
  }
  const more = app.start.episodes - before;
  say(`The dataset was updated: ${count(app.start.episodes)} episodes${more > 0 ? `, ${count(more)} more` : ""}.`);
  if (shown?.update) await shown.update();
  else if (shown === null || shown.failed) await draw();
}

function showHelp() {
  const table = (title, keys) => [
    h("h3", {}, title),
    h("dl", { class: "keys" }, keys.map(([key, about]) => [
      h("dt", {}, key.split(" ").map((one) => h("kbd", {}, one))), h("dd", {}, about)])),
  ];
  help.replaceChildren(
    h("h2", { id: "help-title" }, "Keys"),
    ...table("Everywhere", KEYS),
    ...(shown?.help ?? []).flatMap(([title, keys]) => table(title, keys)),
    h("button", { type: "button", onclick: () => help.close() }, "Close"),
  );
  help.showModal();
}

let before = "";
function press(key) {
  const keys = before === "g" ? `g ${key}` : key;
  before = key;
  const act = { "?": showHelp, "g e": () => go("list", {}), "g s": () => go("stats", {}) }[keys] ?? shown.keys?.[keys];
  if (!act) return false;
  before = "";
  act();
  return true;
}

const keys = new Keys(() => shown !== null && !help.open, press);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const typing = event.target.closest?.("input, select, textarea");
  if (typing && event.key !== "Escape") return;
  if (typing) {
    typing.blur();
    main.focus();
    event.preventDefault();
  } else if (shown === null) keys.keep(event);
  else if (press(event.key)) event.preventDefault();
});
addEventListener("pointerdown", () => keys.forget());
addEventListener("leave", leave);

document.getElementById("help-button").addEventListener("click", showHelp);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => {
  if (!news.dataset.lost) say(""); // what was said of the page before
  draw();
});
draw();
setTimeout(poll, POLL);
