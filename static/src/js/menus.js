// Menus are <details class="menu-box">: they open without scripts. Here they also close when something else is meant.

const openMenus = () => document.querySelectorAll("details.menu-box[open]");

export function startMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("focusin", (event) => {
    for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.target.closest?.("details.menu-box[open]");
    if (!menu) return;
    if (event.key === "Escape") {
      menu.open = false;
      menu.querySelector("summary").focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const items = [...menu.querySelectorAll("a[href], button:not(:disabled)")];
      if (!items.length) return;
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      const place = items.indexOf(document.activeElement);
      items[place < 0 ? (step > 0 ? 0 : items.length - 1) : (place + step + items.length) % items.length].focus();
    }
  });
}
