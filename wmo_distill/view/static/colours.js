// What a token's colour says. Each scale gives a class to a token, and a legend.
import { number } from "./dom.js";

const LOGPROB = [-0.01, -0.1, -0.35, -0.7, -1.6, -3, -5]; // nats: 99, 90, 70, 50, 20, 5, 0.7 %
const DIFFERENCE = [0.01, 0.05, 0.2, 1]; // nats
const IMPLAUSIBLE = -1000;

function sides(x, edges) {
  const size = Math.abs(x);
  const step = edges.filter((edge) => size > edge).length;
  return step === 0 ? "zero" : `${x > 0 ? "up" : "down"}${step}`;
}

function between(names, edges, say) {
  return names.map((name, i) => [name, say(edges[i - 1], edges[i])]);
}

const difference = (name, about, of, legend) => ({
  name, about,
  class: (token) => {
    const x = of(token);
    return x === null ? "" : sides(x, DIFFERENCE);
  },
  legend: () => [["down4", `below −1 ${legend[0]}`], ["down2", "−0.2 to −0.05"], ["zero", "within ±0.01"],
    ["up2", "0.05 to 0.2"], ["up4", `above 1 ${legend[1]}`]],
});

const minus = (a, b) => (a === null || b === null || a <= IMPLAUSIBLE || b <= IMPLAUSIBLE ? null : a - b);

export const COLOURS = {
  none: { name: "no colour", about: "Sampled tokens have a line below them.", class: () => "", legend: () => [] },
  logprob: {
    name: "log-probability",
    about: "How likely the sampled token was when it was recorded, in nats.",
    class: ({ logprob: x }) => {
      if (x === null) return "";
      if (x <= IMPLAUSIBLE || x > 0.001) return "odd";
      return `low${LOGPROB.filter((edge) => x < edge).length}`;
    },
    legend: () => [...between(["low0", "low1", "low2", "low3", "low4", "low5", "low6", "low7"], LOGPROB,
      (high, low) => (low === undefined ? `below ${number(high)}` : high === undefined ? `above ${number(low)}` : `to ${number(low)}`)),
    ["odd", "implausible"]],
  },
  advantage: {
    name: "advantage",
    about: "What a training step moves each trained token by.",
    class: ({ advantage: x, mask }, reach) => {
      if (x === null || !mask) return "";
      return sides(x, [0, 0.25, 0.5, 0.75].map((share) => share * reach));
    },
    legend: (reach) => [["down4", `${number(-reach, 3)} and lower`], ["down2", "negative"], ["zero", "0"],
      ["up2", "positive"], ["up4", `${number(reach, 3)} and higher`]],
  },
  mask: {
    name: "loss mask",
    about: "Which tokens are trained.",
    class: ({ mask, sequence }) => (sequence < 0 ? "outside" : mask ? "trained" : ""),
    legend: () => [["trained", "trained"], ["", "context"], ["outside", "in no sequence"]],
  },
  version: {
    name: "policy version",
    about: "Which weights sampled the token.",
    class: ({ version: n }) => (n === null || n < 0 ? "" : `version${n % 6}`),
    legend: (_, about) => about.versions.map((version, n) => [`version${n % 6}`, version]),
  },
  rescored: difference("rescored", "Recorded minus re-scored log-probability, in nats.",
    (t) => minus(t.logprob, t.rescored), ["", ""]),
  teacher: difference("teacher", "The teacher's log-probability minus the recorded one, in nats.",
    (t) => minus(t.teacher, t.logprob), ["(less likely)", "(likelier)"]),
};
COLOURS.rescored.name = "recorded − re-scored";
COLOURS.teacher.name = "teacher − recorded";

export function available(about) {
  return Object.keys(COLOURS).filter((name) => name === "none" || name in about.colours);
}

export function ratio(token) {
  const x = minus(token.rescored, token.logprob);
  return x === null ? null : Math.exp(x);
}
