// The trial's own files, read a piece at a time.
import { ask, askText, bytes, count, failure, h, note } from "./dom.js";

export async function files(id, panel, chosen) {
  panel.replaceChildren(h("p", { class: "hint" }, "Reading the directory …"));
  try {
    const { files: all, more, there } = await ask("files", { id });
    const body = h("div", {});
    const list = h("ul", { class: "files" }, all.map((file) => h("li", {}, h("button", { type: "button", class: "jump",
      "data-path": file.path, onclick: () => { note({ file: file.path }); read(id, file, body); } },
      file.shown || "the file of this episode", h("span", { class: "num" }, ` ${bytes(file.bytes)}`)))));
    panel.replaceChildren(h("h2", {}, "The trial's files"),
      all.length ? list : h("p", { class: "hint" }, there ? "The directory is empty." : "The trial's directory is not on this machine."),
      more ? h("p", { class: "hint" }, `The first ${count(all.length)} files; there are more.`) : "", body);
    const file = all.find((one) => one.path === chosen && chosen);
    if (file) await read(id, file, body);
  } catch (error) {
    panel.replaceChildren(failure(error));
  }
}

async function read(id, file, body) {
  const text = h("pre", { class: "file", tabindex: "0", "aria-label": file.shown });
  const more = h("button", { type: "button", onclick: () => go() }, "Read on");
  let at = 0;
  const go = async () => {
    try {
      const { text: piece, size, next } = await askText("file", { id, path: file.path, start: at });
      text.append(piece);
      at = next;
      more.hidden = next >= size;
    } catch (error) {
      body.replaceChildren(failure(error));
    }
  };
  body.replaceChildren(h("h3", {}, file.shown), text, more);
  await go();
}
