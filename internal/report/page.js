"use strict";
const $ = id => document.getElementById(id);
const data = $("data"), live = !data; // a live page asks for what is known
let run;
const css = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const palette = ["#4a7ab0", "#e08e3c", "#57a05a", "#a877ad", "#5fb0b5", "#d1a52f", "#cf6f7d", "#8c7a63", "#6f7fd6", "#93a350"];
const color = f => palette[f % palette.length];

// Elements and texts. All text goes through textContent.
function h(tag, attrs, ...kids) {
  const e = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const k in attrs || {}) if (attrs[k] != null) k.startsWith("on") ? e.addEventListener(k.slice(2), attrs[k]) : k === "style" ? e.style.cssText = attrs[k] : e.setAttribute(k, attrs[k]);
  e.append(...kids.flat().filter(x => x != null));
  return e;
}
// fill gives an element what it is to have, and leaves it as it is if it has that.
function fill(e, ...kids) {
  const next = e.cloneNode();
  next.append(...kids.flat().filter(x => x != null));
  if (!next.isEqualNode(e)) e.replaceChildren(...next.childNodes);
}
const three = x => x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
const count = n => n.toLocaleString("en");
const many = (n, what) => count(n) + " " + what + (n === 1 ? "" : "s");
function dur(us) {
  if (us < 1000) return Math.round(us) + " µs";
  if (us < 1e6) return three(us / 1e3) + " ms";
  if (us < 60e6) return three(us / 1e6) + " s";
  const s = Math.round(us / 1e6);
  return s < 3600 ? Math.floor(s / 60) + " min " + s % 60 + " s" : Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
}
function bytes(n) {
  for (const u of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024) return (u === "B" ? n : three(n)) + " " + u;
    n /= 1024;
  }
  return three(n) + " TiB";
}
const number = n => n ? count(n) : h("span", {class: "soft"}, "0");
const rate = x => x >= 1000 ? count(Math.round(x)) : x >= 10 ? x.toFixed(0) : x.toFixed(1);
// clock is a time on an axis whose ticks are so far apart.
function clock(us, step) {
  const t = Math.max(us / 1e6, 0), two = n => String(n).padStart(2, "0");
  const places = step >= 1e6 ? 0 : Math.min(Math.ceil(-Math.log10(step / 1e6) - 1e-9), 6);
  if (t < 60 && step < 60e6 && run.Last < 120e6) return t.toFixed(places) + " s";
  const whole = Math.floor(t + 1e-9), part = places ? (t - whole).toFixed(places).slice(1) : "";
  return (whole >= 3600 ? Math.floor(whole / 3600) + ":" + two(Math.floor(whole / 60) % 60) : Math.floor(whole / 60)) + ":" + two(whole % 60) + part;
}
function nice(range, n) {
  const raw = range / n, p = 10 ** Math.floor(Math.log10(raw));
  return p * ([1, 2, 5].find(m => m * p >= raw) || 10);
}
function niceTime(range, n) {
  const raw = range / n / 1e6;
  return 1e6 * (raw < 1 ? nice(raw, 1) : [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400].find(s => s >= raw) || nice(raw, 1));
}
const ticks = (from, to, step) => Array.from({length: Math.max(Math.floor(to / step) - Math.ceil(from / step) + 1, 0)}, (_, i) => (Math.ceil(from / step) + i) * step);

// A table that sorts by its columns: {name, get, cell, num, head, title, cls}. How it is sorted, and whether all of it is shown, stays.
const tables = {};
function table(into, label, cols, rows, sort, limit = 100) {
  const s = tables[label] ||= {by: sort[0], down: sort[1], all: false};
  s.draw = focus => {
    const by = cols[s.by], sorted = !by ? rows.slice() : rows.slice().sort((a, b) => {
      const x = by.get(a), y = by.get(b), c = typeof x === "string" ? x.localeCompare(y, "en", {numeric: true}) : x - y;
      return s.down ? -c : c;
    });
    const head = cols.map((c, i) => h("th", {scope: "col", class: c.num ? "num" : null, "aria-sort": i === s.by ? (s.down ? "descending" : "ascending") : null, title: c.title},
      h("button", {onclick: () => { s.down = i === s.by ? !s.down : !!c.num; s.by = i; s.draw(i); }}, c.name)));
    const body = sorted.slice(0, s.all ? undefined : limit).map(r => h("tr", null, cols.map(c =>
      h(c.head ? "th" : "td", {scope: c.head ? "row" : null, class: [c.num ? "num" : "", c.cls || ""].join(" ").trim() || null}, c.cell ? c.cell(r) : c.num ? number(c.get(r)) : c.get(r)))));
    const left = into.querySelector(".scroll")?.scrollLeft;
    fill(into, h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label},
      h("table", {"aria-label": label}, h("thead", null, h("tr", null, head)), h("tbody", null, body))),
      !s.all && rows.length > limit ? h("button", {class: "more", onclick: () => { s.all = true; s.draw(); }}, "Show all " + count(rows.length)) : null);
    if (left) into.querySelector(".scroll").scrollLeft = left;
    if (focus != null) into.querySelectorAll("thead button")[focus].focus();
  };
  s.draw();
}

