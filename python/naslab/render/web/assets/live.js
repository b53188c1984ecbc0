"use strict";
/* Follows a run: server-sent events become rows of the table and points of the pictures. Text is set as text. */
(() => {
  const MOST_ROWS = 200;
  const part = (id) => document.getElementById(id);
  const table = part("live");
  const plot = part("live-plot");
  const nowPlot = part("now-plot");
  const status = part("status");
  const count = part("count");
  const seen = new Map();
  let now = null;
  let loading = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  function loadPlotly() {
    loading ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      Object.assign(script, { src: plot.dataset.plotly, onload: done, onerror: failed });
      document.head.append(script);
    });
    return loading;
  }

  /* One line in one colour: x, y and what is said of each point. */
  async function draw(place, x, y, text, titles, mode, ground) {
    await loadPlotly();
    const axis = { gridcolor: colour("--line"), color: colour("--muted"), zeroline: false, automargin: true, rangemode: "tozero" };
    const trace = {
      type: "scatter", mode, x, y, text: text?.map(plain), line: { color: colour("--accent"), width: 1.5 }, marker: { size: 6 },
      hovertemplate: text ? "%{text}<extra></extra>" : "%{y:.4g} after %{x:.0f} s<extra></extra>",
    };
    const layout = {
      width: place.clientWidth, height: place.clientHeight, paper_bgcolor: colour(ground), plot_bgcolor: colour(ground),
      font: { color: colour("--ink"), size: 13 }, margin: { l: 60, r: 16, t: 12, b: 48 }, showlegend: false, hovermode: "closest",
      xaxis: { ...axis, title: { text: titles[0] } }, yaxis: { ...axis, title: { text: titles[1] } },
    };
    Plotly.react(place, [trace], layout, { displaylogo: false, displayModeBar: false, showSendToCloud: false, responsive: false });
  }

  function drawCells() {
    const cells = [...seen.values()];
    plot.hidden = !cells.length;
    if (plot.hidden) return;
    const moved = cells.some((cell) => cell.mb_per_s > 0);
    const values = cells.map((cell) => (moved ? cell.mb_per_s : cell.ops_per_s));
    const titles = ["Cell, in the order measured", moved ? "Throughput (MB/s)" : "Operations per second"];
    draw(plot, cells.map((_, i) => i + 1), values, cells.map((cell) => cell.row.join(", ")), titles, "lines+markers", "--surface");
  }

  function drawNow() {
    nowPlot.hidden = !now || now.x.length < 2;
    if (!nowPlot.hidden) draw(nowPlot, now.x, now.y, null, ["Seconds since the cell began", now.unit], "lines", "--raised");
  }

  function showCount() {
    const planned = now?.planned ? `, ${now.planned} planned so far` : "";
    count.textContent = `${seen.size} ${seen.size === 1 ? "cell" : "cells"} stored${planned}`;
  }

  function showCells(cells) {
    const body = table.tBodies[0];
    for (const cell of cells) {
      seen.set(cell.id, cell);
      const row = document.createElement("tr");
      cell.row.forEach((text, i) => {
        const made = document.createElement("td");
        made.textContent = text;
        if (i > 0 && i < 6) made.className = "num";
        row.append(made);
      });
      body.prepend(row);
    }
    while (body.rows.length > MOST_ROWS) body.lastElementChild.remove();
    showCount();
    part("none").hidden = true;
    plot.setAttribute("aria-label", `Throughput of each finished cell; ${count.textContent}, the newest: ${cells.at(-1).row.join(", ")}`);
    drawCells();
  }

  function showNow(told) {
    now = told;
    part("now-words").textContent = told.words;
    part("now-facts").textContent = told.facts;
    const share = part("now-share");
    share.hidden = told.share === null;
    if (told.share !== null) share.value = told.share;
    nowPlot.setAttribute("aria-label", `Rate within the current cell. ${told.words}: ${told.facts}`);
    showCount();
    drawNow();
  }

  function tell(word) {
    status.textContent = word;
    status.className = `status ${word}`;
  }

  const events = new EventSource(table.dataset.events);
  events.addEventListener("cells", (event) => showCells(JSON.parse(event.data)));
  events.addEventListener("now", (event) => showNow(JSON.parse(event.data)));
  events.addEventListener("end", (event) => {
    events.close();
    tell(JSON.parse(event.data).status);
    part("now").hidden = true;
    document.documentElement.dataset.ended = "true";
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) tell("connection lost");
  });
  const again = () => {
    drawCells();
    drawNow();
  };
  addEventListener("resize", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  document.documentElement.dataset.ready = "true";
})();
