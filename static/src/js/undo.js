// The message that offers undo stays until it is used or dismissed, or for `data-seconds`; focus or pointer keep it.

export function startUndo() {
  const begin = (notice) => {
    const seconds = Number(notice.dataset.seconds);
    if (notice.dataset.begun || !seconds) return;
    notice.dataset.begun = "true";
    setTimeout(function leave() {
      if (notice.matches(":hover, :focus-within")) setTimeout(leave, 2_000);
      else notice.remove();
    }, seconds * 1_000);
  };
  const beginAll = () => document.querySelectorAll("[data-undo-notice]").forEach(begin);
  beginAll();
  document.addEventListener("htmx:afterSettle", beginAll);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-dismiss]")) event.target.closest("[data-undo-notice]")?.remove();
  });
}