// Overview.
const sum = k => run.Funcs.reduce((n, f) => n + f[k], 0);
const seconds = () => Math.max(run.Last, 1) / 1e6;
function overview() {
  const name = run.Program || "Run", began = new Date(run.Began), cut = !run.Ended && !live;
  document.title = name + (live ? ": Fiber dashboard" : ": Fiber report");
  $("program").textContent = name;
  $("status").textContent = cut ? "cut off" : !run.Ended ? "running" : run.Err ? "failed" : "finished";
  $("status").className = "chip " + (cut ? "warn" : !run.Ended ? "on" : run.Err ? "bad" : "ok");
  $("about").textContent = [began.toLocaleString("sv"), dur(run.Last), run.Backend && "backend " + run.Backend, run.Machine, run.Go].filter(Boolean).join("  ·  ");
  const note = (cls, text) => h("p", {class: "note " + cls}, text);
  fill($("notes"), run.Err ? note("bad", run.Err) : null,
    cut ? note("warn", "The run had not ended when this was recorded, or was killed. What came later is missing.") : null,
    run.Missed.Events ? note("warn", many(run.Missed.Events, "event") + " with " + many(run.Missed.Tasks, "task") +
      " came faster than they could be recorded, and are missing in the stream and the times. The counts of calls that have ended are right.") : null);
  const started = run.Processes.reduce((n, p) => n + (p.Merged ? p.Ready : p.Role === "worker" ? 1 : 0), 0);
  const done = sum("Done"), kept = sum("Kept"), peak = Math.max(0, ...run.Ready), open = sum("Open");
  const best = rates(Math.min(run.Done.length, 120)).reduce((m, x) => Math.max(m, x.v), 0);
  const fact = (dt, dd, small, cls) => h("div", null, h("dt", null, dt), h("dd", {class: cls, "data-fact": dt}, dd, small ? h("small", null, small) : null));
  fill($("facts"),
    fact("Tasks done", count(done), kept ? many(kept, "more") + " from a checkpoint" : many(sum("Calls"), "call") + (open ? ", " + count(open) + " open" : "")),
    fact("Failed", count(sum("Failed")), done + sum("Failed") ? three(100 * sum("Failed") / (done + sum("Failed"))) + " % of tasks" : null, sum("Failed") ? "bad" : null),
    fact("Retried", count(sum("Retried")), "started again"),
    fact("Tasks per second", rate(done / seconds()), "at most " + rate(best)),
    fact("Duration", dur(run.Last)),
    fact("Workers", count(peak), count(started) + " started in all"),
    fact("Lost", count(run.Lost), run.Lost ? "see Workers" : "workers", run.Lost ? "bad" : null));
  charts();
}
const charts = () => fill($("charts"), h("h3", null, "Tasks per second"), chart(150, rates, "tasks per second", false), h("h3", null, "Workers ready"), chart(80, ready, "workers ready", true));
// groups joins the bins to at most n, each with its beginning and end.
function groups(n) {
  const per = Math.ceil(run.Done.length / n), all = [];
  for (let i = 0; i < run.Done.length; i += per) all.push({i, j: Math.min(i + per, run.Done.length), from: i * run.Width, to: Math.min((i + per) * run.Width, Math.max(run.Last, 1))});
  if (all.length > 1 && all.at(-1).to - all.at(-1).from < per * run.Width / 2) { // too short for a rate of its own
    const last = all.pop();
    Object.assign(all.at(-1), {j: last.j, to: last.to});
  }
  return all;
}
const total = (a, g) => a.slice(g.i, g.j).reduce((x, y) => x + y, 0);
const rates = n => groups(n).map(g => ({...g, v: total(run.Done, g) / (g.to - g.from) * 1e6, f: total(run.Failed, g) / (g.to - g.from) * 1e6}));
const ready = n => groups(n).map(g => ({...g, v: run.Ready[g.j - 1], f: 0}));
function chart(height, values, what, line) {
  const width = Math.max($("charts").clientWidth, 100), left = 52, bottom = 18, w = width - left - 4, all = values(Math.min(Math.floor(w / 5), 200));
  const max = Math.max(...all.map(p => p.v + p.f)) || 1, step = line && max < 4 ? 1 : nice(max, line ? 2 : 3), top = Math.max(Math.ceil(max / step - 1e-9), 1) * step;
  const x = t => left + t / Math.max(run.Last, 1) * w, y = v => 6 + (height - bottom - 6) * (1 - v / top);
  const path = k => all.map((p, i) => (i ? "L" : "M") + x(p.from).toFixed(1) + " " + y(k(p)).toFixed(1) + "H" + x(p.to).toFixed(1)).join("");
  const area = k => path(k) + "V" + y(0) + "H" + left + "Z", every = niceTime(run.Last, w / 90);
  return h("svg:svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${what} over time, at most ${rate(max)}`},
    ticks(0, top, step).map(v => h("svg:g", null, h("svg:line", {class: "grid", x1: left, x2: width - 4, y1: y(v), y2: y(v)}), h("svg:text", {x: left - 8, y: y(v) + 4, "text-anchor": "end"}, count(+v.toPrecision(6))))),
    ticks(0, run.Last, every).map(t => h("svg:text", {x: x(t), y: height - 2, "text-anchor": t ? "middle" : "start"}, clock(t, every))),
    h("svg:path", {d: area(p => p.v + p.f), style: "fill:var(--accent)", "fill-opacity": line ? .1 : .22}),
    all.some(p => p.f) ? h("svg:path", {d: area(p => p.f), style: "fill:var(--fail)"}) : null,
    h("svg:path", {d: path(p => p.v + p.f), style: "fill:none;stroke:var(--accent);stroke-width:1.5"}));
}

