"use strict";
/* The page's script: unpacks the data, draws each chart when it comes near the view, runs the choosers, the table
   and the downloads. All foreign text is set as text, never as markup. Nothing is fetched. */
(() => {
  const NARROW_PX = 640;
  const PRINT_PX = 680; // fits A4 and Letter upright
  const PAGE_ROWS = 50;
  const LONG_NAME = 34; // names in a legend that is set below the picture, not beside it
  const MOST_NAME = 70;
  /* Listened to, never read: reading `matches` between a change and its event makes Chromium drop the event. */
  const darkChange = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  const touch = matchMedia("(pointer: coarse)").matches;
  let printing = false;
  let darkOf = {};
  const charts = [];
  const hiddenRuns = new Set(); // names that a page of the library hides

  // --- unpacking ---------------------------------------------------------------------------------------

  function fromBase64(packed) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(packed); // browsers since 2025
    const text = atob(packed);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  async function unpacked(id) {
    const stream = new Blob([fromBase64(document.getElementById(id).textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  const unpackedText = async (id) => new TextDecoder().decode(await unpacked(id));
  const unpackedJson = async (id) => JSON.parse(await unpackedText(id));

  /* Integers that a double cannot hold (times in ns since 1970) stay exact, as text. */
  function exactJson(text) {
    return JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (token) =>
      /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token));
  }

  const runsOf = (found) => found.runs ?? [found];

  async function loadPlotly() {
    const script = document.createElement("script");
    const { src } = document.getElementById("naslab-plotly").dataset; // pages of the library share one file
    if (!src) script.textContent = await unpackedText("naslab-plotly");
    else script.src = src;
    const loaded = src && new Promise((done, failed) => Object.assign(script, { onload: done, onerror: failed }));
    document.head.append(script);
    await loaded;
  }

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // --- charts ------------------------------------------------------------------------------------------

  class Chart {
    constructor(data) {
      Object.assign(this, data);
      this.section = document.getElementById(data.id);
      this.plot = document.getElementById(`plot-${data.id}`);
      this.caption = document.getElementById(`caption-${data.id}`);
      this.controls = this.section.querySelector(".controls");
      this.path = [...data.entries[0].path];
      this.filterValue = null;
      this.view = 0;
      this.scale = 0;
      this.drawn = false;
      this.buildControls();
    }

    get entry() {
      return this.entries.find((entry) => entry.path.every((part, i) => part === this.path[i])) ?? this.entries[0];
    }

    get filter() {
      const filter = this.entry.figure.filter;
      return filter && filter.options.length > 1 ? filter : null;
    }

    optionsAt(level) {
      const under = this.entries.filter((entry) => this.path.slice(0, level).every((part, i) => part === entry.path[i]));
      return [...new Set(under.map((entry) => entry.path[level]))];
    }

    choose(level, value) {
      const wanted = [...this.path.slice(0, level), value];
      const under = this.entries.filter((entry) => wanted.every((part, i) => part === entry.path[i]));
      const rest = this.path.slice(level + 1);
      const same = under.find((entry) => rest.every((part, i) => part === entry.path[level + 1 + i]));
      this.path = [...(same ?? under[0]).path];
      this.refresh();
    }

    refresh() {
      const focused = this.controls.contains(document.activeElement) ? document.activeElement.dataset.key : null;
      this.buildControls();
      if (focused) this.controls.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
      this.describe();
      if (this.drawn) this.draw();
    }

    buildControls() {
      this.controls.replaceChildren();
      this.levels.forEach((name, level) => {
        const options = this.optionsAt(level);
        if (options.length < 2) return;
        const short = options.length <= 8 && options.every((text) => text.length <= 24) && name !== "Cell" && name !== "Run";
        const items = options.map((text) => ({ value: text, label: text }));
        const pick = (value) => this.choose(level, value);
        this.controls.append(short ? this.tabs(name, items, this.path[level], pick) : this.select(name, items, this.path[level], pick));
      });
      const filter = this.filter;
      if (filter) {
        if (!filter.options.some((option) => option.value === this.filterValue)) this.filterValue = filter.options[0].value;
        this.controls.append(this.select(filter.label, filter.options, this.filterValue, (value) => {
          this.filterValue = value;
          this.refresh();
        }));
      } else {
        this.filterValue = this.entry.figure.filter?.options[0].value ?? null;
      }
      const { cameras, scales } = this.entry.figure;
      if (cameras) this.controls.append(this.pickButtons("View", "Viewpoint", ["From small sizes", "From large sizes"], "view"));
      if (scales) this.controls.append(this.pickButtons("Scale", "Scale of the axis", scales.map(({ label }) => label), "scale"));
    }

    tabs(name, items, current, pick) {
      const list = element("div", { class: "tabs", role: "tablist", "aria-label": `${name}, ${this.title}` });
      for (const { value, label } of items) {
        const on = value === current;
        const tab = element("button", {
          type: "button", role: "tab", "aria-selected": String(on), "aria-controls": this.plot.id,
          tabindex: on ? "0" : "-1", "data-value": value, "data-key": on ? `${name}:on` : `${name}:${value}`,
        }, label);
        tab.addEventListener("click", () => pick(value));
        list.append(tab);
      }
      list.addEventListener("keydown", (event) => {
        const at = items.findIndex((item) => item.value === current);
        const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: items.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        pick(items[(to + items.length) % items.length].value);
        this.controls.querySelector(`[data-key="${CSS.escape(`${name}:on`)}"]`)?.focus();
      });
      return list;
    }

    select(name, items, current, pick) {
      const list = element("select", { "data-key": `select:${name}`, "aria-controls": this.plot.id });
      for (const { value, label } of items) list.append(new Option(label, value, false, value === current));
      list.addEventListener("change", () => pick(list.value));
      return element("label", { class: "choice" }, element("span", {}, name), list);
    }

    /* Buttons of which one is pressed; `field` of the chart holds its number. */
    pickButtons(title, group, names, field) {
      const made = element("div", { class: "choice views", role: "group", "aria-label": `${group}, ${this.title}` }, element("span", {}, title));
      names.forEach((text, index) => {
        const button = element("button", {
          type: "button", "aria-pressed": String(index === this[field]), "data-key": `${field}:${index}`,
        }, text);
        button.addEventListener("click", () => {
          this[field] = index;
          this.refresh();
        });
        made.append(button);
      });
      return made;
    }

    describe() {
      const option = this.entry.figure.filter?.options.find((one) => one.value === this.filterValue);
      const text = option?.caption ?? this.entry.caption;
      this.caption.textContent = text;
      this.plot.setAttribute("aria-label", `${this.title}. ${text}`);
    }

    draw() {
      const { figure } = this.entry;
      const filter = figure.filter;
      const keep = (trace) => !hiddenRuns.has(trace.meta?.run) && (!filter || [undefined, null].includes(trace.meta?.[filter.by]) || ["all", String(trace.meta[filter.by])].includes(this.filterValue));
      const dark = isDark() && !printing;
      const kept = figure.data.filter(keep);
      const width = printing ? PRINT_PX : this.plot.clientWidth;
      const narrower = width < NARROW_PX ? figure.narrow : null;
      const drawn = recoloured({ data: kept.length ? kept : [{ type: "scatter", x: [], y: [] }], layout: { ...figure.layout, ...narrower } }, dark);
      const option = filter?.options.find((one) => one.value === this.filterValue);
      if (option?.yaxis) drawn.layout.yaxis = recoloured(option.yaxis, dark);
      if (figure.scales) drawn.layout.yaxis = recoloured(figure.scales[this.scale].yaxis, dark);
      fit(drawn, width);
      if (figure.cameras) drawn.layout.scene.camera = seen(figure.cameras[this.view], width / drawn.layout.height);
      this.plot.querySelector(".waiting")?.remove();
      registerKinds(drawn.data);
      Plotly.react(this.plot, drawn.data, drawn.layout, CONFIG);
      // Its label says what it shows; ticks and legend read aloud would say less.
      for (const picture of this.plot.querySelectorAll(".main-svg, .gl-container")) picture.setAttribute("aria-hidden", "true");
      this.plot.style.minHeight = "0";
      this.drawn = true;
      this.width = width;
    }
  }

  /* Kinds of chart that Plotly's script left until one is drawn (see chart_library.py). */
  function registerKinds(data) {
    for (const { type } of data) {
      const kind = Plotly.kinds?.[type];
      if (!kind) continue;
      delete Plotly.kinds[type];
      Plotly.register(kind());
    }
  }

  const CONFIG = {
    displaylogo: false, displayModeBar: touch ? false : "hover", responsive: false, showSendToCloud: false, showLink: false, scrollZoom: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "hoverClosestCartesian", "hoverCompareCartesian", "tableRotation", "resetCameraLastSave3d", "hoverClosest3d", "orbitRotation"],
  };

  function recoloured(value, dark) {
    if (typeof value === "string") return (dark && darkOf[value]) || value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map((item) => recoloured(item, dark));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, recoloured(inner, dark)]));
    }
    return value;
  }

  /* Suit a figure to the width there is: legends and colour bars go below, long names wrap, cell text that would
     not fit goes away (the caption, the hover text and the table still say it). */
  function fit(figure, width) {
    const { layout, data } = figure;
    const narrow = width < NARROW_PX;
    layout.width = width;
    layout.height ??= narrow ? 400 : 460;
    if (touch) {
      layout.dragmode = false;
      if (layout.scene) layout.scene.dragmode = false;
      for (const axis of ["xaxis", "xaxis2", "yaxis", "yaxis2"]) if (layout[axis]) layout[axis].fixedrange = true;
    }
    if (data[0].type === "heatmap") fitHeat(data, layout, width, narrow);
    const named = data.filter((trace) => trace.name && trace.showlegend !== false && layout.showlegend !== false);
    for (const trace of named) if (trace.name.length > MOST_NAME) trace.name = `${trace.name.slice(0, MOST_NAME - 1)}…`;
    const long = named.some((trace) => trace.name.length > LONG_NAME) && layout.legend && layout.legend.orientation !== "h" && !layout.scene;
    if (long) legendBelow(layout, named.length);
    if (!narrow) return;
    for (const trace of data) if (trace.mode === "markers+text") trace.mode = "markers"; // told in the caption
    layout.font.size = 12;
    layout.margin = { ...layout.margin, l: Math.min(layout.margin.l, 52), r: 10 };
    if (layout.legend && layout.legend.orientation !== "h") legendBelow(layout, Math.ceil(named.length / 3));
    if (layout.scene) {
      layout.height = 420;
      data[0].showscale = false; // the vertical axis says the same
      const { zaxis } = layout.scene; // its title would be cut off at the edge
      if (zaxis.ticktext) {
        zaxis.ticktext = zaxis.ticktext.map((text, at, all) => (at === all.length - 1 ? `${text} ${zaxis.title.text}` : text));
        zaxis.title.text = "";
      }
    }
    for (const axis of [layout.yaxis, layout.yaxis2]) {
      const names = axis?.categoryarray;
      if (names) Object.assign(axis, { tickmode: "array", tickvals: names, ticktext: names.map(wrapped) });
    }
    for (const axis of ["xaxis", "xaxis2", "yaxis"]) thinTicks(layout[axis], axis === "yaxis" ? 9 : 5);
  }

  /* rows: lines of names to make room for. */
  function legendBelow(layout, rows) {
    const inner = (layout.height ?? 400) - layout.margin.t - layout.margin.b;
    // Below the title of the axis, which is a larger part of a low picture and a smaller one of a high picture.
    const px = Math.max(54, Math.min(0.22 * inner, 80));
    Object.assign(layout.legend, { orientation: "h", x: 0, xanchor: "left", y: -px / Math.max(inner, 40), yanchor: "top" });
    if (layout.showlegend !== false && !layout.scene) layout.height += 24 * rows;
  }

  function fitHeat(data, layout, width, narrow) {
    const [map, values] = data;
    if (values.mode !== "text") {
      if (narrow) map.showscale = false; // the lines and the caption say it in numbers
      return;
    }
    const room = (width - (narrow ? 90 : 190)) / map.x.length;
    const longest = Math.max(...values.text.map((text) => text.length));
    const size = Math.min(13, Math.floor(room / (longest * 0.62)));
    if (size < 9) data.pop();
    else values.textfont.size = size;
    if (!narrow) return;
    Object.assign(map.colorbar, { orientation: "h", y: 1.03, yanchor: "bottom", len: 1, thickness: 10 });
    layout.xaxis.title.standoff = 48;
    layout.margin.b = 100;
    layout.height += 110;
  }

  /* A viewpoint, further away where the picture is too narrow for it. */
  function seen(camera, shape) {
    const far = Math.max(1, Math.min(1.6 / shape, 1.85));
    return { ...camera, eye: Object.fromEntries(Object.entries(camera.eye).map(([axis, value]) => [axis, value * far])) };
  }

  function thinTicks(axis, most) {
    if (!axis?.tickvals || axis.type !== "log" || axis.tickvals.length <= most) return;
    const step = Math.ceil(axis.tickvals.length / most);
    const chosen = (_, i) => i % step === 0;
    axis.tickvals = axis.tickvals.filter(chosen);
    axis.ticktext = axis.ticktext.filter(chosen);
  }

  function wrapped(text) {
    const lines = [""];
    for (const word of text.split(" ")) {
      if ((lines.at(-1) + word).length > 15 && lines.at(-1)) lines.push("");
      lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
    }
    return lines.join("<br>");
  }

  function drawWhenNear() {
    const near = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) {
        const chart = charts.find((one) => one.plot === target);
        if (isIntersecting && !chart.drawn) {
          near.unobserve(target);
          chart.draw();
        }
      }
    }, { rootMargin: "250px 0px" });
    charts.forEach((chart) => near.observe(chart.plot));
  }

  /* Tables that scroll sideways can be reached and scrolled by keyboard. */
  function reachTables() {
    const taken = {}; // of several runs tables have the same caption
    for (const box of document.querySelectorAll(".scroll")) {
      if (box.scrollWidth > box.clientWidth) {
        const name = box.querySelector("caption")?.textContent ?? "Table";
        taken[name] = (taken[name] ?? 0) + 1;
        box.tabIndex = 0;
        box.setAttribute("role", "region");
        box.setAttribute("aria-label", `${name}${taken[name] > 1 ? ` (${taken[name]})` : ""}, scrolls sideways`);
      } else if (document.activeElement !== box) {
        for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
      }
    }
  }

  function redrawAll(undrawnToo = false) {
    for (const chart of charts) if (chart.drawn || undrawnToo) chart.draw();
  }

  function watchWindow() {
    let timer;
    addEventListener("resize", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        reachTables();
        for (const chart of charts) if (chart.drawn && chart.width !== chart.plot.clientWidth) chart.draw();
      }, 120);
    });
    document.addEventListener("toggle", reachTables, true); // a table that was folded
    darkChange.addEventListener("change", () => redrawAll());
    addEventListener("beforeprint", () => {
      printing = true;
      redrawAll(true);
    });
    addEventListener("afterprint", () => {
      printing = false;
      redrawAll();
    });
  }

  // --- text of numbers ---------------------------------------------------------------------------------

  const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const three = new Intl.NumberFormat("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
  /* As three_digits of naslab.units: small whole numbers as they are, else three significant digits. */
  const digits = (value) => (value == null ? "" : Number.isInteger(value) && Math.abs(value) < 1000 ? String(value) : three.format(value));

  function sizeText(bytes) {
    if (bytes == null) return "";
    for (const [unit, factor] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024]]) {
      if (bytes >= factor) return `${digits(bytes / factor)} ${unit}`;
    }
    return `${grouped.format(bytes)} B`;
  }

  function timeText(ns) {
    if (ns == null) return "";
    for (const [unit, factor] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) if (ns >= 0.9995 * factor) return `${digits(ns / factor)} ${unit}`;
    return `${ns} ns`;
  }

  const plain = (value) => (value == null ? "" : String(value));
  const words = (value) => plain(value).replaceAll("_", " ");
  const lookup = (object, path) => path.split(".").reduce((value, key) => (value == null ? null : value[key]), object);

  // --- the table ---------------------------------------------------------------------------------------

  /* Heading, name of the column (see table.py), text of a value, kind. */
  const COLUMNS = [
    ["Run", "run", plain, "run"],
    ["Test", "test", words],
    ["File", "file", sizeText, "num"],
    ["Record", "record", sizeText, "num"],
    ["Repeat", "repeat", plain, "num"],
    ["Depth", "depth", plain, "num"],
    ["Workers", "workers", plain, "num"],
    ["MB/s", "rate", digits, "num"],
    ["ops/s", "iops", digits, "num"],
    ["p50", "p50", timeText, "num"],
    ["p99", "p99", timeText, "num"],
    ["p99.9", "p99_9", timeText, "num"],
    ["Max", "max", timeText, "num"],
    ["Errors", "errors", plain, "num"],
    ["Durability", "durability", plain],
    ["Cache", "cache", plain],
    ["Regime", "regime", words, "why"],
    ["Status", "status", plain],
  ];

  class Table {
    /* runs: id and name of each. columns: values by name. Rows are their numbers. */
    constructor({ runs, columns }) {
      this.values = { ...columns, run: columns.run.map((at) => runs[at].name) };
      this.rows = columns.run.map((_, row) => row);
      this.columns = COLUMNS.filter(([, , , kind]) => kind !== "run" || runs.length > 1);
      this.table = document.getElementById("cells");
      this.pager = document.getElementById("pager");
      this.page = 0;
      this.sorted = null;
      this.descending = false;
      this.head();
      this.show();
    }

    get pages() {
      return Math.max(1, Math.ceil(this.rows.length / PAGE_ROWS));
    }

    head() {
      const cells = this.columns.map(([name, , , kind], index) => {
        const button = element("button", { type: "button" }, name);
        button.addEventListener("click", () => this.sort(index));
        return element("th", { scope: "col", class: kind === "num" ? "num" : "" }, button);
      });
      this.body = element("tbody");
      this.table.replaceChildren(element("caption", { class: "hidden" }, "Every cell"), element("thead", {}, element("tr", {}, ...cells)), this.body);
      this.heads = cells;
    }

    sort(index) {
      this.descending = this.sorted === index && !this.descending;
      this.sorted = index;
      const values = this.values[this.columns[index][1]];
      const sign = this.descending ? -1 : 1;
      const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : plain(a).localeCompare(plain(b), "en"));
      this.rows.sort((a, b) => {
        const [x, y] = [values[a], values[b]];
        return x == null || y == null ? (x == null) - (y == null) : sign * compare(x, y);
      });
      this.heads.forEach((head, i) => (i === index ? head.setAttribute("aria-sort", this.descending ? "descending" : "ascending") : head.removeAttribute("aria-sort")));
      this.page = 0;
      this.show();
    }

    show() {
      const from = this.page * PAGE_ROWS;
      const shown = this.rows.slice(from, from + PAGE_ROWS);
      this.body.replaceChildren(...shown.map((row) => element("tr", {}, ...this.columns.map(([, name, text, kind]) => {
        const found = this.values[name][row];
        const why = kind === "why" && this.values.why[row];
        return element("td", kind === "num" ? { class: "num" } : why ? { title: why } : {}, found == null ? "" : text(found));
      }))));
      this.pages > 1 ? this.showPager(from, shown.length) : this.pager.replaceChildren(this.count(from, shown.length));
    }

    count(from, shown) {
      const text = this.rows.length ? `${grouped.format(from + 1)} to ${grouped.format(from + shown)} of ${grouped.format(this.rows.length)} cells` : "No cells.";
      return element("span", { "aria-live": "polite" }, text);
    }

    showPager(from, shown) {
      const focused = this.pager.contains(document.activeElement) ? document.activeElement.textContent : null;
      const button = (text, page) => {
        const made = element("button", { type: "button" }, text);
        made.disabled = page < 0 || page >= this.pages || page === this.page;
        made.addEventListener("click", () => {
          this.page = page;
          this.show();
        });
        return made;
      };
      const made = [button("First", 0), button("Previous", this.page - 1), button("Next", this.page + 1), button("Last", this.pages - 1)];
      this.pager.replaceChildren(...made, this.count(from, shown));
      if (focused) (made.find((one) => one.textContent === focused && !one.disabled) ?? made.find((one) => !one.disabled)).focus();
    }
  }

  // --- downloads ---------------------------------------------------------------------------------------

  /* One CSV field. Text that a spreadsheet would take for a formula gets an apostrophe. */
  function field(value) {
    if (value == null) return "";
    if (typeof value !== "string") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  async function cellsCsv({ fields }) {
    const lines = [fields.map(([name]) => name).join(",")];
    for (const run of runsOf(exactJson(await unpackedText("naslab-runs")))) {
      for (const cell of run.cells) {
        lines.push(fields.map(([, path]) => field(path.startsWith("run.") ? lookup(run, path.slice(4)) : lookup(cell, path))).join(","));
      }
    }
    return [`${lines.join("\r\n")}\r\n`];
  }

  /* The columns of the interval series (see payload.py): planes of bytes, ZigZag, bytes as what differs from
     operations times record size. */
  function seriesColumns(about, bytes) {
    const columns = {};
    let at = 0;
    for (const { name, planes } of about.columns) {
      const values = new Float64Array(about.rows);
      for (const byte of planes) {
        const factor = 256 ** byte;
        for (let i = 0; i < about.rows; i++) values[i] += bytes[at + i] * factor;
        at += about.rows;
      }
      for (let i = 0; i < about.rows; i++) values[i] = values[i] % 2 ? -(values[i] + 1) / 2 : values[i] / 2;
      columns[name] = values;
    }
    let row = 0;
    const derived = about.columns.filter(({ ops }) => ops);
    for (const [, , count, , record] of about.cells) {
      for (let i = row; i < row + count; i++) for (const { name, ops } of derived) columns[name][i] += columns[ops][i] * record;
      row += count;
    }
    return columns;
  }

  async function seriesCsv({ runs }) {
    const about = await unpackedJson("naslab-series-about");
    const columns = seriesColumns(about, await unpacked("naslab-series"));
    const names = about.columns.map(({ name }) => name);
    const parts = [`run_id,cell,interval_s,t_s,${names.join(",")}\r\n`];
    let row = 0;
    for (const [run, cell, count, interval] of about.cells) {
      const head = `${field(runs[run].id)},${cell},${interval}`;
      const lines = [];
      for (let i = 0; i < count; i++, row++) {
        lines.push(`${head},${Number((i * interval).toFixed(6))},${names.map((name) => columns[name][row]).join(",")}\r\n`);
      }
      parts.push(lines.join(""));
    }
    return parts;
  }

  const runJson = async () => [await unpacked("naslab-runs")];

  /* data: id of each of `runs`; `fields`: name and place of each column of the cells' CSV. */
  function offerDownloads(data) {
    const id = data.runs.length === 1 ? String(data.runs[0].id).replace(/[^\w.-]/g, "_") : "runs";
    const kinds = {
      csv: ["cells.csv", "text/csv", cellsCsv],
      json: ["run.json", "application/json", runJson],
      series: ["series.csv", "text/csv", seriesCsv],
    };
    for (const button of document.querySelectorAll("[data-download]")) {
      const [name, type, make] = kinds[button.dataset.download];
      button.addEventListener("click", async () => {
        const url = URL.createObjectURL(new Blob(await make(data), { type }));
        element("a", { href: url, download: `naslab-${id}-${name}` }).click();
        setTimeout(() => URL.revokeObjectURL(url), 60000);
      });
    }
  }

  // --- start -------------------------------------------------------------------------------------------

  async function start() {
    const { charts: found, dark, columns: fields, table } = await unpackedJson("naslab-charts");
    darkOf = dark;
    if (found.length) {
      charts.push(...found.map((data) => new Chart(data)));
      charts.forEach((chart) => chart.describe());
      await loadPlotly();
      drawWhenNear();
    }
    watchWindow();
    new Table(table);
    offerDownloads({ runs: table.runs, fields });
    reachTables();
    document.documentElement.dataset.ready = "true";
  }

  globalThis.naslabHideRuns = (names) => {
    hiddenRuns.clear();
    for (const name of names) hiddenRuns.add(name);
    redrawAll();
  };
  start();
})();
