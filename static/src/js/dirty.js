// Warns before unsaved work is lost: forms with data-guard, from the first change until they are sent.

const dirty = new Set();

export function startDirtyGuard() {
  const mark = (event) => {
    const form = event.target.closest?.("form[data-guard]");
    if (form && event.isTrusted) dirty.add(form);
  };
  document.addEventListener("input", mark);
  document.addEventListener("change", mark);
  document.addEventListener("submit", (event) => dirty.delete(event.target));
  document.addEventListener("reset", (event) => dirty.delete(event.target));
  addEventListener("beforeunload", (event) => {
    if ([...dirty].some((form) => form.isConnected)) event.preventDefault();
  });
}
