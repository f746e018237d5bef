// The task stream: a row for each worker or, of very many, a heat map of groups of them.
let boxes;
function unpack() {
  const n = run.Boxes.length / 5, b = {n, worker: new Int32Array(n), began: new Float64Array(n), took: new Float64Array(n), fn: new Int32Array(n), index: new Float64Array(n), extra: new Int32Array(n).fill(-1)};
  for (let i = 0, t = 0; i < n; i++) {
    t += run.Boxes[5 * i + 1];
    b.worker[i] = run.Boxes[5 * i], b.began[i] = t, b.took[i] = run.Boxes[5 * i + 2], b.fn[i] = run.Boxes[5 * i + 3], b.index[i] = run.Boxes[5 * i + 4];
  }
  for (let i = 0; i < (run.Extras).length; i += 7) b.extra[run.Extras[i]] = i;
  return b;
}
// extra returns what is said of a box only if it is not a single task that succeeded at once.
function extra(i) {
  const at = boxes.extra[i], x = run.Extras;
  return at < 0 ? {count: 1, failed: 0, again: 0, attempt: 1, running: boxes.took[i], text: ""} :
    {count: x[at + 1], failed: x[at + 2], again: x[at + 3], attempt: x[at + 4], running: x[at + 5], text: run.Texts[x[at + 6]]};
}
const bad = i => { const at = boxes.extra[i]; return at >= 0 && run.Extras[at + 2] + run.Extras[at + 3] > 0; };
const retry = i => boxes.extra[i] >= 0 && run.Extras[boxes.extra[i] + 4] > 1;
// heat returns the seconds that a process was busy in each bin, in the boxes that are merged.
function heat(p) {
  const digit = c => c >= 97 ? c - 71 : c >= 65 ? c - 65 : c >= 48 ? c + 4 : c === 43 ? 62 : 63;
  return Float32Array.from(p.Heat, c => digit(c.charCodeAt(0)) / 63 * p.Top);
}

