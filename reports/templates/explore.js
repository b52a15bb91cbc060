"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE = 100, BARS = 10, MOST_BARS = 60, MOST_DOTS = 1200;
  let DATA, COLS, N, LINKS;

  // --- data ------------------------------------------------------------------------------------
  const unpack = async () => {
    const text = atob(byId("data").textContent.trim());
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    DATA = JSON.parse(await new Response(stream).text());
    COLS = DATA.columns; N = DATA.count; LINKS = DATA.links;
  };
  const get = (name, i) => {
    const column = COLS[name];
    return Array.isArray(column) ? column[i] : column.values[column.at[i]];
  };
  const idOf = (i) => `${get("round", i)}|${get("report", i)}|${get("path", i)}`;

  // --- numbers ---------------------------------------------------------------------------------
  const number = (value) => {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (size >= 1000) return value.toLocaleString("en-US", { maximumFractionDigits: size >= 1e5 ? 0 : 1 });
    return size !== 0 && size < 1e-3 ? value.toExponential(2) : String(+value.toPrecision(5));
  };
  const percent = (value) => (value === null || value === undefined ? "" : `${(100 * value).toFixed(2)} %`);

  // --- what there is to choose -----------------------------------------------------------------
  const FIELDS = {
    metric: "Published figure", rate: "Rate (1/s)", per_accelerator: "Rate per accelerator (1/s, derived)",
    per_watt: "Rate per watt (derived)", per_joule: "Queries per joule (derived)", power: "Measured power",
    accelerators: "Number of accelerators", nodes: "Number of nodes", accuracy_margin: "Accuracy margin to the gate",
    ttft_ms: "TTFT p99 (ms)", tpot_ms: "TPOT p99 (ms)", latency_ms: "Tail latency (ms)",
  };
  const SHOWN = [
    ["round", "Round"], ["division", "Division"], ["submitter", "Submitter"], ["system", "System"], ["benchmark", "Benchmark"],
    ["scenario", "Scenario"], ["status", "Status"], ["metric", "Result"], ["unit", "Unit"], ["accelerator", "Accelerator"],
    ["accelerators", "Count"], ["per_accelerator", "Rate per accelerator"], ["precision", "Weights"], ["accuracy", "Accuracy"],
    ["accuracy_margin", "Margin"], ["power", "Power"], ["power_unit", "Power unit"], ["per_watt", "Rate per watt"],
    ["ttft_ms", "TTFT p99 ms"], ["tpot_ms", "TPOT p99 ms"], ["framework", "Framework"], ["errors", "Errors"], ["warnings", "Warnings"],
  ];
  const NUMERIC = new Set([...Object.keys(FIELDS), "errors", "warnings"]);
  const LONG = new Set(["system", "framework", "accuracy", "accelerator"]);
  const FILTERS = [
    ["round", "Round"], ["division", "Division"], ["category", "Category"], ["benchmark", "Benchmark"], ["scenario", "Scenario"],
    ["accelerator_model", "Accelerator"], ["vendor", "Vendor"], ["accelerators", "Number of accelerators"], ["precision", "Weights"], ["submitter", "Submitter"],
    ["availability", "Availability"],
  ];
  const VIEWS = [["rank", "Ranking"], ["progress", "Progress"], ["compare", "Compare"], ["plot", "Scatter"], ["table", "Table"]];
  const DEFAULT = { view: "rank", per: "metric", x: "accelerators", y: "rate", colour: "accelerator_model", status: "valid", division: "closed", sort: "metric", down: "1", page: "0", show: String(BARS) };
  let state = {};

  // The latest round in which there is something to compare.
  const newest = () => {
    const rounds = [...DATA.rounds].reverse();
    return rounds.find((round) => fullest(round)[2] >= 3) || rounds[0];
  };
  const fullest = (round) => {
    const counts = new Map();
    for (let i = 0; i < N; i++) {
      if ((round && get("round", i) !== round) || get("status", i) !== "valid" || get("division", i) !== "closed" || get("metric", i) === null) continue;
      const key = `${get("benchmark", i)}\n${get("scenario", i)}`;
      counts.set(key, (counts.get(key) || 0) + 1);
    }
    const best = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
    return best ? [...best[0].split("\n"), best[1]] : ["", "", 0];
  };
  const preset = (extra) => ({ ...DEFAULT, ...extra });
  const withPower = () => {
    const counts = new Map();
    for (let i = 0; i < N; i++) if (get("per_watt", i) !== null) {
      const key = `${get("benchmark", i)}\n${get("scenario", i)}`;
      counts.set(key, (counts.get(key) || 0) + 1);
    }
    const best = [...counts].sort((a, b) => b[1] - a[1])[0];
    return best ? best[0].split("\n") : ["", ""];
  };
  const QUESTIONS = () => {
    const [benchmark, scenario] = fullest(newest());
    const [all, allScenario] = fullest("");
    const [power, powerScenario] = withPower();
    const one = { round: newest(), benchmark, scenario };
    const wide = { benchmark: all, scenario: allScenario };
    return [
      ["Which system is fastest?", preset(one)],
      ["Fastest per accelerator?", preset({ ...one, per: "per_accelerator" })],
      ["A against B?", preset({ view: "compare" })],
      ["How did it improve over rounds?", preset({ view: "progress", ...wide, y: "per_accelerator" })],
      ["What accuracy came with that speed?", preset({ view: "plot", ...one, x: "accuracy_margin", y: "per_accelerator" })],
      ["Energy: was it measured?", preset({ view: "rank", benchmark: power, scenario: powerScenario, per: "per_watt", power: "1" })],
      ["Same accelerator, which spread?", preset({ view: "plot", ...one, x: "accelerators", y: "per_accelerator", colour: "submitter" })],
      ["How does it scale?", preset({ view: "plot", ...one, x: "accelerators", y: "rate" })],
      ["Throughput against TTFT or TPOT?", preset({ view: "plot", ...one, scenario: "Server", x: "ttft_ms", y: "per_accelerator" })],
      ["Where are the files and findings?", preset({ view: "table", round: newest() })],
      ["May I have the rows?", preset({ view: "table", status: "", division: "" })],
    ];
  };

  // --- state in the address --------------------------------------------------------------------
  const read = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    if (![...given.keys()].length) return QUESTIONS()[0][1];
    const found = { ...DEFAULT };
    for (const [key, value] of given) found[key] = value;
    return found;
  };
  const write = (change) => {
    const next = { ...state, ...change };
    const kept = Object.entries(next).filter(([key, value]) => value !== (DEFAULT[key] || ""));
    const hash = new URLSearchParams(kept).toString() || "view=rank";
    if (location.hash.slice(1) === hash) draw(); else location.hash = hash;
  };
  const go = (change) => write({ page: "0", row: "", ...change });

  // --- filtering -------------------------------------------------------------------------------
  // A text is compared by its place in the column's dictionary, so that 10,000 rows take a moment.
  const filtered = (without) => {
    const tests = [];
    for (const [name] of [...FILTERS, ["status", ""]]) {
      const wanted = state[name];
      if (!wanted || name === without) continue;
      const column = COLS[name];
      if (!Array.isArray(column)) {
        const at = column.values.findIndex((v) => String(v) === wanted);
        tests.push((i) => column.at[i] === at);
      } else tests.push((i) => String(column[i]) === wanted);
    }
    if (state.power) tests.push((i) => COLS.power[i] !== null);
    const words = (state.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) {
      const hit = {};
      for (const name of ["submitter", "system", "framework", "processor", "accelerator_raw", "benchmark"]) {
        hit[name] = COLS[name].values.map((v) => String(v || "").toLowerCase());
      }
      tests.push((i) => words.every((w) => Object.keys(hit).some((name) => hit[name][COLS[name].at[i]].includes(w))));
    }
    const found = [];
    for (let i = 0; i < N; i++) if (tests.every((test) => test(i))) found.push(i);
    return found;
  };
  const choices = (name, rows) => {
    const counts = new Map();
    for (const i of rows) {
      const value = get(name, i);
      if (value !== null && value !== "") counts.set(value, (counts.get(value) || 0) + 1);
    }
    const order = name === "round" ? (a, b) => DATA.rounds.indexOf(b[0]) - DATA.rounds.indexOf(a[0])
      : (a, b) => (typeof a[0] === "number" ? a[0] - b[0] : a[0] < b[0] ? -1 : 1);
    return [...counts].sort(order);
  };

  // --- building elements -----------------------------------------------------------------------
  const el = (tag, props = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(props)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children);
    return node;
  };
  const s = (tag, props = {}, ...children) => {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const link = (i, ...children) => {
    const kept = new URLSearchParams(location.hash.slice(1));
    kept.set("row", idOf(i));
    const link = s("a", { href: `#${kept}` }, ...children);
    // A bar's words name it; a dot has none of its own.
    if (!link.querySelector("text")) link.setAttribute("aria-label", `${label(i)}: ${figure(i)}`);
    return link;
  };
  const label = (i) => `${get("submitter", i)} ${get("system", i)}`;
  const figure = (i) => `${number(get("metric", i))} ${get("unit", i) || ""}`.trim();
  const markClass = (i, colour) => `mark f${colour % 10}${get("status", i) === "invalid" ? " invalid" : get("division", i) === "open" ? " open" : ""}`;
  const flags = (i) => [get("status", i) === "invalid" ? "INVALID" : "", get("division", i) !== "closed" ? get("division", i) : "", get("availability", i) !== "available" ? get("availability", i) || "" : "", get("inferred_from", i) ? `inferred from ${get("inferred_from", i)}` : ""].filter(Boolean).join(", ");

  const chart = (title, description, height, draw) => {
    const root = s("svg", { viewBox: `0 0 1000 ${height}`, role: "group", "aria-label": `${title}. ${description}` });
    draw(root);
    const box = el("figure", { class: "chart" }, el("h3", {}, title), root,
      el("figcaption", { class: "meta" }, description, " ",
        el("button", { type: "button", onclick: () => png(root, title) }, "Save PNG"), " ",
        el("button", { type: "button", onclick: () => save(svgText(root), "image/svg+xml", "assay-chart.svg") }, "Save SVG")));
    byId("pictures").append(box);
  };
  const nice = (max) => {
    const step = 10 ** Math.floor(Math.log10(max || 1)) / 10;
    const unit = [1, 2, 2.5, 5, 10, 20, 25, 50].find((k) => k * step * 6 >= max) * step;
    const ticks = [];
    for (let k = 0; k * unit <= max * 1.001; k++) ticks.push(k * unit);
    return ticks;
  };

  // --- views -----------------------------------------------------------------------------------
  const groups = (rows) => {
    const found = new Map();
    for (const i of rows) {
      const key = get("comparable", i);
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(i);
    }
    return [...found].sort((a, b) => b[1].length - a[1].length);
  };
  const rank = (rows) => {
    const field = state.per, most = Math.min(Number(state.show) || BARS, MOST_BARS);
    const having = rows.filter((i) => get(field, i) !== null);
    if (field === "power" || field === "per_watt") byId("pictures").append(el("p", { class: "meta" }, `${having.length} of ${rows.length} results have a power measurement in watts.`));
    const found = groups(having);
    if (found.length > 1) notice(`These results fall into ${found.length} groups that are not comparable with one another (other benchmark, scenario, limits or quality target): a chart for each${found.length > 6 ? ", the six largest shown; choose a benchmark and a scenario" : ""}.`);
    for (const [key, members] of found.slice(0, 6)) {
      const low = field === "metric" && !get("higher_is_better", members[0]);
      members.sort((a, b) => (low ? 1 : -1) * (get(field, a) - get(field, b)));
      const bars = members.slice(0, most);
      const max = Math.max(...bars.map((i) => get(field, i)));
      const unit = field === "metric" ? get("unit", bars[0]) || "" : FIELDS[field];
      const rest = members.length > bars.length ? ` The first ${bars.length} of ${members.length}.` : "";
      chart(`${key}`, `${unit}; ${low ? "lower" : "higher"} is better.${rest}`, 24 + 34 * bars.length, (root) => {
        bars.forEach((i, k) => {
          const y = 10 + 34 * k, width = Math.max(2, (430 * get(field, i)) / max);
          const colour = vendorColour(get("vendor", i));
          const more = [get("accelerator", i) ? `${get("accelerators", i) ?? "?"} × ${get("accelerator", i)}` : get("processor", i) || "", get("precision", i), get("round", i), flags(i)].filter(Boolean).join(" · ");
          root.append(link(i,
            s("text", { x: 0, y: y + 11 }, cut(label(i), 60)),
            s("text", { x: 0, y: y + 25, class: "dim" }, cut(more, 62)),
            s("rect", { class: markClass(i, colour), x: 400, y: y + 3, width, height: 18, rx: 2 }),
            s("text", { x: 406 + width, y: y + 16 }, number(get(field, i)))));
        });
      });
    }
  };
  const vendorColour = (vendor) => Math.max(0, COLS.vendor.values.filter((v) => v).indexOf(vendor));

  const progress = (rows) => {
    const field = FIELDS[state.y] ? state.y : "per_accelerator";
    const having = rows.filter((i) => get(field, i) !== null && get("accelerator_model", i));
    const lowBetter = ["ttft_ms", "tpot_ms", "latency_ms"].includes(field) || (field === "metric" && having.some((i) => !get("higher_is_better", i)));
    const series = new Map();
    for (const i of having) {
      const name = get("accelerator_model", i);
      if (!series.has(name)) series.set(name, new Map());
      const best = series.get(name), key = `${get("round", i)}\n${get("comparable", i)}`;
      if (!best.has(key) || (lowBetter ? get(field, i) < get(field, best.get(key)) : get(field, i) > get(field, best.get(key)))) best.set(key, i);
    }
    const kept = [...series].sort((a, b) => new Set([...b[1].values()].map((i) => get("round", i))).size - new Set([...a[1].values()].map((i) => get("round", i))).size).slice(0, 10);
    const rounds = DATA.rounds.filter((r) => kept.some(([, best]) => [...best.keys()].some((k) => k.startsWith(`${r}\n`))));
    const keys = [...new Set(having.map((i) => get("comparable", i)))];
    if (keys.length > 1) notice(`A line joins only results of one benchmark version, limits and quality target. There are ${keys.length} such groups here: ${keys.slice(0, 5).join(" | ")}${keys.length > 5 ? " | …" : ""}.`);
    if (!rounds.length) return;
    const all = kept.flatMap(([, best]) => [...best.values()].map((i) => get(field, i))).filter((v) => v > 0);
    const max = Math.max(...all), min = Math.min(...all), log = max / min > 30;
    const X = (r) => 90 + (rounds.indexOf(r) * 620) / Math.max(1, rounds.length - 1);
    const Y = (v) => (log ? 330 - (300 * Math.log(v / min)) / Math.log(max / min || 2) : 330 - (300 * v) / max);
    chart(`${FIELDS[field]} by round, best of each accelerator`, `${log ? "Logarithmic scale. " : ""}Same accelerator over rounds: software; another accelerator: hardware.`, 380, (root) => {
      axes(root, log ? logTicks(min, max) : nice(max), Y, 90, 710);
      for (const r of rounds) root.append(s("text", { x: X(r), y: 355, "text-anchor": "middle", class: "dim" }, r));
      kept.forEach(([name, best], k) => {
        const points = [...best.values()].sort((a, b) => DATA.rounds.indexOf(get("round", a)) - DATA.rounds.indexOf(get("round", b)));
        for (const key of keys) {
          const line = points.filter((i) => get("comparable", i) === key);
          if (line.length > 1) root.append(s("path", { class: `line f${k} noarea`, fill: "none", d: line.map((i, n) => `${n ? "L" : "M"}${X(get("round", i)).toFixed(1)} ${Y(get(field, i)).toFixed(1)}`).join("") }));
        }
        for (const i of points) root.append(link(i, s("circle", { class: markClass(i, k), cx: X(get("round", i)), cy: Y(get(field, i)), r: 5 }, s("title", {}, `${name}, ${get("round", i)}: ${number(get(field, i))} (${label(i)}; ${get("comparable", i)})`))));
        root.append(s("rect", { class: `f${k}`, x: 735, y: 22 + 24 * k, width: 12, height: 12 }), s("text", { x: 753, y: 33 + 24 * k }, cut(name, 36)));
      });
    });
  };
  const logTicks = (min, max) => {
    const ticks = [];
    for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); e++) for (const k of [1, 3]) if (k * 10 ** e >= min * 0.99 && k * 10 ** e <= max * 1.01) ticks.push(k * 10 ** e);
    return ticks.length > 1 ? ticks : [min, max];
  };
  const axes = (root, ticks, Y, left, right) => {
    for (const tick of ticks) if (Y(tick) > 8) root.append(s("line", { class: "grid", x1: left, x2: right, y1: Y(tick), y2: Y(tick) }), s("text", { x: left - 6, y: Y(tick) + 4, "text-anchor": "end", class: "dim" }, number(tick)));
  };

  const plot = (rows) => {
    const every = rows.filter((i) => get(state.x, i) !== null && get(state.y, i) !== null), having = every.slice(0, MOST_DOTS);
    const keys = new Set(having.map((i) => get("comparable", i)));
    if (keys.size > 1) notice(`${keys.size} groups of results that are not directly comparable (other benchmark, scenario, limits or quality target) are drawn together; no line joins them. Choose one benchmark, scenario and round to compare.`);
    if (!having.length) return;
    const lines = [["ttft_ms", "ttft_limit_ms"], ["tpot_ms", "tpot_limit_ms"], ["latency_ms", "latency_limit_ms"]];
    const LIMITED = new Set(lines.map(([field]) => field));
    const values = (name) => having.map((i) => get(name, i));
    const scale = (name, from, to) => {
      const all = values(name), max = Math.max(...all), min = Math.min(...all);
      if (min > 0 && max / min > 30) return { at: (v) => from + ((to - from) * Math.log(v / min)) / Math.log(max / min), ticks: logTicks(min, max), log: true };
      // A limit that holds for all of what is shown belongs into the picture.
      const bounds = new Set(values((lines.find(([field]) => field === name) || ["", "metric"])[1]));
      const bound = LIMITED.has(name) && bounds.size === 1 ? [...bounds][0] || 0 : 0;
      const low = Math.min(0, min), high = Math.max(max, bound) === low ? low + 1 : Math.max(max, bound);
      return { at: (v) => from + ((to - from) * (v - low)) / (high - low), ticks: low < 0 ? [low, 0, high] : nice(high), log: false };
    };
    const x = scale(state.x, 90, 720), y = scale(state.y, 350, 20);
    const groupsOf = [...new Set(having.map((i) => get(state.colour, i) || "none"))];
    const colours = new Map(groupsOf.map((name, k) => [name, k]));
    chart(`${FIELDS[state.y]} against ${FIELDS[state.x]}`, `${having.length < every.length ? `The first ${having.length.toLocaleString("en-US")} of ${every.length.toLocaleString("en-US")} results; narrow the filters to see the rest` : `${every.length.toLocaleString("en-US")} results`}${x.log || y.log ? "; logarithmic scale" : ""}. Hollow: open division. Dashed red: INVALID.`, 410, (root) => {
      axes(root, y.ticks, y.at, 90, 720);
      for (const tick of x.ticks) root.append(s("text", { x: x.at(tick), y: 370, "text-anchor": "middle", class: "dim" }, number(tick)));
      root.append(s("line", { class: "axis", x1: 90, x2: 720, y1: 350, y2: 350 }), s("text", { x: 405, y: 398, "text-anchor": "middle" }, FIELDS[state.x]));
      // A limit is drawn only where one limit holds for all of what is shown.
      for (const [field, limit] of lines) {
        const limits = new Set(values(limit));
        if (limits.size === 1 && [...limits][0] !== null) {
          const at = [...limits][0];
          if (state.x === field && x.at(at) <= 730) root.append(s("line", { class: "limit", x1: x.at(at), x2: x.at(at), y1: 20, y2: 350 }), s("text", { x: x.at(at) + 4, y: 18 }, `limit ${number(at)} ms`));
          if (state.y === field && y.at(at) >= 10) root.append(s("line", { class: "limit", x1: 90, x2: 720, y1: y.at(at), y2: y.at(at) }));
        }
      }
      for (const i of having) root.append(link(i, s("circle", { class: markClass(i, colours.get(get(state.colour, i) || "none")), cx: x.at(get(state.x, i)).toFixed(1), cy: y.at(get(state.y, i)).toFixed(1), r: 5 }, s("title", {}, `${label(i)}: ${number(get(state.y, i))} at ${number(get(state.x, i))}`))));
      groupsOf.slice(0, 14).forEach((name, k) => root.append(s("rect", { class: `f${k % 10}`, x: 740, y: 22 + 24 * k, width: 12, height: 12 }), s("text", { x: 758, y: 33 + 24 * k }, cut(String(name), 34))));
      if (groupsOf.length > 14) root.append(s("text", { x: 758, y: 370, class: "dim" }, `and ${groupsOf.length - 14} more`));
    });
  };

  const compare = (rows) => {
    const systems = new Map();
    for (const i of rows) {
      const key = `${get("round", i)} | ${get("division", i)} | ${get("submitter", i)} | ${get("system", i)}`;
      if (!systems.has(key)) systems.set(key, []);
      systems.get(key).push(i);
    }
    const names = [...systems.keys()].sort((a, b) => DATA.rounds.indexOf(b.split(" | ")[0]) - DATA.rounds.indexOf(a.split(" | ")[0]) || (a < b ? -1 : 1));
    const shared = (a, b) => systems.get(a).filter((i) => systems.get(b).some((j) => get("comparable", j) === get("comparable", i))).length;
    let [a, b] = [state.a, state.b];
    // By itself: the system of the newest round with the most results, and the one that shares most of them.
    if (!systems.has(a)) a = names.filter((n) => n.startsWith(`${newest()} | `)).sort((p, q) => systems.get(q).length - systems.get(p).length)[0] || names[0];
    if (a && !systems.has(b)) b = names.filter((n) => n !== a).sort((p, q) => shared(a, q) - shared(a, p))[0];
    for (const [name, chosen, title] of [["a", a, "System A"], ["b", b, "System B"]]) {
      const select = el("select", { onchange: (event) => go({ [name]: event.target.value }) });
      for (const option of names) select.append(el("option", { value: option, selected: option === chosen }, option));
      byId("options").append(el("label", {}, title, select));
    }
    if (!a || !b) return [];
    const [first, second] = [systems.get(a), systems.get(b)];
    const lines = [];
    for (const i of first) for (const j of second) {
      if (get("benchmark", i) !== get("benchmark", j) || get("scenario", i) !== get("scenario", j) || !get("rate", i) || !get("rate", j)) continue;
      lines.push([i, j, get("comparable", i) === get("comparable", j) && get("status", i) === "valid" && get("status", j) === "valid"]);
    }
    const table = el("table", {}, el("caption", { class: "meta" }, "Results that both systems have. Ratio: rate of A over rate of B; above 1, A is faster."),
      el("thead", {}, el("tr", {}, ...["Benchmark", "Scenario", "A", "B", "Ratio A/B", "Per accelerator"].map((t, k) => el("th", { scope: "col", class: k > 1 ? "n" : null }, t)))));
    const body = el("tbody");
    const ratios = [], each = [];
    for (const [i, j, fair] of lines) {
      const ratio = get("rate", i) / get("rate", j);
      const per = get("per_accelerator", i) && get("per_accelerator", j) ? get("per_accelerator", i) / get("per_accelerator", j) : null;
      if (fair) { ratios.push(ratio); if (per) each.push(per); }
      body.append(el("tr", {}, el("td", {}, get("benchmark", i)), el("td", {}, get("scenario", i)), el("td", { class: "n" }, figure(i)), el("td", { class: "n" }, figure(j)),
        el("td", { class: "n" }, fair ? ratio.toFixed(3) : "not comparable"), el("td", { class: "n" }, fair && per ? per.toFixed(3) : "")));
    }
    table.append(body);
    const mean = (list) => Math.exp(list.reduce((sum, v) => sum + Math.log(v), 0) / list.length);
    if (ratios.length) table.append(el("tfoot", {}, el("tr", {}, el("th", { scope: "row", colspan: 4 }, `Geometric mean of ${ratios.length}`), el("td", { class: "n" }, mean(ratios).toFixed(3)), el("td", { class: "n" }, each.length ? `${mean(each).toFixed(3)} (of ${each.length})` : ""))));
    if (lines.some((l) => !l[2])) notice("Rows marked \"not comparable\" differ in limits or quality target, or one side is INVALID; they are left out of the mean.");
    byId("pictures").append(el("h3", {}, "Results of both"), lines.length ? el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Comparison" }, table) : el("p", {}, "The two systems have no benchmark and scenario in common."));
    const config = el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Configuration"), el("th", { scope: "col" }, "A"), el("th", { scope: "col" }, "B"))));
    const lineup = el("tbody");
    for (const name of ["accelerator", "accelerators", "nodes", "processor", "precision", "framework", "availability", "category"]) {
      const of = (list) => [...new Set(list.map((i) => get(name, i)))].filter((v) => v !== null).join("; ");
      const [left, right] = [of(first), of(second)];
      lineup.append(el("tr", {}, el("th", { scope: "row" }, name.replace("_", " ")), el("td", { class: left === right ? null : "bad" }, left), el("td", { class: left === right ? null : "bad" }, right)));
    }
    config.append(lineup);
    byId("pictures").append(el("h3", {}, "Configuration (differences in red)"), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Configuration" }, config));
    return [...first, ...second];
  };

  // --- table, detail, export -------------------------------------------------------------------
  const cell = (name, i) => {
    const value = get(name, i);
    if (name === "accuracy_margin") return percent(value);
    return NUMERIC.has(name) ? number(value) : String(value ?? "");
  };
  const table = (rows) => {
    const name = COLS[state.sort] ? state.sort : "metric", down = state.down !== "0";
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = [get(name, a), get(name, b)];
      if (x === y) return a - b;
      if (x === null) return 1;
      if (y === null) return -1;
      return (x < y ? -1 : 1) * (down ? -1 : 1);
    });
    const pages = Math.max(1, Math.ceil(sorted.length / PAGE)), page = Math.min(Number(state.page) || 0, pages - 1);
    const head = el("tr");
    for (const [key, title] of SHOWN) {
      const current = key === name;
      head.append(el("th", { scope: "col", class: NUMERIC.has(key) ? "n" : null, "aria-sort": current ? (down ? "descending" : "ascending") : null },
        el("button", { type: "button", onclick: () => go({ sort: key, down: current ? (down ? "0" : "1") : NUMERIC.has(key) ? "1" : "0" }) }, `${title}${current ? (down ? " ▾" : " ▴") : ""}`)));
    }
    const body = el("tbody");
    for (const i of sorted.slice(page * PAGE, (page + 1) * PAGE)) {
      const tr = el("tr");
      for (const [key] of SHOWN) {
        const td = el("td", { class: NUMERIC.has(key) ? "n" : key === "status" && get(key, i) === "invalid" ? "bad" : LONG.has(key) ? "long" : null });
        if (key === "system") {
          const kept = new URLSearchParams(location.hash.slice(1));
          kept.set("row", idOf(i));
          td.append(el("a", { href: `#${kept}` }, cell(key, i)));
        } else td.append(cell(key, i));
        tr.append(td);
      }
      body.append(tr);
    }
    const box = byId("rows");
    box.replaceChildren(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows" }, el("table", {}, el("thead", {}, head), body)));
    if (pages > 1) box.append(el("p", { class: "actions" },
      el("button", { type: "button", disabled: page === 0, onclick: () => write({ page: String(page - 1) }) }, "Previous"),
      el("span", {}, `Page ${page + 1} of ${pages}`),
      el("button", { type: "button", disabled: page + 1 >= pages, onclick: () => write({ page: String(page + 1) }) }, "Next")));
  };
  const detail = () => {
    const box = byId("detail");
    let i = -1;
    if (state.row) for (let k = 0; k < N; k++) if (idOf(k) === state.row) { i = k; break; }
    box.hidden = i < 0;
    if (i < 0) return;
    const list = el("dl");
    for (const name of Object.keys(COLS)) {
      if (name === "findings") continue;
      const value = name === "accuracy_margin" ? percent(get(name, i)) : NUMERIC.has(name) || typeof get(name, i) === "number" ? number(get(name, i)) : String(get(name, i) ?? "");
      if (value === "") continue;
      const base = LINKS[get("round", i)];
      const shown = name === "path" && base ? el("a", { href: base.replace(/\/*$/, "/") + get("path", i).split("/").map(encodeURIComponent).join("/"), rel: "noreferrer" }, value) : value;
      list.append(el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, shown));
    }
    const findings = get("findings", i);
    byId("detail-body").replaceChildren(el("p", {}, el("b", {}, `${label(i)}: ${figure(i)}`), " ", el("button", { type: "button", onclick: () => write({ row: "" }) }, "Close")), list,
      el("h3", {}, findings.length ? "Findings of assay check" : "No finding"), el("ul", {}, ...findings.map((text) => el("li", {}, text))));
    box.setAttribute("tabindex", "-1");
    box.focus({ preventScroll: true });
    box.scrollIntoView({ block: "nearest" });
  };
  const csvText = (rows) => {
    const quote = (v) => {
      let text = Array.isArray(v) ? v.join(" | ") : v === null || v === undefined ? "" : String(v);
      if (typeof v !== "number" && /^\s*[=+\-@]/.test(text)) text = `'${text}`;
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const names = Object.keys(COLS);
    return [names.join(","), ...rows.map((i) => names.map((n) => quote(get(n, i))).join(","))].join("\r\n") + "\r\n";
  };
  const save = (content, type, name) => {
    const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  // A picture leaves the page without its style sheet: what is computed is written into it.
  const svgText = (root) => {
    const copy = root.cloneNode(true), from = [root, ...root.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((node, k) => {
      const style = getComputedStyle(node);
      for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size"]) to[k].setAttribute(name, style.getPropertyValue(name));
    });
    for (const a of copy.querySelectorAll("a")) a.removeAttribute("href");
    copy.setAttribute("xmlns", SVG);
    const [, , w, h] = copy.getAttribute("viewBox").split(" ").map(Number);
    copy.setAttribute("width", w); copy.setAttribute("height", h + 24);
    copy.setAttribute("viewBox", `0 0 ${w} ${h + 24}`);
    const note = s("text", { x: 0, y: h + 16, "font-size": 11, fill: getComputedStyle(document.body).color, "font-family": "sans-serif" });
    note.textContent = "Derived by Assay from submitted files; not an MLPerf publication.";
    copy.prepend(s("rect", { width: w, height: h + 24, fill: getComputedStyle(document.body).backgroundColor }));
    copy.append(note);
    return new XMLSerializer().serializeToString(copy);
  };
  const png = (root, title) => {
    const image = new Image(), url = URL.createObjectURL(new Blob([svgText(root)], { type: "image/svg+xml" }));
    image.onload = () => {
      const canvas = el("canvas", { width: image.width * 2, height: image.height * 2 });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, "image/png", `assay-${title.replace(/[^a-z0-9]+/gi, "-").slice(0, 60)}.png`));
      URL.revokeObjectURL(url);
    };
    image.src = url;
  };
  const notice = (text) => { byId("notice").hidden = false; byId("notice").textContent = text; };

  // --- controls --------------------------------------------------------------------------------
  const option = (title, name, entries) => {
    const select = el("select", { onchange: (event) => go({ [name]: event.target.value }) });
    for (const [value, text] of entries) select.append(el("option", { value, selected: state[name] === value }, text));
    byId("options").append(el("label", {}, title, select));
  };
  const controls = (rows) => {
    const form = byId("filters"), focused = document.activeElement && document.activeElement.name;
    form.replaceChildren();
    for (const [name, title] of FILTERS) {
      const select = el("select", { name, onchange: (event) => go({ [name]: event.target.value, row: "" }) }, el("option", { value: "" }, "all"));
      const entries = choices(name, filtered(name));
      if (state[name] && !entries.some(([value]) => String(value) === state[name])) entries.push([state[name], 0]);
      for (const [value, count] of entries) select.append(el("option", { value, selected: String(value) === state[name] }, `${value} (${count})`));
      form.append(el("label", {}, title, select));
    }
    const status = el("select", { name: "status", onchange: (event) => go({ status: event.target.value }) });
    for (const [value, text] of [["valid", "valid only"], ["", "valid and INVALID"], ["invalid", "INVALID only"]]) status.append(el("option", { value, selected: state.status === value }, text));
    form.append(el("label", {}, "Verdict", status));
    form.append(el("label", {}, "Search (submitter, system, framework)", el("input", { type: "search", name: "q", value: state.q || "", onchange: (event) => go({ q: event.target.value }) })));
    form.append(el("label", { class: "check" }, el("input", { type: "checkbox", name: "power", checked: state.power === "1", onchange: (event) => go({ power: event.target.checked ? "1" : "" }) }), " with measured power"));
    const again = focused && form.elements[focused];
    if (again) again.focus();
    byId("views").replaceChildren(...VIEWS.map(([value, text]) => el("button", { type: "button", "aria-pressed": String(state.view === value), onclick: () => go({ view: value }) }, text)));
    byId("options").replaceChildren();
    const fields = Object.entries(FIELDS);
    if (state.view === "rank") {
      option("Figure", "per", fields.filter(([name]) => ["metric", "per_accelerator", "per_watt", "per_joule"].includes(name)));
      option("Bars", "show", [["10", "10"], ["20", "20"], ["60", "60"]]);
    } else if (state.view === "progress") option("Figure", "y", fields);
    else if (state.view === "plot") {
      option("Horizontal", "x", fields);
      option("Vertical", "y", fields);
      option("Colour", "colour", [["accelerator_model", "Accelerator"], ["submitter", "Submitter"], ["precision", "Weights"], ["round", "Round"], ["benchmark", "Benchmark"]]);
    }
    byId("actions").replaceChildren(
      el("button", { type: "button", onclick: async (event) => { await copyText(csvText(current)); event.target.textContent = "Copied"; } }, "Copy rows as CSV"),
      el("button", { type: "button", onclick: () => save(csvText(current), "text/csv", "assay-results.csv") }, "Save CSV"),
      el("button", { type: "button", onclick: () => save(JSON.stringify(current.map((i) => Object.fromEntries(Object.keys(COLS).map((n) => [n, get(n, i)]))), null, 1), "application/json", "assay-results.json") }, "Save JSON"),
      el("button", { type: "button", onclick: async (event) => { await copyText(location.href); event.target.textContent = "Copied"; } }, "Copy link to this view"));
    byId("title").textContent = [state.benchmark || "All benchmarks", state.scenario, state.round || `${DATA.rounds.length} rounds`, state.division || "all divisions"].filter(Boolean).join(" · ");
    byId("state").textContent = `${rows.length.toLocaleString("en-US")} of ${N.toLocaleString("en-US")} results`;
  };
  // The clipboard is closed to pages opened from a file in some browsers; a text field is not.
  const copyText = async (text) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const field = el("textarea", { "aria-hidden": "true" }, text);
      document.body.append(field); field.select(); document.execCommand("copy"); field.remove();
    }
  };
  let current = [];
  const draw = () => {
    const began = performance.now();
    state = read();
    byId("notice").hidden = true;
    byId("pictures").replaceChildren();
    current = filtered();
    controls(current);
    if (!current.length) byId("pictures").append(el("p", {}, "No result has all of these properties."));
    if (state.view === "rank") rank(current);
    else if (state.view === "progress") progress(current);
    else if (state.view === "plot") plot(current);
    else if (state.view === "compare") current = compare(current);
    table(current);
    detail();
    document.documentElement.dataset.drawn = (performance.now() - began).toFixed(1);
  };
  unpack().then(() => {
    byId("questions").replaceChildren(...QUESTIONS().map(([text, target]) => el("button", { type: "button", onclick: () => { state = {}; write(target); } }, text)));
    addEventListener("hashchange", draw);
    draw();
    document.documentElement.dataset.ready = performance.now().toFixed(0);
  }).catch((error) => notice(`The data could not be unpacked: ${error.message}`));
})();
