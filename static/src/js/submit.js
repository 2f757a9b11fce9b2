// A form is sent once: its button waits for the answer. The server takes a repeated request for the same one anyway.

const release = (form) => {
  delete form.dataset.sent;
  for (const button of form.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
};

export function startSubmitOnce() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "post" || form.target === "_blank") return;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "true";
    event.submitter?.setAttribute("aria-busy", "true");
    setTimeout(() => release(form), 10_000);
  });
  addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach(release));
}
