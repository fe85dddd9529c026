// Fit, one pixel of the image on one of the screen, or two: the view scrolls where the image is larger.

const LEVELS = [["fit", "Fit", "Fit to the page"], ["1", "1:1", "One pixel of the image on one of the screen"],
  ["2", "2:1", "Twice as large"]];

export function makeZoom($, changed) {
  const view = $("view"), wipe = $("wipe");
  let width = 0, level = "fit";
  const buttons = LEVELS.map(([value, text, title]) => {
    const button = Object.assign(document.createElement("button"), {textContent: text, title});
    button.setAttribute("aria-label", `Zoom: ${title}`);
    button.addEventListener("click", () => choose(value));
    $("zoom").append(button);
    return button;
  });

  function choose(value) {
    const before = level;
    level = value;
    apply();
    if ((before === "fit") !== (level === "fit")) changed();
  }

  function apply() {
    const enlarged = level !== "fit";
    for (const [index, button] of buttons.entries()) button.setAttribute("aria-pressed", LEVELS[index][0] === level);
    view.classList.toggle("enlarged", enlarged);
    view.tabIndex = enlarged ? 0 : -1; // arrow keys scroll it
    wipe.style.setProperty("--pixels", `${Math.round(width * Number(level) / devicePixelRatio) || 0}px`);
    if (!enlarged) return;
    const at = parseFloat(wipe.style.getPropertyValue("--at") || "50") / 100; // the divider stays in sight
    view.scrollLeft = at * wipe.scrollWidth - view.clientWidth / 2;
    view.scrollTop = (wipe.scrollHeight - view.clientHeight) / 2;
  }

  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=range]), select, textarea");
    if (event.key.toLowerCase() !== "z" || event.ctrlKey || event.metaKey || event.altKey || typing || $("zoom").hidden) return;
    choose(level === "fit" ? "1" : "fit");
  });

  return {
    /** Begin with another file, of this width in pixels. */
    reset(pixels) {
      width = pixels;
      level = "fit";
      apply();
    },
    /** Whether more than the page's own width of pixels is looked at. */
    enlarged: () => level !== "fit",
  };
}
