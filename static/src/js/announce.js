// Tells screen readers, politely, what a refreshed fragment says now: the text of its data-announce, when it changed.

const said = new Map();

/** Says `text` once, through the page's live region. */
export function announce(text) {
  const region = document.getElementById("announcer");
  if (region && text) region.textContent = text;
}

function listen(root) {
  for (const element of root.querySelectorAll("[data-announce][id]")) {
    const text = element.dataset.announce;
    if (said.has(element.id) && said.get(element.id) !== text) announce(text);
    said.set(element.id, text);
  }
}

export function startAnnouncements() {
  listen(document);
  document.addEventListener("htmx:afterSettle", () => listen(document));
}
