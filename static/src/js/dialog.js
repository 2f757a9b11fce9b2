// Confirmations as dialogs. Their links lead to a page that asks the same; here the page's fragment opens in place.
// A link says hx-get, hx-target="#dialog"; the fragment holds a form, its `data-close` elements close it.
// Irreversible acts ask for a name typed: an input with data-must-equal keeps the submit button disabled until it is equal.

export function startDialogs() {
  const dialog = document.getElementById("dialog");
  if (!dialog) return;
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target === dialog && dialog.childElementCount && !dialog.open) dialog.showModal();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) {
      event.preventDefault();
      dialog.close();
    }
  });
  dialog.addEventListener("close", () => dialog.replaceChildren());
  document.addEventListener("input", (event) => {
    const wanted = event.target.dataset?.mustEqual;
    if (wanted === undefined) return;
    const button = event.target.form?.querySelector("[type=submit], button:not([type])");
    if (button) button.disabled = event.target.value !== wanted;
  });
}
