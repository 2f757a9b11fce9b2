// Shows a typed password while the eye is pressed in. The button is hidden where scripts do not run.

export function startReveal() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-reveal]");
    if (!button) return;
    const input = document.getElementById(button.dataset.reveal);
    const shown = input.type === "text";
    input.type = shown ? "password" : "text";
    button.setAttribute("aria-pressed", String(!shown));
    input.focus();
  });
}
