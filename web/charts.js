"use strict";
/* Draws the charts of a page with uPlot (in the folder uplot) from the data beside them: values under the
   mouse, series on and off by the legend, a part enlarged. The data say what is drawn and how far axes
   reach (internal/explain/view/chart.go); all that depends on the screen is decided here. */
(() => {
  /* Formats of values: the same as of view.Format. */
  const significant = (v, n) => {
    if (!v || !isFinite(v)) return String(v);
    const decimals = x => n - 1 - Math.floor(Math.log10(Math.abs(x)));
    const scale = 10 ** decimals(v), rounded = Math.round(v * scale) / scale || v;
    return rounded.toFixed(Math.min(100, Math.max(0, decimals(rounded))));
  };
  const short = text => text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");
  const number = v => Math.abs(v) >= 1e3 ? Math.round(v).toLocaleString("en") : short(significant(v, 3));
  const inUnits = (v, units) => {
    const [size, name] = units.find(([size]) => v >= size) || units[units.length - 1];
    return short(significant(v / size, 3)) + name;
  };
  const formats = {
    count: v => inUnits(v, [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"], [1, ""]]),
    nanos: v => inUnits(v, [[1e9, " s"], [1e6, " ms"], [1e3, " us"], [1, " ns"]]),
    bytes: v => {
      let size = Math.trunc(v), k = 0;
      for (; size >= 1023.5; k++) size /= 1024;
      return short(k ? significant(size, 3) : String(size)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][k];
    },
    percent: v => number(v) + "%",
    percentile: v => short((100 * (1 - 10 ** -v)).toFixed(Math.max(0, Math.ceil(v)))),
  };
  const print = (axis, v) => v === 0 ? "0" : (formats[axis.format] || number)(v);

  /* What a value is, with all that the axis knows of it. */
  const shareOf = (axis, v) => short(significant(100 * v / axis.whole, 2)) + "%";
  const sayX = (axis, v) => {
    if (axis.kind === "groups") return [axis.label, axis.names[Math.round(v)]].filter(w => w).join(" ");
    return axis.label + " " + print(axis, v) + (axis.whole ? " (" + shareOf(axis, v) + " of the database)" : "");
  };
  const sayY = (axis, v) => print(axis, v) + (axis.unit === "%" ? "%" : axis.unit ? " " + axis.unit : "");
  const titleOf = axis => axis.label + (axis.unit ? ", " + axis.unit : "");

  const logarithmic = axis => ["log", "sizes", "places"].includes(axis.kind);

  /* Places for ticks, the densest first. */
  const powers = (base, every, factors, low, high) => {
    const places = [];
    for (let k = every * Math.floor(Math.log(low) / Math.log(base) / every); k <= Math.log(high) / Math.log(base); k += every) {
      places.push(...factors.map(f => f * base ** k));
    }
    return places;
  };
  const rounds = (low, high, fewer) => {
    const raw = (high - low) / fewer, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find(m => m * power >= raw * 0.9999);
    const places = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-6; k++) places.push(+(k * step).toPrecision(12));
    return places;
  };
  const levels = (axis, low, high) => {
    const given = (axis.names?.map((_, i) => i) || axis.at || []).filter(v => v >= low && v <= high);
    if (given.length > 1 || axis.names) return [given];
    if (axis.kind === "sizes") {
      return [[1, [1, 1.5]], [1, [1]], [2, [1]], [5, [1]], [10, [1]]].map(([every, factors]) => powers(2, every, factors, low, high));
    }
    if (logarithmic(axis) && high > 3 * low) {
      return [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]].map(factors => powers(10, 1, factors, low, high));
    }
    return [8, 7, 6, 5, 4, 3, 2, 1].map(fewer => rounds(low, high, fewer));
  };
  const place = (axis, v, low, high) => logarithmic(axis) ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);

  const font = "12px system-ui, -apple-system, \"Segoe UI\", \"Liberation Sans\", Arial, Helvetica, sans-serif";
  const pen = document.createElement("canvas").getContext("2d");
  const widthOf = text => {
    pen.font = font;
    return Math.max(...text.split("\n").map(line => pen.measureText(line).width));
  };
  const margin = 12; /* beside a plot */
  /* The ticks that have room: of the densest places whose labels do not touch, or of the last as many as fit. */
  const ticks = (axis, low, high, room, label, sizeOf) => {
    let kept = [];
    for (const level of levels(axis, low, high)) {
      const all = level.filter(v => v >= low && v <= high * 1.0000001);
      let end = -margin;
      kept = all.filter(v => {
        const at = room * place(axis, v, low, high), half = sizeOf(label(v)) / 2;
        if (at - half < end || at + half > room + margin) return false;
        end = at + half + 8;
        return true;
      });
      if (kept.length === all.length) break;
    }
    return kept;
  };

  /* Colours: of paper, or of a dark page. */
  const screenIsDark = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const dark = () => screenIsDark.matches && !printing;
  const tint = pair => pair[dark() ? 1 : 0];
  const colors = { ink: ["#222222", "#ececea"], muted: ["#5f5f5f", "#a5a5a2"], grid: ["#e4e4e4", "#33363a"], paper: ["#ffffff", "#16181b"], limit: ["#b00020", "#ff6b7a"] };

  /* Shapes of points, on a canvas of any resolution. */
  const outlines = {
    ring: p => p.arc(0, 0, 1, 0, 2 * Math.PI),
    circle: p => p.arc(0, 0, 1, 0, 2 * Math.PI),
    square: p => p.rect(-0.9, -0.9, 1.8, 1.8),
    box: p => p.rect(-0.9, -0.9, 1.8, 1.8),
    triangle: p => { p.moveTo(-1, 0.8); p.lineTo(0, -1); p.lineTo(1, 0.8); p.closePath(); },
    pyramid: p => { p.moveTo(-1, 0.8); p.lineTo(0, -1); p.lineTo(1, 0.8); p.closePath(); },
    cross: p => { p.moveTo(-0.9, -0.9); p.lineTo(0.9, 0.9); p.moveTo(-0.9, 0.9); p.lineTo(0.9, -0.9); },
    plus: p => { p.moveTo(-1, 0); p.lineTo(1, 0); p.moveTo(0, -1); p.lineTo(0, 1); },
  };
  const dot = (ctx, shape, x, y, radius, color) => {
    const one = new Path2D(), moved = new Path2D();
    outlines[shape](one);
    moved.addPath(one, new DOMMatrix([radius, 0, 0, radius, x, y]));
    ctx.fillStyle = ["ring", "square", "triangle"].includes(shape) ? tint(colors.paper) : color;
    ctx.strokeStyle = color;
    ctx.lineWidth = radius / 2.5;
    ctx.setLineDash([]);
    if (shape !== "cross" && shape !== "plus") ctx.fill(moved);
    ctx.stroke(moved);
  };
  const stacks = s => s.form === "area" || s.form === "stack";
  const filled = s => stacks(s) || s.form === "bar";
  const few = 60; /* points of a line that are drawn as dots */

  /* The look of a series in the legend. */
  const sample = (canvas, s) => {
    const ctx = canvas.getContext("2d"), ratio = canvas.width / 26;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, 26, 14);
    const color = tint(s.color);
    if (filled(s)) {
      ctx.fillStyle = color;
      if (s.points.x.length) ctx.fillRect(6, 1, 14, 12); else dot(ctx, "cross", 13, 7, 4, color);
      return;
    }
    if (s.band) {
      ctx.fillStyle = color + "40";
      ctx.fillRect(0, 2, 26, 10);
    }
    if (s.form === "line") {
      ctx.strokeStyle = color;
      ctx.lineWidth = s.width;
      ctx.setLineDash(s.dash || []);
      ctx.beginPath();
      ctx.moveTo(0, 7);
      ctx.lineTo(26, 7);
      ctx.stroke();
    }
    if (s.shape) dot(ctx, s.shape, 13, 7, 3.5, color);
  };

  /* The columns of all series of a panel, over the places of any of them. A place that a series has twice is moved by
     what nobody sees. */
  const joined = panel => {
    const tables = panel.series.map(s => {
      const order = s.points.x.map((_, i) => i).sort((a, b) => s.points.x[a] - s.points.x[b]);
      const xs = [];
      order.forEach((at, i) => {
        const x = s.points.x[at];
        xs.push(i > 0 && x <= xs[i - 1] ? xs[i - 1] + Math.abs(xs[i - 1] || 1) * 1e-9 : x);
      });
      return [xs, order.map(i => s.points.y[i])];
    });
    return uPlot.join(tables);
  };
  /* Stacked series end on the sum of those below that are shown. */
  const stacked = (panel, raw) => raw.map((column, n) => {
    const s = panel.series[n - 1];
    if (n === 0 || !stacks(s)) return column;
    return column.map((v, i) => {
      if (v == null) return v;
      panel.series.forEach((below, m) => {
        if (m >= n && stacks(below) && !below.off) v += raw[m + 1][i] || 0;
      });
      return v;
    });
  });

  const boxesMeet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

  /* Names of vertical lines: right of their lines, above the rows of the lines that they lie over. */
  const rowsOf = (chart, low, high, left, width) => {
    const seen = (chart.marks || []).filter(m => m.x >= low && m.x <= high).sort((a, b) => a.x - b.x);
    for (let i = seen.length - 1; i >= 0; i--) {
      const m = seen[i], wide = widthOf(m.name);
      m.at = left + width * place(chart.x, m.x, low, high);
      m.text = Math.max(0, Math.min(m.at + 3, left + width + 10 - wide));
      m.row = 0;
      seen.slice(i + 1).forEach(o => {
        if (Math.min(o.at, o.text) < m.text + wide + 6) m.row = Math.max(m.row, o.row + 1);
      });
    }
    return seen;
  };
  const rowHeight = 16;

  const draw = (block, chart) => {
    const root = document.createElement("div");
    root.className = "chart" + (chart.beside ? " beside" : "");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", chart.about);
    block.after(root);
    const plots = [], samples = [];
    const reset = document.createElement("button");

    const seriesOf = (panel, s) => {
      const color = () => tint(s.color);
      const base = { label: s.name || "", stroke: color, width: s.width || 0, spanGaps: true, scale: "y", points: { show: false } };
      if (s.form === "line") return { ...base, dash: s.dash };
      if (s.form === "area") return { ...base, fill: color, stroke: () => tint(colors.paper), width: 0.6 };
      if (filled(s)) {
        return { ...base, fill: color, paths: uPlot.paths.bars({ disp: { x0: { unit: 1, values: u => u.data[0].map(x => x - s.breath / 2) },
          size: { unit: 1, values: () => [s.breath] } } }) };
      }
      return { ...base, paths: () => null };
    };

    /* What uPlot has no form for: bands below the lines; ranges, dots, limits, failures, marks and labels above them. */
    const inPlot = (u, act) => {
      const ctx = u.ctx;
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left - 6 * devicePixelRatio, u.bbox.top - 6 * devicePixelRatio, u.bbox.width + 12 * devicePixelRatio, u.bbox.height + 12 * devicePixelRatio);
      ctx.clip();
      act(ctx, v => u.valToPos(v, "x", true), v => u.valToPos(v, "y", true), devicePixelRatio);
      ctx.restore();
    };
    const line = (ctx, color, width, dash, ...points) => {
      ctx.strokeStyle = color;
      ctx.lineWidth = width;
      ctx.setLineDash(dash);
      ctx.beginPath();
      points.forEach(([x, y], i) => i ? ctx.lineTo(x, y) : ctx.moveTo(x, y));
      ctx.stroke();
    };
    const bands = (u, panel) => inPlot(u, (ctx, x, y) => panel.series.forEach(s => {
      if (!s.band || s.off || !s.points.low) return;
      const at = s.points.x.map((v, i) => i).filter(i => s.points.low[i] != null);
      ctx.fillStyle = tint(s.color) + "40";
      ctx.beginPath();
      at.forEach(i => ctx.lineTo(x(s.points.x[i]), y(s.points.high[i])));
      at.reverse().forEach(i => ctx.lineTo(x(s.points.x[i]), y(s.points.low[i])));
      ctx.fill();
    }));
    const above = (u, panel) => inPlot(u, (ctx, x, y, ratio) => panel.series.forEach(s => {
      if (s.off) return;
      const edged = (color, width, dash, ...points) => { /* seen on a bar of its colour */
        line(ctx, tint(colors.paper), (width + 1.6) * ratio, [], ...points);
        line(ctx, color, width * ratio, dash.map(d => d * ratio), ...points);
      };
      if (s.points.low && !s.band) s.points.low.forEach((low, i) => {
        if (low == null) return;
        const at = x(s.points.x[i]), top = y(s.points.high[i]), foot = y(low), cap = s.form === "bar" ? 0 : 3 * ratio;
        edged(tint(s.form === "bar" ? colors.muted : s.color), 1.2, [], [at, foot], [at, top]);
        if (cap) [top, foot].forEach(end => line(ctx, tint(s.color), 1.2 * ratio, [], [at - cap, end], [at + cap, end]));
      });
      if (s.shape && s.points.x.length <= few) s.points.x.forEach((v, i) => dot(ctx, s.shape, x(v), y(s.points.y[i]), 3.5 * ratio, tint(s.color)));
      const half = s.breath ? (x(s.breath) - x(0)) / 2 : 0;
      s.limits?.x.forEach((v, i) => edged(tint(colors.limit), 1.6, [3, 1.5], [x(v) - half, y(s.limits.y[i])], [x(v) + half, y(s.limits.y[i])]));
      s.failed?.forEach(v => dot(ctx, "cross", x(v), y(0) - 6 * ratio, 4 * ratio, tint(s.color)));
    }));
    const marks = (u, first) => {
      const { left, top, width, height } = u.bbox, ratio = devicePixelRatio, ctx = u.ctx;
      ctx.save();
      ctx.font = font.replace("12px", 12 * ratio + "px");
      [ctx.textAlign, ctx.textBaseline] = ["left", "bottom"];
      u.written = [];
      rowsOf(chart, u.scales.x.min, u.scales.x.max, left / ratio, width / ratio).forEach(m => {
        const at = m.at * ratio, ceiling = first ? top - m.row * rowHeight * ratio : top;
        line(ctx, tint(m.color), 1.3 * ratio, m.dashed ? [4 * ratio, 3 * ratio] : [], [at, top + height], [at, ceiling]);
        if (!first || !m.name) return;
        ctx.fillStyle = tint(m.color);
        ctx.fillText(m.name, m.text * ratio, ceiling - ratio);
        u.written.push([m.name, m.text, ceiling / ratio - rowHeight, m.text + widthOf(m.name), ceiling / ratio]);
      });
      ctx.restore();
    };
    /* Texts beside points, away from each other and from the points, the outermost first; the table has those without room. */
    const labels = (u, panel) => panel.series.filter(s => s.form === "text").forEach(s => {
      const ratio = devicePixelRatio, ctx = u.ctx, { left, top, width } = u.bbox;
      const points = s.points.x.map((v, i) => [u.valToPos(v, "x", true) / ratio, u.valToPos(s.points.y[i], "y", true) / ratio, s.points.text[i]])
        .filter(([x, y]) => x * ratio >= left - 1 && x * ratio <= left + width + 1 && y * ratio >= top - 1 && y * ratio <= top + u.bbox.height + 1);
      const taken = points.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]).concat(u.written.map(([, ...box]) => box));
      const order = [];
      for (let low = 0, high = points.length - 1; low <= high; low++, high--) order.push(low, ...(low < high ? [high] : []));
      ctx.save();
      ctx.font = font.replace("12px", 11.5 * ratio + "px");
      [ctx.textAlign, ctx.textBaseline] = ["left", "bottom"];
      for (const i of order) {
        const [x, y, text] = points[i], wide = widthOf(text), high = 13;
        const box = [[-wide / 2, -6 - high], [3, -5 - high], [-wide - 3, -5 - high], [5, -12 - high], [-wide / 2, 6], [3, 5]]
          .map(([dx, dy]) => [x + dx, y + dy, x + dx + wide, y + dy + high])
          .find(b => b[0] > left / ratio && b[2] < u.width && !taken.some(t => boxesMeet(t, b)));
        if (!box) continue;
        taken.push(box);
        ctx.fillStyle = tint(colors.paper) + "b8"; /* readable over lines */
        ctx.fillRect(box[0] * ratio, box[1] * ratio, wide * ratio, high * ratio);
        ctx.fillStyle = tint(colors.ink);
        ctx.fillText(text, box[0] * ratio, box[3] * ratio);
        u.written.push([text, ...box]);
      }
      ctx.restore();
    });

    const plotOf = (panel, n, place, width) => {
      const x = chart.x, first = n === 0, last = n === chart.panels.length - 1 || chart.beside;
      const room = u => u.bbox.width ? u.bbox.width / devicePixelRatio : u.width - 70;
      const cut = (u, text) => { /* names of groups are cut, or turned on a phone */
        if (x.kind !== "groups") return text;
        const most = turned(u) ? 110 : room(u) / x.names.length - 6;
        let short = text;
        for (let n = text.length; n > 6 && widthOf(short) > most; n--) short = text.slice(0, n - 1) + "…";
        return short;
      };
      const turned = u => x.kind === "groups" && u.width < 480 && x.names.some(name => widthOf(name) > room(u) / x.names.length - 6);
      const labelX = u => v => x.kind === "groups" ? cut(u, x.names[v]) : print(x, v) + (x.whole ? "\n" + shareOf(x, v) : "");
      const line = { stroke: () => tint(colors.grid), width: 1 };
      const axes = [{
        scale: "x", font, stroke: () => tint(colors.ink), grid: x.kind === "groups" ? { show: false } : line, gap: 4,
        ticks: { show: x.kind !== "groups", stroke: () => tint(colors.muted), size: 5 },
        border: { show: true, stroke: () => tint(colors.muted), width: 1 }, filter: (u, places) => places,
        label: last ? x.label + (x.unit ? ", " + x.unit : "") + (x.whole ? ", and as a share of the database" : "") : null, labelFont: font, labelSize: 20,
        labelGap: 2,
        splits: u => ticks(x, u.scales.x.min, u.scales.x.max, room(u), labelX(u), turned(u) || x.kind === "groups" ? () => 0 : widthOf),
        values: (u, places) => places.map(labelX(u)),
        rotate: u => turned(u) ? -90 : 0,
        size: (u, values) => turned(u) ? 14 + Math.max(0, ...(values || []).map(widthOf)) : x.whole ? 44 : 28,
      }, {
        scale: "y", font, stroke: () => tint(colors.ink), grid: line, ticks: { show: false }, gap: 6, filter: (u, places) => places,
        splits: u => ticks(panel, u.scales.y.min, u.scales.y.max, u.bbox.height / devicePixelRatio || 240, v => print(panel, v), () => 20),
        values: (u, places) => places.map(v => print(panel, v)),
        size: (u, values) => 10 + Math.max(20, ...(values || []).map(widthOf)),
      }];
      const scale = axis => ({ time: false, auto: false, distr: logarithmic(axis) ? 3 : 1,
        range: (u, min, max, key) => /* as far as the data, or as was asked for */
          key === "x" && min != null && (min !== u.data[0][0] || max !== u.data[0].at(-1)) ? [min, max] : [axis.min, axis.max] });
      const raw = joined(panel);
      const u = new uPlot({
        width, height: heightOf(width, n), legend: { show: false },
        padding: [u => {
          const rows = first ? rowsOf(chart, u.scales.x.min ?? x.min, u.scales.x.max ?? x.max, 45, u.width - 60).filter(m => m.name) : [];
          return 10 + rowHeight * (1 + Math.max(-1, ...rows.map(m => m.row)));
        }, margin, null, null],
        scales: { x: scale(x), y: scale(panel) },
        axes, series: [{}, ...panel.series.map(s => seriesOf(panel, s))],
        cursor: {
          drag: { x: true, y: true, uni: 24, dist: 6 }, y: false, points: { size: 9 }, hover: { prox: 30, skip: [null] }, /* within reach of a finger */
          bind: { dblclick: () => whole },
        },
        hooks: {
          drawAxes: [u => bands(u, panel)],
          draw: [u => { above(u, panel); marks(u, first); labels(u, panel); }],
          setCursor: [u => tell(u, panel)],
          setScale: [(u, key) => key === "x" && follow(u)],
        },
      }, stacked(panel, raw), place);
      u.raw = raw;
      return u;
    };
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("aria-live", "polite");
    tip.hidden = true;
    const tell = (u, panel) => {
      const { left, top, idxs } = u.cursor;
      const at = panel.series.map((s, i) => ({ s, i: idxs?.[i + 1] })).filter(({ s, i }) => i != null && !s.off && s.form !== "text");
      if (!(left >= 0) || !at.length) {
        tip.hidden = true;
        return;
      }
      const away = i => Math.abs(u.valToPos(u.data[0][i], "x") - left);
      const x = at.reduce((best, { i }) => away(i) < away(best) ? i : best, at[0].i);
      const rows = at.filter(({ i }) => Math.abs(u.valToPos(u.data[0][i], "x") - u.valToPos(u.data[0][x], "x")) < 1).map(({ s, i }) => {
        const row = document.createElement("div"), box = document.createElement("i");
        box.style.background = tint(s.color);
        row.append(box, (s.name ? s.name.trim() + ": " : "") + sayY(panel, u.raw[panel.series.indexOf(s) + 1][i]));
        return row;
      });
      tip.replaceChildren([sayX(chart.x, u.data[0][x]), panel.label].filter(w => w).join(", "), ...rows);
      tip.hidden = false;
      const frame = root.getBoundingClientRect(), plot = u.over.getBoundingClientRect();
      const beside = plot.left - frame.left + left + 14;
      tip.style.left = Math.max(0, beside + tip.offsetWidth > frame.width ? beside - tip.offsetWidth - 28 : beside) + "px";
      tip.style.top = Math.max(0, plot.top - frame.top + Math.min(top, plot.height - 30) - 10) + "px";
    };
    const whole = () => plots.forEach(u => u.batch(() => {
      u.setScale("x", { min: chart.x.min, max: chart.x.max });
      const panel = chart.panels[plots.indexOf(u)];
      u.setScale("y", { min: panel.min, max: panel.max });
    }));
    const follow = u => {
      const { min, max } = u.scales.x;
      plots.forEach(o => (o.scales.x.min !== min || o.scales.x.max !== max) && o.setScale("x", { min, max }));
      const near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.abs(b);
      reset.hidden = plots.every((o, n) => near(o.scales.x.min, chart.x.min) && near(o.scales.x.max, chart.x.max) &&
        near(o.scales.y.min, chart.panels[n].min) && near(o.scales.y.max, chart.panels[n].max));
    };

    /* One legend for all panels: a name switches its series off and on. */
    const legend = document.createElement("div");
    legend.className = "legend";
    const all = chart.panels.flatMap(p => p.series);
    [...new Set(all.map(s => s.name).filter(n => n))].forEach(name => {
      const entry = document.createElement("button"), own = all.filter(s => s.name === name), look = document.createElement("canvas");
      entry.type = "button";
      entry.setAttribute("aria-pressed", "true");
      look.width = 26 * 2;
      look.height = 14 * 2;
      samples.push(() => sample(look, own[0]));
      entry.append(look, name.trim());
      entry.addEventListener("click", () => {
        const off = !own[0].off;
        own.forEach(s => { s.off = off; });
        entry.setAttribute("aria-pressed", String(!off));
        plots.forEach((u, n) => {
          chart.panels[n].series.forEach((s, i) => own.includes(s) && u.setSeries(i + 1, { show: !off }));
          u.setData(stacked(chart.panels[n], u.raw), false);
          u.redraw();
        });
      });
      legend.append(entry);
    });

    const heightOf = (width, n) => {
      const rows = n === 0 && chart.marks?.some(m => m.name) ? 2 * rowHeight : 0;
      return rows + (chart.panels.length > 1 && !chart.beside ? 210 : width < 480 || printing ? 250 : 320);
    };
    const frames = chart.panels.map(panel => {
      const frame = document.createElement("div"), title = document.createElement("div"), place = document.createElement("div");
      title.className = "y";
      title.textContent = titleOf(panel) + (panel.kind === "log" ? " (log scale)" : "");
      place.className = "plot";
      place.tabIndex = 0;
      place.setAttribute("role", "img");
      place.setAttribute("aria-label", panel.label + ": arrow keys tell the values");
      frame.append(title, place);
      root.append(frame);
      return place;
    });
    frames.forEach((place, n) => place.addEventListener("keydown", e => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key], u = plots[n];
      if (e.key === "Escape") whole();
      if (!step) return;
      e.preventDefault();
      const xs = u.data[0];
      u.at = Math.max(0, Math.min(xs.length - 1, (u.at ?? (step > 0 ? -1 : xs.length)) + step));
      u.setCursor({ left: u.valToPos(xs[u.at], "x"), top: 20 });
    }));

    const tools = document.createElement("div");
    tools.className = "tools";
    const button = (text, act, made = document.createElement("button")) => {
      made.type = "button";
      made.textContent = text;
      made.addEventListener("click", act);
      tools.append(made);
    };
    button("show the whole chart", whole, reset);
    reset.hidden = true;
    button("save PNG", () => statelabSave(block, ".png", toPNG));
    /* What is seen, on a picture of its own: panels with their titles, and the legend. */
    const toPNG = done => {
      const ratio = devicePixelRatio, gap = 22 * ratio;
      const seen = [...new Map(all.filter(s => s.name && !s.off).map(s => [s.name, s])).values()];
      const canvas = document.createElement("canvas"), ctx = canvas.getContext("2d");
      canvas.width = Math.max(...plots.map(u => u.ctx.canvas.width));
      canvas.height = plots.reduce((sum, u) => sum + u.ctx.canvas.height + gap, 0) + gap * Math.ceil(seen.length / 3);
      ctx.fillStyle = tint(colors.paper);
      ctx.fillRect(0, 0, canvas.width, canvas.height);
      ctx.font = font.replace("12px", 12 * ratio + "px");
      let top = 0;
      const write = (text, x, y) => {
        ctx.fillStyle = tint(colors.ink);
        ctx.fillText(text, x, y);
      };
      plots.forEach((u, n) => {
        write(frames[n].previousSibling.textContent, 6 * ratio, top + 15 * ratio);
        ctx.drawImage(u.ctx.canvas, 0, top + gap);
        top += u.ctx.canvas.height + gap;
      });
      seen.forEach((s, i) => {
        const look = document.createElement("canvas");
        [look.width, look.height] = [26 * ratio, 14 * ratio];
        sample(look, s);
        const x = (i % 3) * canvas.width / 3 + 6 * ratio, y = top + Math.floor(i / 3) * gap;
        ctx.drawImage(look, x, y);
        write(s.name.trim(), x + 32 * ratio, y + 11 * ratio);
      });
      canvas.toBlob(done);
    };
    root.append(legend, tip, tools);
    root.addEventListener("mouseleave", () => { tip.hidden = true; });

    const paint = () => {
      samples.forEach(s => s());
      plots.forEach(u => u.redraw(true, true));
    };
    const fit = () => frames.forEach((place, n) => {
      const width = printing ? (chart.beside ? 340 : 690) : Math.floor(place.clientWidth);
      if (width < 60) return; /* inside what is folded */
      if (!plots[n]) plots[n] = plotOf(chart.panels[n], n, place, width);
      else if (plots[n].width !== width) plots[n].setSize({ width, height: heightOf(width, n) });
    });
    new ResizeObserver(() => printing || fit()).observe(root);
    const again = () => {
      fit();
      paint();
    };
    again();
    screenIsDark.addEventListener("change", paint);
    root.plots = plots; /* for those who look closer */
    return again;
  };

  const redraws = [...document.querySelectorAll("script.chart-data")].map(data => draw(data, JSON.parse(data.textContent)));
  for (const [when, is] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(when, () => {
      printing = is;
      redraws.forEach(again => again());
    });
  }
})();