// stream shows it, and returns what does that again when there is more.
function stream() {
  const view = $("view"), canvas = $("canvas"), tip = $("tip"), g = canvas.getContext("2d"), axis = 22;
  let end, shown, map, per, bins, cells, most, lines, tall, height, unit; // what load sets
  let from = 0, to = 0, width = 0, gutter = 0, at = null, hover = null, queued = false, pointer = null, drag = null;
  const share = (c, b) => c.busy[b] / c.workers / (run.Width / 1e6) / most;
  const x = t => gutter + (t - from) / (to - from) * (width - gutter), time = px => from + (px - gutter) / (width - gutter) * (to - from);

  // load takes what is known. What is looked at stays: the whole run, or a part of it, and a box.
  function load() {
    const whole = !lines || from <= 0 && to >= end, old = at && {process: (map ? cells[at.row].members[0] : lines[at.row]).number, from: map ? at.bin * unit : boxes.began[at.box], fn: map || boxes.fn[at.box], index: map || boxes.index[at.box]};
    boxes = unpack(), end = Math.max(run.Last, 1), unit = run.Width;
    if (whole) from = 0, to = end;
    arrange();
    at = old && again(old);
    view.hidden = $("keys").hidden = !lines.length;
    hover = pointer && lines.length ? under(pointer) : null;
    explain();
    redraw();
  }
  // again returns where the box or the cell is that was selected before, null if it is gone.
  function again(old) {
    const row = lines.findIndex(l => map ? l.members.some(r => r.number === old.process) : l.number === old.process);
    if (row < 0) return null;
    if (map) return {row, bin: Math.min(Math.floor(old.from / run.Width), bins - 1)};
    const box = lines[row].all.find(b => boxes.began[b] === old.from && boxes.fn[b] === old.fn && boxes.index[b] === old.index);
    return box == null ? null : {row, box};
  }
  function arrange() {
    // Rows: lanes hold boxes that do not overlap, in their order.
    const rows = run.Processes.map((p, number) => ({p, number, name: p.Name || "not sent", all: [], lanes: [], heat: p.Heat ? heat(p) : []}));
    for (const i of Array.from({length: boxes.n}, (_, i) => i).sort((a, b) => boxes.began[a] - boxes.began[b])) {
      const r = rows[boxes.worker[i]];
      let l = r.lanes.findIndex(l => boxes.began[l.at(-1)] + boxes.took[l.at(-1)] <= boxes.began[i]);
      if (l < 0) l = r.lanes.push([]) - 1;
      r.lanes[l].push(i), r.all.push(i);
    }
    shown = rows.filter(r => r.all.length || r.heat.length || r.p.Role === "worker" || r.p.Merged), map = shown.length > 200;

    // The heat map: how busy each group of workers was in each bin, and whether something failed.
    per = Math.ceil(shown.length / 100), bins = run.Done.length, cells = [];
    if (map) for (let i = 0; i < shown.length; i += per) {
      const members = shown.slice(i, i + per), c = {members, workers: members.reduce((n, r) => n + (r.p.Merged ? Math.max(r.p.Ready, 1) : 1), 0), busy: new Float32Array(bins), failed: new Uint16Array(bins), name: members.length > 1 ? members[0].name + " to " + members.at(-1).name : members[0].name};
      for (const r of members) {
        r.heat.forEach((s, b) => c.busy[b] += s);
        for (const b of r.all) {
          const stop = boxes.began[b] + boxes.took[b], running = extra(b).running / Math.max(boxes.took[b], 1) / 1e6;
          for (let t = boxes.began[b]; t < stop;) {
            const bin = Math.min(Math.floor(t / run.Width), bins - 1), next = Math.min((bin + 1) * run.Width, stop);
            c.busy[bin] += (next - t) * running;
            t = next > t ? next : stop;
          }
          if (bad(b)) c.failed[Math.min(Math.floor(stop / run.Width), bins - 1)]++;
        }
      }
      cells.push(c);
    }
    most = Math.max(1, ...cells.map(c => Math.max(...c.busy) / c.workers / (run.Width / 1e6))); // with several tasks at a time
    lines = map ? cells : shown, tall = map ? Math.max(Math.floor(420 / lines.length), 3) : lines.length <= 12 ? 28 : lines.length <= 40 ? 18 : lines.length <= 80 ? 12 : 6;
    height = axis + lines.length * tall;
  }

  function draw() {
    queued = false;
    width = view.clientWidth;
    gutter = tall >= 12 ? (width < 600 ? 72 : 132) : map ? 0 : 10;
    const dpr = devicePixelRatio || 1, fail = css("fail"), panel = css("panel"), fg = css("fg");
    canvas.width = width * dpr, canvas.height = height * dpr, canvas.style.height = height + "px";
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.fillStyle = panel, g.fillRect(0, 0, width, height);
    g.font = "11px " + getComputedStyle(document.body).fontFamily, g.textBaseline = "middle";
    g.save(), g.beginPath(), g.rect(gutter, 0, width - gutter, height), g.clip();
    lines.forEach((l, i) => map ? drawCells(l, i, fail, css("accent")) : drawRow(l, i, fail, fg));
    g.restore();
    g.strokeStyle = css("line"), g.fillStyle = css("soft"), g.lineWidth = 1;
    const every = niceTime(to - from, (width - gutter) / 90);
    for (const t of ticks(from, to, every)) {
      const px = Math.round(x(t)) + .5;
      g.globalAlpha = .6, g.beginPath(), g.moveTo(px, axis - 5), g.lineTo(px, height), g.stroke(), g.globalAlpha = 1;
      const label = clock(t, every), w = g.measureText(label).width;
      g.fillText(label, Math.min(Math.max(px - w / 2, gutter + 2), width - w - 2), axis / 2 - 1);
    }
    if (gutter > 20) lines.forEach((r, i) => {
      let name = r.name;
      while (g.measureText(name).width > gutter - 14 && name.length > 3) name = "…" + name.slice(name[0] === "…" ? 2 : 1);
      g.fillStyle = css(r.p.State === "lost" ? "bad" : "soft"), g.fillText(name, 8, axis + (i + .5) * tall);
    });
    if (at) {
      const [a, b, c, d] = area(at);
      g.strokeStyle = panel, g.lineWidth = 4, g.strokeRect(a - 1, b - 1, c + 2, d + 2);
      g.strokeStyle = css("accent"), g.lineWidth = 2, g.strokeRect(a - 1, b - 1, c + 2, d + 2);
    }
  }
  function drawRow(r, i, fail, fg) {
    const top = axis + i * tall, gap = tall > 8 ? 2 : 1, lane = (tall - gap) / Math.max(r.lanes.length, 1);
    const slots = Math.max(1, r.lanes.length, r.p.Top / (run.Width / 1e6));
    g.fillStyle = css("older");
    r.heat.forEach((s, b) => {
      const a = x(b * run.Width), z = x((b + 1) * run.Width);
      if (s && z > gutter && a < width) g.globalAlpha = Math.min(s / slots / (run.Width / 1e6), 1) * .75 + .05, g.fillRect(a, top + 1, z - a, tall - gap);
    });
    g.globalAlpha = 1;
    r.lanes.forEach((l, k) => {
      const y = top + 1 + k * lane, h = Math.max(lane - (lane > 5 ? 1 : 0), 1);
      let drawn = -1;
      for (let n = Math.max(after(l, from) - 1, 0); n < l.length && boxes.began[l[n]] <= to; n++) {
        const b = l[n], a = x(boxes.began[b]), z = x(boxes.began[b] + boxes.took[b]), w = Math.max(z - a - (z - a > 3 ? 1 : 0), 1);
        if (z <= drawn && !bad(b)) continue; // no pixel of its own
        drawn = Math.ceil(a + w * .5);
        g.fillStyle = bad(b) ? fail : color(boxes.fn[b]), g.fillRect(a, y, w, h);
        if (retry(b) && h > 3) g.fillStyle = bad(b) ? css("panel") : fg, g.fillRect(a + (bad(b) ? 1 : 0), y + h - 4, Math.max(w - (bad(b) ? 2 : 0), 1), 2);
      }
    });
  }
  function drawCells(c, i, fail, accent) {
    for (let b = Math.max(Math.floor(from / run.Width), 0); b < bins && b * run.Width < to; b++) {
      const a = x(b * run.Width), w = Math.ceil(x((b + 1) * run.Width) - a);
      if (c.busy[b]) g.fillStyle = accent, g.globalAlpha = .08 + .92 * Math.min(share(c, b), 1), g.fillRect(a, axis + i * tall, w, tall);
      g.globalAlpha = 1;
      if (c.failed[b]) g.fillStyle = fail, g.fillRect(a, axis + i * tall + 1, Math.max(Math.min(w, 3), 2), Math.max(tall - 2, 1));
    }
  }
  // after is how many of a list's boxes began at a time or before it.
  function after(list, t) {
    let a = 0, z = list.length;
    while (a < z) { const m = (a + z) >> 1; boxes.began[list[m]] <= t ? a = m + 1 : z = m; }
    return a;
  }
  // area returns where a box or a cell is: {row, box} or {row, bin}.
  function area(s) {
    if (map) return [x(s.bin * run.Width), axis + s.row * tall, Math.max(x((s.bin + 1) * run.Width) - x(s.bin * run.Width), 2), tall];
    const r = lines[s.row], lane = (tall - (tall > 8 ? 2 : 1)) / Math.max(r.lanes.length, 1), a = x(boxes.began[s.box]);
    return [a, axis + s.row * tall + 1 + r.lanes.findIndex(l => l.includes(s.box)) * lane, Math.max(x(boxes.began[s.box] + boxes.took[s.box]) - a, 1), lane];
  }
  function hit(px, py) {
    const row = Math.floor((py - axis) / tall), t = time(px);
    if (row < 0 || row >= lines.length || px < gutter) return null;
    if (map) return {row, bin: Math.min(Math.max(Math.floor(t / run.Width), 0), bins - 1)};
    const r = lines[row], near = 3 / (width - gutter) * (to - from), lane = Math.floor((py - axis - row * tall) / tall * r.lanes.length);
    for (const l of [r.lanes[lane], ...r.lanes].filter(Boolean)) {
      const n = after(l, t + near) - 1;
      if (n >= 0 && boxes.began[l[n]] + boxes.took[l[n]] + near >= t) return {row, box: l[n]};
    }
    return null;
  }
  function under(p) { const r = canvas.getBoundingClientRect(); return hit(p.x - r.left, p.y - r.top); }
  function say(s) {
    if (map) {
      const c = cells[s.row], b = s.bin;
      return `${c.name}\n${clock(b * run.Width, run.Width)} to ${clock((b + 1) * run.Width, run.Width)}: ${Math.round(100 * Math.min(share(c, b), 1))} % busy` + (c.failed[b] ? `, ${many(c.failed[b], "failure")}` : "");
    }
    const b = s.box, e = extra(b), end = e.count > 1 ? "–" + (boxes.index[b] + e.count - 1) : "";
    return [`${run.Names[boxes.fn[b]]} #${boxes.index[b]}${end}  ·  ${dur(boxes.took[b])}`,
      `${lines[s.row].name}, began at ${clock(boxes.began[b], 1e4)}`,
      e.count > 1 ? `${many(e.count, "task")}, ${dur(e.running / e.count)} each on average` : "",
      e.attempt > 1 ? "attempt " + e.attempt : "",
      e.failed ? (e.count > 1 ? count(e.failed) + " " : "") + "failed" : "", e.again ? (e.count > 1 ? count(e.again) + " " : "") + "failed and run again" : "", e.text].filter(Boolean).join("\n");
  }
  function show(s) {
    tip.hidden = !s;
    if (!s) return;
    const text = say(s), [a, b, w, h] = area(s);
    if (tip.textContent !== text) tip.textContent = text;
    const middle = Math.min(Math.max(a + w / 2, gutter), width), tw = tip.offsetWidth, th = tip.offsetHeight;
    tip.style.left = Math.min(Math.max(middle - tw / 2, 4), width - tw - 4) + "px";
    tip.style.top = (view.getBoundingClientRect().top + b - th - 8 > 45 ? b - th - 6 : b + h + 8) + "px";
  }
  const redraw = () => { if (!queued) queued = true, requestAnimationFrame(() => { draw(); show(hover || (document.activeElement === view ? at : null)); }); };
  function look(a, z) {
    const span = Math.min(Math.max(z - a, Math.min(20, end)), end);
    from = Math.min(Math.max((a + z - span) / 2, 0), end - span), to = from + span;
    redraw();
  }
  const zoom = (f, t) => look(t - (t - from) * f, t + (to - t) * f);
  const middle = () => { const t = at && (map ? (at.bin + .5) * run.Width : boxes.began[at.box] + boxes.took[at.box] / 2); return t != null && t >= from && t <= to ? t : (from + to) / 2; };
  function select(s) {
    at = s, hover = null;
    const a = map ? s.bin * run.Width : boxes.began[s.box], z = map ? a + run.Width : a + boxes.took[s.box], span = to - from;
    if (a < from || z > to) look((a + z) / 2 - span / 2, (a + z) / 2 + span / 2);
    redraw();
  }
  function beside(row, step) { // the row's box that is nearest in time
    const t = at ? middle() : from;
    for (; lines[row]; row += step) {
      if (map) return {row, bin: Math.min(Math.floor(t / run.Width), bins - 1)};
      const all = lines[row].all, n = after(all, t);
      if (all.length) return {row, box: n && (n === all.length || t <= boxes.began[all[n - 1]] + boxes.took[all[n - 1]] || t - boxes.began[all[n - 1]] < boxes.began[all[n]] - t) ? all[n - 1] : all[n]};
    }
    return at;
  }
  function along(step) {
    if (!at) return beside(0, 1);
    if (map) return {row: at.row, bin: Math.min(Math.max(at.bin + step, 0), bins - 1)};
    const all = lines[at.row].all;
    return {row: at.row, box: all[Math.min(Math.max(all.indexOf(at.box) + step, 0), all.length - 1)]};
  }
  const keys = {
    ArrowRight: e => e.shiftKey ? look(from + (to - from) / 5, to + (to - from) / 5) : select(along(1)),
    ArrowLeft: e => e.shiftKey ? look(from - (to - from) / 5, to - (to - from) / 5) : select(along(-1)),
    ArrowDown: () => select(beside(at ? at.row + 1 : 0, 1)), ArrowUp: () => select(beside(at ? at.row - 1 : 0, -1) || beside(0, 1)),
    Home: () => select(along(-Infinity)), End: () => select(along(Infinity)),
    "+": () => zoom(1 / 1.6, middle()), "=": () => zoom(1 / 1.6, middle()), "-": () => zoom(1.6, middle()), 0: () => look(0, end), Escape: () => { at = null; redraw(); },
  };
  view.addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    e.preventDefault();
    keys[e.key](e);
  });
  view.addEventListener("focus", () => { if (!at && view.matches(":focus-visible")) at = beside(0, 1); redraw(); });
  view.addEventListener("blur", redraw);
  view.addEventListener("wheel", e => {
    const across = e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY), d = e.deltaX || e.deltaY;
    if (!across && e.deltaY > 0 && to - from >= end) return; // the page scrolls
    e.preventDefault();
    across ? look(from + d / width * (to - from), to + d / width * (to - from)) : zoom(Math.exp(Math.max(Math.min(e.deltaY, 200), -200) / 400), time(e.offsetX));
  }, {passive: false});
  view.addEventListener("pointerdown", e => { drag = {x: e.clientX, from, to, moved: false}; if (e.pointerType === "mouse") view.setPointerCapture(e.pointerId); });
  view.addEventListener("pointermove", e => {
    if (drag && e.buttons) {
      const d = (drag.x - e.clientX) / (width - gutter) * (drag.to - drag.from);
      drag.moved ||= Math.abs(drag.x - e.clientX) > 3;
      if (drag.moved) return look(drag.from + d, drag.to + d);
    }
    hover = under(pointer = {x: e.clientX, y: e.clientY});
    show(hover || (document.activeElement === view ? at : null));
  });
  view.addEventListener("pointerup", e => {
    const s = under({x: e.clientX, y: e.clientY});
    if (drag && !drag.moved && s) select(s);
    drag = null;
  });
  view.addEventListener("pointerleave", () => { hover = pointer = null; redraw(); });
  $("in").addEventListener("click", () => zoom(1 / 1.6, middle()));
  $("out").addEventListener("click", () => zoom(1.6, middle()));
  $("whole").addEventListener("click", () => look(0, end));

  function explain() {
    const key = (style, text) => h("span", null, h("i", {style}), text), m = run.Merged, used = new Set(boxes.fn), line = "border:1px solid var(--line);";
    fill($("legend"), ...(map ? [key("background:var(--accent)", "busy, " + (per > 1 ? per + " workers a row" : "a worker a row")), key("background:var(--fail)", "failures")] : [
      ...run.Names.map((n, i) => [n, i]).filter(([, i]) => used.has(i)).slice(0, 20).map(([n, i]) => key("background:" + color(i), n)),
      key("background:var(--fail)", "failed"), key(line + "border-bottom:3px solid var(--fg)", "later attempt"), key(line, "idle"), m.Boxes ? key("background:var(--older)", "older, merged") : null].filter(Boolean)));
    $("merged").textContent = !lines.length ? "No task has ended." : `The stream has ${many(boxes.n, "box")}`.replace("boxs", "boxes") + "; a box is one task, or some that took less than a millisecond each. " +
      (m.Boxes ? `Older ones, ${count(m.Boxes)} with ${many(m.Tasks, "task")} until ${clock(m.Until, 1e6)}, are merged: the stronger the colour, the busier the worker.` : "None was merged.") +
      (map ? ` Of more than 200 workers, ${count(shown.length)} here, groups are shown: the stronger the colour, the busier.` : "") +
      run.Processes.filter(p => p.Merged).map(p => ` ${many(p.Ready, "more worker")} share${p.Ready === 1 ? "s" : ""} one row.`).join("");
  }
  new ResizeObserver(() => lines && redraw()).observe(view);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return load;
}

// show shows a recording.
const sections = [overview, calls, stream(), processes, objects, events];
function show(recording) {
  run = recording;
  for (const k of ["Funcs", "Calls", "Processes", "Names", "Boxes", "Extras", "Entries"]) run[k] ||= [];
  sections.forEach(f => f());
}
if (!live) show(JSON.parse(data.textContent));