// Calls.
function histogram(t) {
  const keys = Object.keys(t.Times || {}).map(Number);
  if (!keys.length) return null;
  const lo = Math.min(...keys), n = Math.max(...keys) - lo + 1, w = Math.min(Math.max(72 / n, 1.5), 7), top = Math.max(...Object.values(t.Times));
  return h("svg:svg", {class: "spark", width: Math.ceil(Math.max(72, n * w)), height: 20, role: "img", "aria-label": "running times from " + dur(2 ** (lo / 4)) + " to " + dur(t.Max)},
    h("svg:title", null, "running times from " + dur(2 ** (lo / 4)) + " to " + dur(t.Max) + ", on a logarithmic scale"),
    keys.map(k => { const tall = Math.max(18 * t.Times[k] / top, 1); return h("svg:rect", {x: (k - lo) * w, y: 19 - tall, width: Math.max(w - .7, 1), height: tall, style: "fill:var(--accent)"}); }));
}
function progress(t) {
  const n = Math.max(t.Tasks, t.Done + t.Failed + t.Kept, 1), part = x => `width:${(100 * x / n).toFixed(2)}%`;
  return h("span", null, h("span", {class: "progress", "aria-hidden": "true"}, h("i", {style: part(t.Done + t.Kept)}), h("i", {class: "f", style: part(t.Failed)})),
    count(t.Done + t.Kept) + (t.Tasks < 0 ? " so far" : " of " + count(Math.max(t.Tasks, t.Done + t.Failed + t.Kept))));
}
function calls() {
  const each = run.Calls.filter(t => t.Calls || t.Done || t.Failed), of = new Map(run.Names.map((n, i) => [n, i]));
  const end = t => t.Open || !t.Ended ? run.Last : t.Ended, quick = t => t.Done / Math.max(end(t) - t.Began, 1) * 1e6;
  const left = t => { // if its tasks go on as they have so far
    const ended = t.Done + t.Failed, more = t.Tasks - t.Kept - ended;
    return live && t.Calls === 1 && ended && more > 0 ? ", " + dur((run.Last - t.Began) / ended * more) + " left" : "";
  };
  const num = (name, get, cell, title) => ({name, num: true, get, cell: cell && (t => cell(get(t))), title});
  const failures = {name: "Failed", num: true, get: t => t.Failed, cell: t => t.Failed ? h("span", {class: "bad"}, count(t.Failed)) : number(0)};
  const cols = first => [
    {name: "Function", head: true, get: t => t.Func, cell: t => [h("i", {class: "dot", style: "background:" + color(of.get(t.Func))}), t.Func]}, first,
    {name: "Tasks", get: t => t.Done + t.Kept, cell: progress}, failures, num("Retried", t => t.Retried), num("Per second", quick, rate),
    num("p50", t => t.P50, dur), num("p95", t => t.P95, dur), num("p99", t => t.P99, dur), num("Longest", t => t.Max, dur),
    {name: "Times", get: t => t.P50, cell: histogram}, num("Results", t => t.Bytes, bytes, "size of the results, encoded")];
  if (!each.length) return fill($("each"), h("p", {class: "soft"}, live && !run.Ended ? "No call was made yet." : "No call was made."));
  const errors = each.some(t => t.Err || t.Open), more = [num("Began", t => t.Began, t => clock(t, 1e6)), num("Took", t => end(t) - t.Began, dur),
    {name: "Error", get: t => t.Err, cls: "wrap", cell: t => t.Err ? h("span", {class: "bad"}, t.Err) : t.Open ? h("span", {class: "soft"}, "under way" + left(t)) : ""}].slice(0, errors ? 3 : 2);
  for (const [id, title] of [["funcs", "By function"], ["each", "By call"]]) if (!$(id).querySelector("h3")) $(id).replaceChildren(h("h3", null, title), h("div"));
  table($("funcs").lastChild, "Functions", cols(num("Calls", t => t.Calls)), run.Funcs, [-1]);
  table($("each").lastChild, "Calls", cols({name: "Pool", get: t => t.Pool || "", cell: t => t.Pool || h("span", {class: "soft"}, t.Calls ? many(t.Calls, "older call") + ", merged" : "missed")}).concat(more), each, [12, true], 8);
}

