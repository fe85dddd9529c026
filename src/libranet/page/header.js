// The top of the page: the tabs, and light or dark.

export function setUpTabs($) {
  const tabs = [$("tab-file"), $("tab-camera")];
  const choose = (tab) => {
    for (const each of tabs) {
      each.setAttribute("aria-selected", each === tab);
      each.tabIndex = each === tab ? 0 : -1;
      $(each.getAttribute("aria-controls")).hidden = each !== tab;
    }
    if (tab !== tabs[1]) $("camera-stop").click();
  };
  for (const tab of tabs) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = tabs[1 - tabs.indexOf(tab)];
      choose(other);
      other.focus();
    });
  }
}

export function setUpTheme($) {
  const names = {auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"]};
  const order = Object.keys(names);
  const apply = (name) => {
    document.documentElement.dataset.theme = name;
    $("theme").textContent = names[name][0];
    $("theme").setAttribute("aria-label", `Theme: ${names[name][1]}`);
    $("theme").title = `Theme: ${names[name][1]}`;
  };
  $("theme").addEventListener("click", () => {
    const next = order[(order.indexOf(document.documentElement.dataset.theme) + 1) % order.length];
    localStorage.setItem("libranet-theme", next);
    apply(next);
  });
  apply(localStorage.getItem("libranet-theme") || "auto");
}
