// A divider over two layers. A range input lies invisibly above them, so mouse, touch, keyboard and screen readers work.

export function attachWipe(element, {before = "Before", after = "After"} = {}) {
  const divider = document.createElement("div");
  divider.className = "divider";
  const input = document.createElement("input");
  Object.assign(input, {type: "range", min: 0, max: 100, step: 0.5, value: 50});
  input.setAttribute("aria-label", `Divider between ${before} and ${after}`);
  const tags = [["left", before], ["right", after]].map(([side, text]) => {
    const tag = document.createElement("span");
    tag.className = `tag ${side}`;
    tag.textContent = text;
    return tag;
  });
  const move = () => {
    element.style.setProperty("--at", `${input.value}%`);
    input.setAttribute("aria-valuetext", `${Math.round(input.value)} % ${before}`);
    tags[0].hidden = input.value < 12;
    tags[1].hidden = input.value > 88;
  };
  input.addEventListener("input", move);
  element.append(input, divider, ...tags);
  move();
  return {
    /** Say what is right of the divider. Without a name the frame itself shows both sides, and needs no divider. */
    name(text) {
      element.classList.toggle("whole", !text);
      if (text) tags[1].textContent = text;
    },
  };
}
