// The theme switch is a form that the server answers with a cookie; here the choice shows at once.

const NAMES = { light: "gshare-light", dark: "gshare-dark" };

export function startTheme() {
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest?.("form[data-theme-form]");
    if (!form) return;
    event.preventDefault();
    const choice = event.submitter?.value ?? "system";
    if (choice in NAMES) document.documentElement.dataset.theme = NAMES[choice];
    else delete document.documentElement.dataset.theme;
    for (const button of document.querySelectorAll("form[data-theme-form] button[name=theme]")) {
      button.setAttribute("aria-pressed", String(button.value === choice));
    }
    document.dispatchEvent(new CustomEvent("gshare:theme"));
    const body = new URLSearchParams(new FormData(form, event.submitter));
    await fetch(form.action, { method: "POST", body, redirect: "manual" });
  });
}
