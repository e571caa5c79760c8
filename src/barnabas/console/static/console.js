// Reads the page again and puts its content in place, so that numbers move without a jump.
"use strict";

const main = document.querySelector("main");
let every = 0;
let timer = 0;

// A page that waits for an answer is read again sooner than one that has it, or that is not read again by itself.
function pace(seconds) {
  if (seconds === every) return;
  clearInterval(timer);
  every = seconds;
  timer = every ? setInterval(refresh, every * 1000) : 0;
}

// Whether somebody has written into a form, or chosen something, since it came.
function isWritten(form) {
  return [...form.querySelectorAll("input, select, textarea")].some((one) => {
    if (one.options) return [...one.options].some((each) => each.selected !== each.defaultSelected);
    return one.value !== one.defaultValue || one.checked !== one.defaultChecked;
  });
}

// What a form is about, wherever it stands on the page: rows change their places.
function subject(form) {
  const hidden = [...form.querySelectorAll("input[type=hidden]:not([name=token])")];
  return [form.getAttribute("action"), ...hidden.map((one) => `${one.name}=${one.value}`)].join(" ");
}

// A form that somebody is about to send stays as it is, where the new page has the same one.
function keepForms(read) {
  const old = [...main.querySelectorAll("form")], fresh = [...read.querySelectorAll("form")];
  old.filter(isWritten).forEach((form) => {
    const like = (one) => subject(one) === subject(form);
    fresh.filter(like)[old.filter(like).indexOf(form)]?.replaceWith(form);
  });
}

// What a page has of its own besides forms: parts that were opened, and how far a table was scrolled.
function keepLooks(read) {
  const fresh = [...read.querySelectorAll("details")], tables = [...read.querySelectorAll("table")];
  [...main.querySelectorAll("details")].forEach((one, place) => {
    const same = fresh[place]?.firstElementChild.textContent === one.firstElementChild.textContent;
    if (same) fresh[place].open = one.open;
  });
  const scrolled = [...main.querySelectorAll("table")].map((one) => one.scrollLeft);
  return () => tables.forEach((one, place) => { one.scrollLeft = scrolled[place] ?? 0; });
}

let isReading = false;

async function refresh() {
  // Not while somebody writes, or marks what they want to copy.
  if (isReading || document.hidden || getSelection().type === "Range" || main.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) return;
  isReading = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    // A page that waits for an answer shows a refusal, too: it is what it waited for.
    if (!answer.ok && !main.querySelector("#not-known")) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = document.activeElement?.id;
    const read = page.querySelector("main");
    const scroll = keepLooks(read);
    keepForms(read);
    main.replaceChildren(...read.childNodes);
    scroll();
    pace(Number(read.dataset.refresh ?? 0));
    if (focused) document.getElementById(focused)?.focus();
  } catch {
    // The console is not there now: the page stays as it is, and tries again.
  } finally {
    isReading = false;
  }
}

pace(Number(main?.dataset.refresh ?? 0));

// Follows records: asks for what has come since the last answer, and puts it on top. It rests while nobody looks.
const KEPT = 500;
const follow = Number(main?.dataset.follow) * 1000;

async function step() {
  const link = document.querySelector("a[data-next]");
  if (document.hidden || !link) return;
  try {
    const target = new URL(location.href);
    target.searchParams.set("positions", link.dataset.next);
    const answer = await fetch(target, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!page.querySelector("#records")) return; // not answered yet: the next step asks for the same
    const rows = [...page.querySelectorAll("#records tbody tr:not(.empty)")];
    const body = document.querySelector("#records tbody");
    if (rows.length) body.querySelector(".empty")?.remove();
    body.prepend(...rows.reverse());
    while (body.rows.length > KEPT) body.lastElementChild.remove();
    for (const part of ["#found", "#ranges"]) document.querySelector(part).replaceWith(page.querySelector(part));
  } catch {
    // The console is not there now: tried again with the next step.
  }
}

async function followOn() {
  await step();
  setTimeout(followOn, follow);
}

if (follow) setTimeout(followOn, follow);
