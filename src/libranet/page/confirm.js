// A button that deletes something asks once more, in its own place: the second press within a few seconds does it.

const SECONDS = 4;

export function askTwice(button, question, action) {
  const [text, name] = [button.textContent, button.getAttribute("aria-label")];
  let timer = 0;
  const calm = () => {
    clearTimeout(timer);
    timer = 0;
    button.textContent = text;
    if (name) button.setAttribute("aria-label", name);
    button.classList.remove("sure");
  };
  button.addEventListener("click", () => {
    if (button.ariaDisabled === "true") return;
    if (timer) { calm(); action(); return; }
    button.textContent = question;
    if (name) button.setAttribute("aria-label", `${question} ${name}`);
    button.classList.add("sure");
    timer = setTimeout(calm, 1000 * SECONDS);
  });
  button.addEventListener("blur", () => { if (timer) calm(); }); // after the action the text is the action's
  return calm;
}
