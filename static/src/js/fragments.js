// htmx as this project uses it: no evaluated code, no injected styles, fragments that keep focus, menus and typed text.

import htmx from "htmx.org/dist/htmx.esm.js";
import { Idiomorph } from "idiomorph/dist/idiomorph.esm.js";

/** Attributes that the person at the page owns: an open menu stays open when its surroundings are refreshed. */
const OWNED = { DETAILS: ["open"], DIALOG: ["open"] };

const morphing = {
  morphStyle: "outerHTML",
  ignoreActiveValue: true,
  restoreFocus: true,
  callbacks: {
    beforeAttributeUpdated: (name, node) => !OWNED[node.nodeName]?.includes(name),
    beforeNodeMorphed: (node) => !(node.nodeType === Node.ELEMENT_NODE && node.hasAttribute("data-keep")),
  },
};

/** Where the server sends who is not signed in (any more): such an answer is a page, never a fragment. */
const isSignIn = (address) => new URL(address, location.href).pathname.startsWith("/login/");

export function startFragments() {
  Object.assign(htmx.config, {
    allowEval: false,
    allowScriptTags: false,
    includeIndicatorStyles: false,
    historyCacheSize: 0,
    refreshOnHistoryMiss: true,
    selfRequestsOnly: true,
    scrollBehavior: "auto",
    defaultSwapStyle: "outerHTML",
  });
  htmx.defineExtension("morph", {
    isInlineSwap: (style) => style === "morph",
    handleSwap: (style, target, fragment) =>
      style === "morph" ? Idiomorph.morph(target, fragment.children, morphing) : false,
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr } = event.detail;
    if (isSignIn(xhr.responseURL || location.href) && !isSignIn(location.href)) {
      event.detail.shouldSwap = false;
      location.reload();
    } else if (xhr.status === 422 || xhr.status === 409 || xhr.status === 400) {
      event.detail.shouldSwap = true; // the server's refusal stays on the form
      event.detail.isError = false;
    } else if (xhr.status === 403 || xhr.status === 404) {
      location.reload(); // a right that was lost, or a record that is gone: the page says so itself
    }
  });
}

export { htmx };
