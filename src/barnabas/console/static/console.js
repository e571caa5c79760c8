// Reads the page again and puts its content in place, so that numbers move without a jump.
"use strict";

const main = document.querySelector("main");
const every = Number(main?.dataset.refresh) * 1000;

async function refresh() {
  if (document.hidden || main.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = document.activeElement?.id;
    main.replaceChildren(...page.querySelector("main").childNodes);
    if (focused) document.getElementById(focused)?.focus();
  } catch {
    // The console is not there now: the page stays as it is, and tries again.
  }
}

if (every) setInterval(refresh, every);
