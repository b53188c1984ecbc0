"use strict";
/* The lists of the library: filters apply at once. In a site of files, where nothing answers, the search, the pages
   and the boxes of the overlay are done here; served, the server does them. */
(() => {
  const PAGE_ROWS = 50;
  const form = document.querySelector("form[data-filters]");
  const rows = [...document.querySelectorAll("#runs tbody tr[data-words]")];
  const pager = document.getElementById("pages");
  const found = document.getElementById("found");
  let shown = rows;
  let page = 0;

  const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

  function fits(row, asked) {
    return [...asked].every(([name, value]) => {
      if (!value) return true;
      if (name === "text") return words(value).every((word) => row.dataset.words.includes(word));
      return (row.dataset[name] ?? "").split("\n").includes(value);
    });
  }

  function search() {
    const asked = new FormData(form);
    shown = rows.filter((row) => fits(row, asked));
    page = 0;
    found.textContent = `${shown.length.toLocaleString("en")} ${shown.length === 1 ? "run" : "runs"}`;
    show();
  }

  function show() {
    const seen = new Set(shown.slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS));
    for (const row of rows) row.hidden = !seen.has(row);
    const pages = Math.max(1, Math.ceil(shown.length / PAGE_ROWS));
    pager.replaceChildren();
    if (pages < 2) return;
    for (const [text, to] of [["First", 0], ["Previous", page - 1], ["Next", page + 1], ["Last", pages - 1]]) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: text, disabled: to < 0 || to >= pages || to === page });
      button.addEventListener("click", () => {
        page = to;
        show();
        pager.querySelector("button:not(:disabled)")?.focus();
      });
      pager.append(button);
    }
    const where = document.createElement("span");
    where.textContent = `page ${page + 1} of ${pages}`;
    pager.append(where);
  }

  if (form && rows.length) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      search();
    });
    form.addEventListener("input", search);
    show();
  } else if (form) {
    for (const select of form.querySelectorAll("select")) select.addEventListener("change", () => form.requestSubmit());
  }

  const boxes = [...document.querySelectorAll("form[data-shown] input")];
  for (const box of boxes) {
    box.addEventListener("change", () => globalThis.naslabHideRuns(boxes.filter((one) => !one.checked).map((one) => one.value)));
  }
  if (boxes.length) document.querySelector("form[data-shown]").addEventListener("submit", (event) => event.preventDefault());
  if (!globalThis.naslabHideRuns) document.documentElement.dataset.ready = "true";
})();
