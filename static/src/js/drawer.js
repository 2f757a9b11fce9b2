// The navigation is a popover on small screens: it opens, closes and gives focus back without scripts.
// Here it also closes when the screen grows, and tells its button.

export function startDrawer() {
  const drawer = document.getElementById("navigation");
  const opener = document.querySelector("[popovertarget=navigation][aria-expanded]");
  if (!drawer?.matches("[popover]") || !opener) return;
  drawer.addEventListener("toggle", (event) => {
    opener.setAttribute("aria-expanded", String(event.newState === "open"));
  });
  matchMedia("(min-width: 768px)").addEventListener("change", (event) => {
    if (event.matches && drawer.matches(":popover-open")) drawer.hidePopover();
  });
}
