// Two episodes next to each other, and where they differ first.
import { address, ask, count, go, grade, h, note, number, title } from "./dom.js";
import { COLOURS, available } from "./colours.js";
import { details, legend } from "./details.js";
import { Stream } from "./stream.js";

export async function compare(main, query) {
  const ids = [query.a, query.b];
  const [abouts, difference] = await Promise.all([
    Promise.all(ids.map((id) => ask("episode", { id }))), ask("difference", { a: query.a, b: query.b })]);
  title(`${abouts[0].record.trial_name} and ${abouts[1].record.trial_name}`);
  const colours = available(abouts[0]).filter((name) => available(abouts[1]).includes(name));
  const text = abouts.every((about) => about.has_text);
  const now = {
    ids: !text || query.view === "ids",
    colour: colours.includes(query.colour) ? query.colour : colours[1] ?? "none",
  };
  let active = 0;
  const token = h("div", { id: "token" }, h("p", { class: "hint" }, "Point at a token, or move with the arrow keys."));
  const streams = abouts.map((about, side) => new Stream(about, {
    ...now, level: "h3", label: `${side ? "Right" : "Left"}: tokens of ${about.record.trial_name}`,
    onToken: (one, how) => {
      if (one === null) return;
      if (how === "focus") { active = side; note({ token: one.at, side }); }
      token.replaceChildren(h("h2", {}, side ? "Right" : "Left"), details(one, about));
    },
  }));
  const legends = h("div", {}, legend(now.colour, abouts[0]));
  const choice = h("select", { id: "colour", onchange: (e) => recolour(e.target.value) },
    colours.map((name) => h("option", { value: name, selected: name === now.colour }, COLOURS[name].name)));
  const form = h("button", { type: "button", id: "form", disabled: !text, "aria-pressed": String(now.ids),
    onclick: () => toggle() }, "ids");
  const jump = (id, of, label) => h("button", { type: "button", id, disabled: of === null, onclick: () => first(of) }, label);
  const jumps = [jump("first-difference", difference.at, "First difference"), jump("first-sampled", difference.sampled, "First sampled difference")];
  const said = difference.at === null ? "The main chats have the same tokens."
    : `The main chats agree up to token ${count(Math.min(...difference.at))}.`;

  main.replaceChildren(h("article", { class: "episode compare" },
    h("div", { class: "heading" }, h("h1", {}, "Two episodes"), h("p", { id: "said" }, said)),
    h("div", { class: "tools" }, h("label", { for: "colour" }, "Colour"), choice, form, jumps),
    h("div", { class: "sides" }, streams.map((stream, side) => h("section", { class: "half" },
      h("h2", {}, h("a", { href: address("episode", { id: ids[side] }) }, abouts[side].record.trial_name), " ",
        grade({ ...abouts[side].record, measured: abouts[side].measured }),
        ` reward ${number(abouts[side].record.reward)}`), stream.element)),
    h("aside", { class: "side", "aria-label": "About the tokens" }, h("div", { class: "panel", tabindex: "0", role: "region", "aria-label": "Token" }, token, legends)))));

  function recolour(name) {
    choice.value = now.colour = name;
    for (const stream of streams) stream.redraw({ colour: name });
    legends.replaceChildren(legend(name, abouts[0]));
    note({ colour: name });
  }

  function toggle() {
    if (!text) return;
    now.ids = !now.ids;
    form.setAttribute("aria-pressed", String(now.ids));
    for (const stream of streams) stream.redraw({ ids: now.ids });
    note({ view: now.ids ? "ids" : "" });
  }

  async function first(places) {
    if (places === null) return;
    await Promise.all(streams.map((stream, side) => stream.goTo(places[side], { focus: side === active })));
    for (const [side, stream] of streams.entries()) stream.spanAt(places[side])?.classList.add("differs");
  }

  // Both sides together, so that the same place stays in sight.
  const step = (n) => async () => {
    const at = streams[active].current ?? 0;
    await streams[1 - active].goTo(at + n, { focus: false, place: "nearest" });
    await streams[active].goTo(at + n, { place: "nearest" });
  };

  if (query.token !== undefined) {
    active = query.side === "1" ? 1 : 0;
    await streams[active].goTo(Number(query.token) || 0);
    await streams[1 - active].goTo(Number(query.token) || 0, { focus: false });
  }
  return {
    stop: () => streams.forEach((stream) => stream.stop()),
    keys: {
      f: () => first(difference.at), F: () => first(difference.sampled), t: toggle, c: () => recolour(colours[(colours.indexOf(now.colour) + 1) % colours.length]),
      ArrowRight: step(1), ArrowLeft: step(-1), ArrowDown: step(20), ArrowUp: step(-20),
      s: () => streams[1 - active].goTo(streams[1 - active].current ?? 0),
      Escape: () => (history.length > 1 ? history.back() : go("list", {})),
    },
    help: [["Two episodes", [["f", "first difference"], ["F", "first sampled difference"], ["← →", "token before, after, on both sides"],
      ["s", "the other side"], ["t", "text or ids"], ["c", "next colour"]]]],
  };
}
