// Live refreshes, dialogs, charts and copy buttons. The pages work without this script: then nothing refreshes by
// itself, and confirmations are pages instead of dialogs.
"use strict";

const $ = (selector) => document.querySelector(selector);

// Live pages: the server says when there is news, and the part that shows it is fetched again. Other pages learn only
// whether the database answers.
const live = {
  // The address of the events. A server that cannot keep a connection open names no address.
  address: document.currentScript.dataset.events,
  source: null,
  button: $("#live"),
  follows: $("[data-live]") !== null,
  isStale: false,
  wanted: $("[data-live]") === null || localStorage.getItem("penstock-live") !== "off",

  start() {
    if (!this.address || !this.wanted || this.source || document.hidden) return;
    this.source = new EventSource(this.follows ? this.address : `${this.address}?only=status`);
    this.source.addEventListener("tick", () => {
      stale(null);
      // An open menu stays open.
      if (!$("details.menu[open]")) htmx.trigger(document.body, "tick");
    });
    this.source.addEventListener("open", () => stale(null));
    this.source.addEventListener("back", () => stale(null));
    this.source.addEventListener("away", () => stale("The database does not answer. This page shows the last known state."));
    this.source.addEventListener("over", () => location.reload());
    this.source.onerror = () => this.failed();
  },
  failed() {
    stale("The server does not answer. This page shows the last known state.");
    // A browser connects again by itself, but not after an answer such as 503.
    if (this.source?.readyState !== EventSource.CLOSED) return;
    this.stop();
    setTimeout(() => this.start(), 2000);
  },
  stop() {
    this.source?.close();
    this.source = null;
  },
  show() {
    this.button.hidden = false;
    this.button.setAttribute("aria-pressed", String(this.wanted));
    const text = this.isStale ? "Not live" : "Live";
    this.button.querySelector(".label").textContent = this.wanted ? text : "Held";
    this.button.title = this.wanted ? "Stop refreshing this page" : "Refresh this page when something changes";
  },
  toggle() {
    this.wanted = !this.wanted;
    localStorage.setItem("penstock-live", this.wanted ? "on" : "off");
    this.wanted ? this.start() : this.stop();
    this.show();
  },
};

function stale(text) {
  const banner = $("#stale");
  banner.hidden = text === null;
  live.isStale = text !== null;
  document.body.classList.toggle("stale", live.isStale);
  if (live.follows && live.button && !live.button.hidden) live.show();
  if (text !== null) banner.textContent = text;
}

if (live.address && live.follows && live.button) {
  live.show();
  live.button.addEventListener("click", () => live.toggle());
}
if ($("nav.main")) {
  live.start();
  // A hidden page sends no requests.
  document.addEventListener("visibilitychange", () => (document.hidden ? live.stop() : live.start()));
}

// Confirmations, in a dialog.
const dialog = $("#dialog");
document.body.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target !== dialog) return;
  const title = dialog.querySelector("h1");
  if (title) dialog.setAttribute("aria-label", title.textContent);
  if (!dialog.open) dialog.showModal();
});
dialog?.addEventListener("click", (event) => {
  if (event.target === dialog || event.target.closest("[data-close]")) {
    event.preventDefault();
    dialog.close();
  }
});

// Menus close like those of the system: by a click outside of them, or Escape.
const closeMenus = (except) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.open = false;
};
document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu > summary")?.parentElement));
document.addEventListener("keydown", (event) => event.key === "Escape" && closeMenus());
// A refresh that was under way when a menu was opened must not replace the menu. The next refresh does.
document.body.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.querySelector("details.menu[open]")) event.detail.shouldSwap = false;
});

// Charts: the values under the pointer, or at the place that the arrow keys choose.
const chartOf = (event) => event.target.closest?.("svg[data-points]");
function showPoint(svg, number) {
  const { names, points } = JSON.parse(svg.dataset.points);
  const point = points[Math.max(0, Math.min(points.length - 1, number))];
  svg.dataset.at = String(points.indexOf(point));
  svg.querySelector(".cursor").setAttribute("d", `M${point[0]},8 V${svg.viewBox.baseVal.height - 22}`);
  const values = svg.parentElement.querySelector(".values");
  values.textContent = `${point[1]}: ${names.map((name, n) => `${name} ${point[n + 2]}`).join(", ")}`;
  values.hidden = false;
}
function hidePoint(svg) {
  svg.querySelector(".cursor").setAttribute("d", "");
  svg.parentElement.querySelector(".values").hidden = true;
}
document.addEventListener("pointermove", (event) => {
  const svg = chartOf(event);
  if (!svg) return;
  const box = svg.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
  const places = JSON.parse(svg.dataset.points).points.map((point) => Math.abs(point[0] - x));
  showPoint(svg, places.indexOf(Math.min(...places)));
});
document.addEventListener("pointerout", (event) => chartOf(event) && !event.relatedTarget?.closest?.("svg[data-points]") && hidePoint(chartOf(event)));
document.addEventListener("focusout", (event) => chartOf(event) && hidePoint(chartOf(event)));
document.addEventListener("keydown", (event) => {
  const svg = chartOf(event);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!svg || !step) return;
  event.preventDefault();
  const last = JSON.parse(svg.dataset.points).points.length - 1;
  showPoint(svg, Number(svg.dataset.at ?? last + 1) + step);
});

// An error in a dialog is shown in the dialog. After a failed refresh the page says that it is stale.
document.body.addEventListener("htmx:responseError", (event) => {
  if (event.detail.elt.closest("[data-dialog]")) {
    const page = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
    const part = page.querySelector("main section");
    dialog.replaceChildren(part ?? document.createTextNode("The server did not answer."));
    dialog.showModal();
  } else {
    stale("The server could not refresh this page. It shows the last known state.");
  }
});
document.body.addEventListener("htmx:sendError", () => stale("The server does not answer."));

// On a phone the navigation is a strip, which is scrolled to the current page.
$("nav.main [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    $("#find")?.focus();
  }
});

// Copy buttons. Browsers have a clipboard for scripts on https and on localhost only. Elsewhere the text is selected.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = $(button.dataset.copy);
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
      return;
    }
    const holder = source.closest("details");
    if (holder) holder.open = true;
    getSelection().selectAllChildren(source);
  });
}

// The browser knows its time zone, the server does not.
const ownZone = $("[data-own-zone]");
if (ownZone) {
  ownZone.value = Intl.DateTimeFormat().resolvedOptions().timeZone;
  ownZone.hidden = false;
}
