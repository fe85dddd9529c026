// Settings under a name, kept in this browser.

import {askTwice} from "./confirm.js";

const MEMORY = "libranet-presets";

export function makePresets($, {settings, apply, announce}) {
  const read = () => JSON.parse(localStorage.getItem(MEMORY) || "{}");
  const write = (presets) => { localStorage.setItem(MEMORY, JSON.stringify(presets)); list(); };

  $("preset-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = $("preset-name").value.trim();
    if (!name) return;
    write({...read(), [name]: settings()});
    $("preset-name").value = "";
    announce(`The preset ${name} is saved.`);
  });

  function list() {
    const all = [["Standard", {}], ...Object.entries(read())];
    $("preset-list").replaceChildren(...all.map(([name, values], index) => {
      const row = document.createElement("li");
      const use = Object.assign(document.createElement("button"), {textContent: name, type: "button"});
      use.addEventListener("click", () => { apply(values); announce(`The preset ${name} is set.`); });
      row.append(use);
      if (index) row.append(bin(name));
      return row;
    }));
  }

  function bin(name) {
    const button = Object.assign(document.createElement("button"), {textContent: "Delete", className: "quiet", type: "button"});
    button.setAttribute("aria-label", `Delete the preset ${name}`);
    askTwice(button, "Really delete?", () => {
      const {[name]: _, ...others} = read();
      write(others);
      $("preset-name").focus();
    });
    return button;
  }

  list();
}
