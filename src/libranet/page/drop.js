// Files come by drop anywhere on the page, or by paste.

export function acceptFiles(take) {
  let inside = 0; // dragenter and dragleave come for every element that is crossed
  const mark = (yes) => {
    if (!yes) inside = 0;
    document.body.classList.toggle("dropping", yes);
  };
  addEventListener("dragenter", () => { inside += 1; });
  addEventListener("dragleave", () => { inside -= 1; if (inside <= 0) mark(false); });
  addEventListener("dragover", (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault(); // else the browser would open the file instead of this page
    mark(true);
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    mark(false);
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files);
  });
  addEventListener("paste", (event) => { if (event.clipboardData.files[0]) take(event.clipboardData.files); });
}
