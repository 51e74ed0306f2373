// Keys pressed while a page is being drawn: kept, and pressed again when it is there.
import { leaveFor } from "./dom.js";

const NAMED = ["Enter", "Escape", "Home", "End", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
const MOST = 100;

export class Keys {
  #kept = [];

  constructor(isReady, press) {
    Object.assign(this, { isReady, press });
  }

  keep(event) {
    const { key } = event;
    if (event.repeat || key === " " || (key.length > 1 && !NAMED.includes(key)) || this.#kept.length === MOST) return;
    this.#kept.push(key);
    event.preventDefault();
  }

  forget() {
    this.#kept = [];
  }

  // A key may lead to another page, which then presses those that are left.
  replay() {
    while (this.isReady() && this.#kept.length) {
      const key = this.#kept.shift();
      const here = document.activeElement ?? document.body;
      if (here.matches("input")) type(here, key);
      else if (key === "Enter") open(here);
      else this.press(key);
    }
  }
}

function type(field, key) {
  if (key === "Enter") field.form.requestSubmit();
  else if (key === "Escape") field.blur();
  else if (key.length === 1) field.setRangeText(key, field.selectionStart, field.selectionEnd, "end");
}

function open(element) {
  const hash = element.closest("a")?.getAttribute("href");
  if (hash?.startsWith("#")) leaveFor(hash);
  else element.click?.();
}