// Workers.
const points = (p, from) => (p[from] || []).map((v, i) => ({v, t: (i + .5) * 10 * run.Width})).filter(x => x.v);
function spark(list, top, level, label) {
  if (list.length < 2) return null;
  const t0 = list[0].t, span = list.at(-1).t - t0 || 1, x = q => 1 + (q.t - t0) / span * 88, y = q => 21 - 19 * Math.min(q.v / top, 1);
  return h("svg:svg", {class: "spark", width: 90, height: 22, role: "img", "aria-label": label}, h("svg:title", null, label),
    list.slice(1).map((q, i) => h("svg:line", {x1: x(list[i]), y1: y(list[i]), x2: x(q), y2: y(q), style: `stroke:var(--${level(q.v)});stroke-width:1.5;stroke-linecap:round`})));
}
function memory(p) {
  if (!p.Peak || p.Merged) return "";
  const level = kib => { const f = p.Limit ? kib * 1024 / p.Limit : 0; return f >= .8 ? "m80" : f >= .7 ? "m70" : f >= .6 ? "m60" : "accent"; };
  return h("span", null, spark(points(p, "Memory"), (p.Limit || p.Peak * 1.15) / 1024, level, "memory over time, at most " + bytes(p.Peak)),
    bytes(p.Peak), p.Limit ? h("span", {class: "soft"}, " of " + bytes(p.Limit)) : null);
}
const cores = p => p.CPU * 1000 / Math.max((p.Ended || run.Last) - p.Began, 1);
function processor(p) {
  if (!p.CPU || p.Merged) return "";
  const u = points(p, "Used"), list = u.slice(1, -1).map((q, i) => ({t: q.t, v: Math.max(q.v - u[i].v, 0) * 1000 / (q.t - u[i].t)})); // the last bin may be cut short
  return h("span", null, spark(list, Math.max(1, ...list.map(q => q.v)), () => "ok", "processors over time"), cores(p).toFixed(2));
}
function processes() {
  const all = run.Processes.filter(p => p.Name), bad = all.filter(p => p.Reason || p.Words);
  if (bad.length) fill($("lost"), h("h3", null, "Lost, or not started"), ...bad.slice(0, 200).map(p => h("div", {class: "loss"},
    h("p", null, h("strong", null, p.Name), h("span", {class: "soft"}, "  " + clock(p.Ended, 1e6) + (p.Host ? "  on " + p.Host : "")), "  ", p.Reason),
    p.Ran || p.Fate ? h("p", {class: "soft"}, [p.Ran && "It ran " + p.Ran + ".", p.Fate].filter(Boolean).join(" ")) : null,
    p.Words ? h("pre", {"aria-label": "last words of " + p.Name}, p.Words) : null)), h("h3", null, "All"));
  if (!all.length) return fill($("processes"), h("p", {class: "soft"}, "No process was started."));
  const num = (name, get, cell) => ({name, num: true, get, cell: cell && (p => cell(get(p)))});
  table($("processes"), "Workers and other processes", [
    {name: "Name", head: true, get: p => p.Name, cls: "name"},
    {name: "State", get: p => p.State, cell: p => h("span", {class: p.State === "lost" ? "bad" : p.Waits || p.State === "not started" ? "warn" : p.State === "ready" ? "ok" : "soft", title: p.Waits || null}, p.Merged ? "merged" : p.Waits ? "waits: " + p.Waits : p.State === "running" && run.Ended ? "" : p.State)},
    {name: "Runs", get: p => p.Pool || p.Func || p.Role}, num("Done", p => p.Done), num("Failed", p => p.Failed), num("Busy", p => p.Busy / Math.max((p.Ended || run.Last) - p.Began, 1), x => x ? Math.round(100 * x) + " %" : ""),
    {name: "Memory at most", get: p => p.Peak, cell: memory}, {name: "Processors", get: cores, cell: processor},
    num("Shared", p => p.Shared, n => n ? bytes(n) : ""), num("Sent to it", p => p.Sent, n => n ? bytes(n) : ""), num("Received", p => p.Received, n => n ? bytes(n) : ""),
    {name: "Where", get: p => [p.Host, p.ID, p.GPUs ? many(p.GPUs, "GPU") : ""].filter(Boolean).join(" ")}], all, [-1], 60);
}

