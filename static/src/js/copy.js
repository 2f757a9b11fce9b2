// Copy buttons beside identifiers: data-copy holds the whole text. Hidden by the style sheet where scripts do not run.

import { announce } from "./announce.js";

export function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.dataset.copy);
    announce(button.dataset.copied ?? "");
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1_500);
  });
}
