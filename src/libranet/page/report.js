// What reports do beside being read: tables sort by a click on a heading, and two images of a strip lie under a divider.
// It follows wipe.js in one script.

for (const table of document.querySelectorAll("table")) makeSortable(table);
for (const strip of document.querySelectorAll("[data-wipe]")) addComparison(strip);

function makeSortable(table) {
  const [head, ...rows] = table.rows;
  if (rows.length < 2) return;
  [...head.cells].forEach((cell, column) => {
    const button = document.createElement("button");
    button.append(...cell.childNodes);
    cell.append(button);
    cell.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") !== "descending";
      for (const other of head.cells) other.setAttribute("aria-sort", "none");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sorted = rows.map((row, index) => ({row, index, value: valueOf(row.cells[column])}));
      sorted.sort((a, b) => compare(a.value, b.value, down) || a.index - b.index);
      head.after(...sorted.map(({row}) => row));
    });
  });
}

function valueOf(cell) {
  const text = cell?.firstChild?.nodeType === Node.TEXT_NODE ? cell.firstChild.data : cell?.textContent || "";
  const number = Number.parseFloat(text.replace(/,/g, ""));
  return Number.isNaN(number) ? (/^[–\s]*$/.test(text) ? null : text.trim().toLowerCase()) : number;
}

function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null); // gaps go last, either way
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  return down ? -order : order;
}

function addComparison(strip) {
  const images = [...strip.querySelectorAll("img")];
  if (images.length < 2) return;
  const wanted = images.findIndex((image) => image.alt === strip.dataset.wipe);
  const shown = [0, wanted > 0 ? wanted : 1];
  const figure = document.createElement("figure");
  figure.className = "compare wipe";
  const layers = ["before", "after"].map((side) => Object.assign(document.createElement("img"), {className: `layer ${side}`, alt: ""}));
  figure.append(...layers);
  attachWipe(figure, {before: "left", after: "right"});
  const tags = figure.querySelectorAll(".tag");
  const pick = document.createElement("p");
  pick.className = "pick";
  const show = () => shown.forEach((index, side) => {
    layers[side].src = images[index].src;
    tags[side].textContent = layers[side].alt = images[index].alt;
  });
  shown.forEach((index, side) => {
    const select = document.createElement("select");
    select.setAttribute("aria-label", side ? "Right of the divider" : "Left of the divider");
    select.append(...images.map((image, number) => new Option(image.alt, number, number === index, number === index)));
    select.addEventListener("change", () => { shown[side] = Number(select.value); show(); });
    pick.append(select);
  });
  show();
  strip.before(figure, pick);
}