// Objects and events.
function objects() {
  const all = Object.entries(run.Objects || {}).flatMap(([process, o]) => o.List.map(x => ({process, ...x}))), more = Object.values(run.Objects || {}).reduce((n, o) => n + o.More, 0);
  if (!all.length) return fill($("shared"), h("p", {class: "soft"}, "No shared objects were seen."));
  const num = (name, get, cell) => ({name, num: true, get, cell: cell && (o => cell(get(o)))});
  if (!$("shared").querySelector("div")) $("shared").replaceChildren(h("div"), h("p", {class: "soft small"}));
  table($("shared").firstChild, "Shared objects, as they were last seen", [{name: "Kind", head: true, get: o => o.Kind}, {name: "Process", get: o => o.process}, num("Number", o => o.ID), num("Users", o => o.Users),
    num("Length", o => o.Length, n => n < 0 ? "" : number(n)), num("Waiting", o => o.Waiting), num("Served", o => o.Served), num("Size", o => o.Bytes, n => n ? bytes(n) : ""), {name: "Holder", get: o => o.Holder}], all, [-1]);
  fill($("shared").lastChild, more ? "and " + many(more, "more object") : null);
}
function events() {
  const all = run.Entries, text = $("text").value.toLowerCase(), level = $("level").value, known = [...$("level").options].map(o => o.value);
  const found = all.filter(e => (!level || e.Level === level) && (!text || (e.Text + " " + e.Process).toLowerCase().includes(text)));
  for (const l of [...new Set(all.map(e => e.Level))].sort()) if (!known.includes(l)) $("level").append(h("option", null, l));
  $("found").textContent = count(found.length) + " of " + count(all.length);
  if (!found.length) return fill($("entries"), h("p", {class: "soft"}, all.length ? "Nothing fits." : "There were none."));
  table($("entries"), "Events", [{name: "Time", num: true, get: e => e.At, cell: e => clock(e.At, 1e5)},
    {name: "Level", get: e => e.Level, cell: e => h("span", {class: /LOST|ERR|FAIL/.test(e.Level) ? "bad" : /WARN|WAIT/.test(e.Level) ? "warn" : "soft"}, e.Level)},
    {name: "Process", get: e => e.Process}, {name: "What", get: e => e.Text, cls: "wrap long"}], found, [-1], 200);
}
$("filter").addEventListener("submit", e => e.preventDefault());
$("filter").addEventListener("input", () => run && events());
new ResizeObserver(() => run && charts()).observe($("charts"));
