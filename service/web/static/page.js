"use strict";

// Lists renew themselves, but not under somebody's hands: neither while the pointer or the focus
// is in them, nor while the page is hidden.
document.addEventListener("htmx:before:request", (event) => {
  const live = event.target.closest(".live");
  if (live && (document.hidden || live.matches(":hover") || live.contains(document.activeElement))) {
    event.preventDefault();
  }
});

const moves = { n: 1, p: -1 };
let going = false; // after `g`

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  if (going) {
    going = false;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
  } else if (event.key === "g") {
    going = true;
  } else if (event.key === "/") {
    const search = document.querySelector("form[role=search] input");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (event.key in moves) {
    const links = [...document.querySelectorAll("main tbody th a")];
    const at = links.indexOf(document.activeElement);
    const next = links[at < 0 ? 0 : at + moves[event.key]];
    if (next) next.focus();
  }
});
