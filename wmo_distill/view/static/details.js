// All that is known of one token, and what the colours say.
import { count, h, number } from "./dom.js";
import { COLOURS, ratio } from "./colours.js";

export function details(token, about) {
  const { call } = token;
  const sequence = token.sequence !== null && token.sequence >= 0 ? about.sequences[token.sequence] : null;
  const share = token.logprob === null ? "" : ` (${number(100 * Math.exp(token.logprob), 3)} %)`;
  const none = (x) => x === null || x === undefined;
  const facts = [
    ["id", "id", token.id, String(token.id)],
    ["text", "text", token.text, textOf(token, about)],
    ["logprob", "recorded log-probability", token.logprob,
      token.sampled ? `${number(token.logprob, 6)}${share}` : "– (context)"],
    ["rescored", "re-scored", token.rescored, number(token.rescored, 6)],
    ["ratio", "ratio exp(re-scored − recorded)", ratio(token), number(ratio(token), 6)],
    ["teacher", "teacher's", token.teacher, number(token.teacher, 6)],
    ["advantage", "advantage", token.advantage, number(token.advantage, 6)],
    ["mask", "loss mask", token.mask, maskOf(token)],
    ["sequence", "sequence", sequence?.datum_id, sequence && `${sequence.fragment_index} of chat ${sequence.segment}, weight ${number(sequence.weight)}`],
    ["version", "policy version", about.versions[token.version], about.versions[token.version] ?? "–"],
    ["call", "call", call.call_index, `${call.call_index} of chat ${call.segment}, ${token.sampled ? "sampled" : "context"}`],
    ["place", "place", token.at, `${count(token.at - call.start + call.kept)} in the call, ${count(token.at)} in the episode`],
    ["finish", "end of the call", call.finish_reason, call.finish_reason],
    ["break", "break before the call", call.cause, call.cause && `${call.cause.replaceAll("_", " ")}, ${count(call.lost)} ids left out`],
  ];
  const always = new Set(["id", "logprob", "call", "place"]);
  return h("dl", { class: "facts" }, facts
    .filter(([name, , value]) => always.has(name) || !none(value))
    .map(([name, label, value, said]) => [h("dt", {}, label),
      h("dd", { "data-field": name, "data-value": none(value) ? "" : String(value) }, said)]));
}

function textOf(token, about) {
  if (!about.has_text) return "–";
  if (token.kind === 4) return "of a secret: its text is shown with --show-secrets";
  if (token.kind === 3) return "none: the tokenizer has no such id";
  if (token.text === null) return "completes the character before";
  return h("code", { class: "said" }, token.text.replaceAll("\n", "↵\n"),
    token.kind === 1 ? h("em", {}, " special") : token.kind === 2 ? h("em", {}, " bytes of no character") : "");
}

function maskOf(token) {
  if (token.masked) return "a secret: not trained";
  if (token.sequence < 0) return "in no sequence";
  return token.mask ? "trained" : "context";
}

export function legend(colour, about) {
  const scale = COLOURS[colour];
  return h("div", { class: "legend" }, h("p", {}, scale.about),
    h("ul", {}, scale.legend(about.colours[colour], about).map(([name, said]) =>
      h("li", {}, h("span", { class: `t swatch ${name}`, "aria-hidden": "true" }, "ab"), said))));
}
