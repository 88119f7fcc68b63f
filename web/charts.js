"use strict";
/* Draws the charts of a page with uPlot (in the folder uplot) from the data beside them: values
   under the mouse, series on and off by the legend, a part enlarged. The data say what is drawn and
   how far axes reach (internal/explain/view/chart.go); all that depends on the screen is decided
   here. On paper, and without scripts, the page shows pictures of the same charts. */
(() => {
  /* Values as text: the formats are those of view.Format. */
  const digits = (v, most) =>
    v.toLocaleString("en", { maximumSignificantDigits: most, useGrouping: false });
  const number = v => Math.abs(v) >= 1e3 ? Math.round(v).toLocaleString("en") : digits(v, 3);
  const inUnits = units => v => {
    const [size, name] = units.find(([size]) => v >= 0.9995 * size) || units.at(-1);
    return digits(v / size, 3) + name;
  };
  const binary = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    .map((name, k) => [1024 ** k, " " + name]);
  const formats = {
    count: inUnits([[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"], [1, ""]]),
    nanos: inUnits([[1e9, " s"], [1e6, " ms"], [1e3, " us"], [1, " ns"]]),
    bytes: inUnits(binary.reverse()),
    percent: v => number(v) + "%",
    percentile: v => String(+(100 * (1 - 10 ** -v)).toFixed(Math.max(0, Math.ceil(v)))),
  };
  const print = (axis, v) => v === 0 ? "0" : (formats[axis.format] || number)(v);
  const share = (axis, v) => digits(100 * v / axis.whole, 2) + "%";
  const titleOf = axis => axis.label + (axis.unit ? ", " + axis.unit : "");

  /* Ticks: of the lists of places that suit an axis, the densest one whose labels do not touch;
     uPlot's own would be none where a part of a logarithmic axis is enlarged. */
  const logarithmic = axis => ["log", "sizes", "places"].includes(axis.kind);
  const powers = (base, every, factors, low, high) => {
    const places = [], end = Math.log(high) / Math.log(base);
    let k = every * Math.floor(Math.log(low) / Math.log(base) / every);
    for (; k <= end; k += every) places.push(...factors.map(f => f * base ** k));
    return places;
  };
  const rounds = (low, high, count) => {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw)), places = [];
    const step = power * [1, 2, 5, 10].find(m => m * power >= raw * 0.9999);
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-6; k++) {
      places.push(+(k * step).toPrecision(12));
    }
    return places;
  };
  const candidates = (axis, low, high) => {
    const places = axis.names?.map((_, i) => i) || axis.at || [];
    const given = places.filter(v => v >= low && v <= high);
    if (given.length > 1 || axis.names) return [given];
    if (axis.kind === "sizes") {
      return [[1, [1, 1.5]], [1, [1]], [2, [1]], [5, [1]], [10, [1]]]
        .map(([every, factors]) => powers(2, every, factors, low, high));
    }
    if (logarithmic(axis) && high > 3 * low) {
      return [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]]
        .map(factors => powers(10, 1, factors, low, high));
    }
    return [8, 7, 6, 5, 4, 3, 2, 1].map(count => rounds(low, high, count));
  };
  const ratioOf = (axis, v, low, high) =>
    logarithmic(axis) ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
  const margin = 12; /* right of a plot */
  const ticks = (axis, { min: low, max: high }, room, sizeOf) => {
    let kept = [];
    for (const places of candidates(axis, low, high)) {
      const all = places.filter(v => v >= low && v <= high * 1.0000001);
      let end = -margin;
      kept = all.filter(v => {
        const at = room * ratioOf(axis, v, low, high), half = sizeOf(v) / 2;
        if (at - half < end || at + half > room + margin) return false;
        end = at + half + 8;
        return true;
      });
      if (kept.length === all.length) break;
    }
    return kept;
  };

  /* Colours are those of the page, which is light or dark (view.PaletteStyle). */
  const styles = getComputedStyle(document.documentElement);
  const color = name => styles.getPropertyValue("--chart-" + name);

  const fontOf = size => size + "px system-ui, -apple-system, \"Segoe UI\", \"Liberation Sans\", " +
    "Arial, Helvetica, sans-serif";
  const font = fontOf(12), lineHeight = 16;
  const pen = document.createElement("canvas").getContext("2d");
  const widthOf = text => {
    pen.font = font;
    return Math.max(...text.split("\n").map(line => pen.measureText(line).width));
  };

  const stroke = (ctx, path, ink, width, dash = []) => {
    [ctx.strokeStyle, ctx.lineWidth] = [ink, width * devicePixelRatio];
    ctx.setLineDash(dash.map(length => length * devicePixelRatio));
    ctx.stroke(path);
  };
  const write = (ctx, text, x, y, ink) => { /* in units of CSS, from the lower left corner */
    ctx.font = fontOf(12 * devicePixelRatio);
    [ctx.textAlign, ctx.textBaseline, ctx.fillStyle] = ["left", "bottom", ink];
    ctx.fillText(text, x * devicePixelRatio, y * devicePixelRatio);
  };
  const along = (...points) => {
    const path = new Path2D();
    points.forEach(([x, y]) => path.lineTo(x, y));
    return path;
  };

  const crossPath = "m-3.1-3.1l6.2 6.2m0-6.2l-6.2 6.2";
  const addShape = (path, shape, [x, y]) => path.addPath(new Path2D(shape),
    new DOMMatrix([devicePixelRatio, 0, 0, devicePixelRatio, x, y]));

  /* How uPlot draws a series: by its own paths, or by one of these. */
  const stacks = s => s.form === "area" || s.form === "stack";
  const filled = s => stacks(s) || s.form === "bar";
  const pixel = (u, x, y) => [u.valToPos(x, "x", true), u.valToPos(y, "y", true)];
  const linear = uPlot.paths.linear();
  const lineWithBand = s => (u, ...of) => {
    const { x, low, high } = s.points;
    const at = x.map((_, i) => i).filter(i => low?.[i] != null);
    const fill = along(...at.map(i => pixel(u, x[i], high[i])),
      ...at.reverse().map(i => pixel(u, x[i], low[i])));
    return { ...linear(u, ...of), fill };
  };
  const bars = s => uPlot.paths.bars({ disp: {
    x0: { unit: 1, values: u => u.data[0].map(x => x - s.breath / 2) },
    size: { unit: 1, values: () => [s.breath] },
  } });
  const shapes = s => (u, nth, from, to) => {
    const path = new Path2D(), [xs, ys, { y }] = [u.data[0], u.data[nth], u.scales];
    for (let i = from; i <= to; i++) {
      if (ys[i] == null || ys[i] < y.min || ys[i] > y.max) continue;
      addShape(path, s.shape.path, pixel(u, xs[i], ys[i]));
    }
    return { stroke: path, fill: path };
  };
  const pointsOf = s => ({
    show: Boolean(s.shape), width: 1.4,
    stroke: () => color(s.color), fill: () => color(s.shape?.fill || s.color),
    paths: shapes(s),
  });
  const seriesOf = s => {
    const ink = () => color(s.color);
    const common = { label: s.name || "", scale: "y", stroke: ink, width: s.width || 0,
      dash: s.dash, spanGaps: true, points: pointsOf(s) };
    const edge = { stroke: () => color("paper"), width: 0.6 };
    if (s.form === "area") return { ...common, ...edge, fill: ink };
    if (filled(s)) return { ...common, fill: ink, paths: bars(s) };
    if (s.form !== "line") return { ...common, paths: () => null };
    return s.band ? { ...common, fill: () => ink() + "40", paths: lineWithBand(s) } : common;
  };

  /* The columns of all series of a panel, over the places of any of them. A place that a series
     has twice is moved by what nobody sees. */
  const joined = panel => uPlot.join(panel.series.map(({ points }) => {
    const order = points.x.map((_, i) => i).sort((a, b) => points.x[a] - points.x[b]), xs = [];
    order.forEach(at => {
      const x = points.x[at], last = xs.at(-1);
      xs.push(x <= last ? last + Math.abs(last || 1) * 1e-9 : x);
    });
    return [xs, order.map(at => points.y[at])];
  }));
  /* Stacked series end on the sum of those below that are shown. */
  const stacked = (panel, raw) => raw.map((column, n) => {
    if (n === 0 || !stacks(panel.series[n - 1])) return column;
    const below = raw.slice(n + 1).filter((_, m) => stacks(panel.series[n + m]) &&
      !panel.series[n + m].off);
    return column.map((v, i) => v == null ? v : below.reduce((sum, of) => sum + (of[i] || 0), v));
  });

  /* What a series has besides its line: ranges of points, limits across bars, crosses of what
     failed. Lines on bars have an edge, so that they are seen. */
  const extras = panel => (u, nth) => {
    const s = panel.series[nth - 1], ctx = u.ctx, ratio = devicePixelRatio;
    const edged = (path, ink, width, dash) => {
      stroke(ctx, path, color("paper"), width + 1.6);
      stroke(ctx, path, ink, width, dash);
    };
    const { left, top, width, height } = u.bbox, room = 6 * ratio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left - room, top - room, width + 2 * room, height + 2 * room);
    ctx.clip();
    if (s.points.low && !s.band) s.points.low.forEach((low, i) => {
      if (low == null) return;
      const [x, foot] = pixel(u, s.points.x[i], low), [, head] = pixel(u, 0, s.points.high[i]);
      const range = along([x, foot], [x, head]), cap = 3 * ratio;
      if (filled(s)) return edged(range, color("muted"), 1.2);
      for (const end of [foot, head]) range.addPath(along([x - cap, end], [x + cap, end]));
      edged(range, color(s.color), 1.2);
    });
    s.limits?.x.forEach((v, i) => edged(along(pixel(u, v - s.breath / 2, s.limits.y[i]),
      pixel(u, v + s.breath / 2, s.limits.y[i])), color("red"), 1.6, [3, 1.5]));
    s.failed?.forEach(v => {
      const cross = new Path2D(), [x, y] = pixel(u, v, 0);
      addShape(cross, crossPath, [x, y - 6 * ratio]);
      stroke(ctx, cross, color(s.color), 1.4);
    });
    ctx.restore();
  };

  /* Names of vertical lines: right of their lines, above the rows of those that they lie over. */
  const rowsOf = (chart, { min, max }, left, width) => {
    const seen = (chart.marks || []).filter(m => m.x >= min && m.x <= max)
      .sort((a, b) => a.x - b.x)
      .map(m => ({ ...m, at: left + width * ratioOf(chart.x, m.x, min, max), row: 0 }));
    for (const [i, m] of [...seen.entries()].reverse()) {
      const wide = widthOf(m.name);
      m.text = Math.max(0, Math.min(m.at + 3, left + width + 10 - wide));
      m.end = m.text + wide;
      for (const o of seen.slice(i + 1)) {
        if (Math.min(o.at, o.text) < m.end + 6) m.row = Math.max(m.row, o.row + 1);
      }
    }
    return seen;
  };
  /* Keeps where texts are, for those below to keep away from. */
  const marks = (chart, first) => u => {
    const ratio = devicePixelRatio, { left, top, width, height } = u.bbox;
    u.written = [];
    for (const m of rowsOf(chart, u.scales.x, left / ratio, width / ratio)) {
      const x = m.at * ratio, head = top / ratio - (first ? m.row * lineHeight : 0);
      stroke(u.ctx, along([x, top + height], [x, head * ratio]), color(m.color), 1.3,
        m.dashed ? [4, 3] : []);
      if (!first || !m.name) continue;
      write(u.ctx, m.name, m.text, head - 1, color(m.color));
      u.written.push([m.name, m.text, head - lineHeight, m.end, head]);
    }
  };
  /* Texts beside points, away from each other and from the points, the outermost first; the table
     has those without room. */
  const meet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  const labels = panel => u => panel.series.filter(s => s.form === "text").forEach(s => {
    const ratio = devicePixelRatio, height = 13;
    const left = u.bbox.left / ratio, top = u.bbox.top / ratio;
    const { x, y } = u.scales, shown = (v, scale) => v >= scale.min && v <= scale.max;
    const points = s.points.x.map((v, i) => [v, s.points.y[i], s.points.text[i]])
      .filter(([v, w]) => shown(v, x) && shown(w, y))
      .map(([v, w, text]) => [left + u.valToPos(v, "x"), top + u.valToPos(w, "y"), text]);
    const taken = points.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4])
      .concat(u.written.map(([, ...box]) => box));
    const fromOutside = points.map((_, i) => i)
      .sort((a, b) => Math.min(a, points.length - 1 - a) - Math.min(b, points.length - 1 - b));
    for (const i of fromOutside) {
      const [x, y, text] = points[i], wide = widthOf(text);
      const box = [[-wide / 2, -6], [3, -5], [-wide - 3, -5], [5, -12], [-wide / 2, 19], [3, 18]]
        .map(([dx, dy]) => [x + dx, y + dy - height, x + dx + wide, y + dy])
        .find(b => b[0] > left && b[2] < u.width && !taken.some(t => meet(t, b)));
      if (!box) continue;
      taken.push(box);
      u.written.push([text, ...box]);
      u.ctx.fillStyle = color("paper") + "b8"; /* readable over lines */
      u.ctx.fillRect(box[0] * ratio, box[1] * ratio, wide * ratio, height * ratio);
      write(u.ctx, text, box[0], box[3], color("ink"));
    }
  });

  /* Axes: names of groups are cut, or turned on a phone. */
  const axesOf = (chart, panel, last) => {
    const { x } = chart, groups = x.kind === "groups";
    const grid = { stroke: () => color("grid"), width: 1 };
    const room = u => u.bbox.width ? u.bbox.width / devicePixelRatio : u.width - 70;
    const each = u => room(u) / x.names.length - 6;
    const turned = u => groups && u.width < 480 && x.names.some(name => widthOf(name) > each(u));
    const cut = (text, most) => {
      let [short, n] = [text, text.length];
      for (; n > 6 && widthOf(short) > most; n--) short = text.slice(0, n - 1) + "…";
      return short;
    };
    const label = (u, v) => groups ? cut(x.names[v], turned(u) ? 110 : each(u)) :
      print(x, v) + (x.whole ? "\n" + share(x, v) : "");
    const widest = values => Math.max(0, ...(values || []).map(widthOf));
    const title = titleOf(x) + (x.whole ? ", and as a share of the database" : "");
    const common = { font, stroke: () => color("ink"), filter: (u, places) => places };
    return [{
      ...common, scale: "x", gap: 4, grid: groups ? { show: false } : grid,
      ticks: { show: !groups, stroke: () => color("muted"), size: 5 },
      border: { show: true, stroke: () => color("muted"), width: 1 },
      label: last ? title : null, labelFont: font, labelSize: 20, labelGap: 2,
      splits: u => ticks(x, u.scales.x, room(u), v => groups ? 0 : widthOf(label(u, v))),
      values: (u, places) => places.map(v => label(u, v)),
      rotate: u => turned(u) ? -90 : 0,
      size: (u, values) => turned(u) ? 14 + widest(values) : x.whole ? 44 : 28,
    }, {
      ...common, scale: "y", gap: 6, grid, ticks: { show: false },
      splits: u => ticks(panel, u.scales.y, u.bbox.height / devicePixelRatio || 240, () => 20),
      values: (u, places) => places.map(v => print(panel, v)),
      size: (u, values) => 10 + Math.max(20, widest(values)),
    }];
  };
  const scaleOf = axis => ({ time: false, auto: false, distr: logarithmic(axis) ? 3 : 1,
    min: axis.min, max: axis.max, range: (u, min, max) => [min ?? axis.min, max ?? axis.max] });

  const make = (name, attributes, ...content) => {
    const element = Object.assign(document.createElement(name), attributes);
    element.append(...content);
    return element;
  };

  const draw = (data, chart) => {
    const picture = data.nextElementSibling; /* of the same chart */
    const { x, panels } = chart, plots = [], all = panels.flatMap(p => p.series);
    const root = make("div", { className: "chart" + (chart.beside ? " beside" : "") });
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", chart.about);
    const frames = panels.map(panel => {
      const log = panel.kind === "log" ? " (log scale)" : "";
      const title = make("div", { className: "y" }, titleOf(panel) + log);
      const place = make("div", { className: "plot", tabIndex: 0 });
      place.setAttribute("role", "img");
      place.setAttribute("aria-label", panel.label + ": arrow keys tell the values");
      root.append(make("div", {}, title, place));
      return { title, place };
    });

    /* The values under the mouse, of the place that is nearest to it. */
    const tip = make("div", { className: "tip", hidden: true });
    tip.setAttribute("aria-live", "polite");
    const words = (between, ...all) => all.filter(word => word).join(between);
    const sayX = v => words(" ", x.label, x.names ? x.names[Math.round(v)] : print(x, v),
      x.whole && "(" + share(x, v) + " of the database)");
    const tell = panel => u => {
      const { left, top, idxs } = u.cursor, at = i => u.valToPos(u.data[0][i], "x");
      const near = panel.series.map((s, n) => ({ s, n, i: idxs?.[n + 1] }))
        .filter(({ s, i }) => i != null && !s.off && s.form !== "text")
        .sort((a, b) => Math.abs(at(a.i) - left) - Math.abs(at(b.i) - left));
      tip.hidden = !(left >= 0 && near.length);
      if (tip.hidden) return;
      const nearest = near[0].i, unit = (panel.unit || "").replace(/^(?=[^%])/, " ");
      const rows = near.filter(({ i }) => Math.abs(at(i) - at(nearest)) < 1)
        .sort((a, b) => a.n - b.n).map(({ s, n, i }) => {
          const swatch = make("i", {}), name = s.name ? s.name.trim() + ": " : "";
          swatch.style.background = color(s.color);
          return make("div", {}, swatch, name + print(panel, u.raw[n + 1][i]) + unit);
        });
      tip.replaceChildren(words(", ", sayX(u.data[0][nearest]), panel.label), ...rows);
      const frame = root.getBoundingClientRect(), plot = u.over.getBoundingClientRect();
      const right = plot.left - frame.left + left + 14, wide = tip.offsetWidth;
      const beyond = right + wide > frame.width;
      tip.style.left = Math.max(0, beyond ? right - wide - 28 : right) + "px";
      const down = plot.top - frame.top + Math.min(top, plot.height - 30) - 10;
      tip.style.top = Math.max(0, down) + "px";
    };
    root.addEventListener("mouseleave", () => { tip.hidden = true; });

    /* Panels show the same part of x. */
    const whole = () => plots.forEach((u, n) => u.batch(() => {
      u.setScale("x", { min: x.min, max: x.max });
      u.setScale("y", { min: panels[n].min, max: panels[n].max });
    }));
    const follow = (u, key) => {
      if (key !== "x") return;
      const { min, max } = u.scales.x, near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.abs(b);
      plots.filter(o => o.scales.x.min !== min || o.scales.x.max !== max)
        .forEach(o => o.setScale("x", { min, max }));
      const isWhole = (scale, axis) => near(scale.min, axis.min) && near(scale.max, axis.max);
      reset.hidden = plots.every(({ scales }, n) =>
        isWhole(scales.x, x) && isWhole(scales.y, panels[n]));
    };

    const heightOf = (width, n) => {
      const rows = n === 0 && chart.marks?.some(m => m.name) ? 2 * lineHeight : 0;
      return rows + (panels.length > 1 && !chart.beside ? 210 : width < 480 ? 250 : 320);
    };
    const plotOf = (panel, n, width) => {
      const first = n === 0, last = chart.beside || n === panels.length - 1, raw = joined(panel);
      const above = u => { /* room for the names of marks */
        const seen = u.scales.x.min == null ? x : u.scales.x;
        const named = first ? rowsOf(chart, seen, 45, u.width - 60).filter(m => m.name) : [];
        return 10 + lineHeight * (1 + Math.max(-1, ...named.map(m => m.row)));
      };
      const u = new uPlot({
        width, height: heightOf(width, n), legend: { show: false },
        padding: [above, margin, null, null],
        scales: { x: scaleOf(x), y: scaleOf(panel) }, axes: axesOf(chart, panel, last),
        series: [{}, ...panel.series.map(seriesOf)],
        cursor: {
          drag: { x: true, y: true, uni: 24, dist: 6 }, y: false, points: { size: 9 },
          hover: { prox: 30, skip: [null] }, /* within reach of a finger */
          bind: { dblclick: () => whole },
        },
        hooks: {
          drawSeries: [extras(panel)], draw: [marks(chart, first), labels(panel)],
          setCursor: [tell(panel)], setScale: [follow],
        },
      }, stacked(panel, raw), frames[n].place);
      u.raw = raw;
      return u;
    };
    frames.forEach(({ place }, n) => place.addEventListener("keydown", e => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key], u = plots[n];
      if (e.key === "Escape") whole();
      if (!step) return;
      e.preventDefault();
      const xs = u.data[0];
      u.at = Math.max(0, Math.min(xs.length - 1, (u.at ?? (step > 0 ? -1 : xs.length)) + step));
      u.setCursor({ left: u.valToPos(xs[u.at], "x"), top: 20 });
    }));

    /* One legend for all panels, as that of the picture: a name switches its series off and on. */
    const names = [...new Set(all.map(s => s.name).filter(name => name))];
    const looks = picture.querySelectorAll(".look");
    const legend = make("div", { className: "legend" }, ...names.map((name, nth) => {
      const own = all.filter(s => s.name === name), look = picture.cloneNode();
      look.setAttribute("class", "sample");
      look.setAttribute("viewBox", "0 0 22 12");
      look.append(looks[nth].cloneNode(true));
      const entry = make("button", { type: "button" }, look, name.trim());
      entry.setAttribute("aria-pressed", "true");
      entry.addEventListener("click", () => {
        const off = !own[0].off;
        own.forEach(s => { s.off = off; });
        entry.setAttribute("aria-pressed", String(!off));
        plots.forEach((u, n) => {
          const { series } = panels[n];
          series.forEach((s, i) => own.includes(s) && u.setSeries(i + 1, { show: !off }));
          u.setData(stacked(panels[n], u.raw), false);
          u.redraw();
        });
      });
      return entry;
    }));

    /* The picture as a file: on white, with the colours of paper. */
    const svg = () => new XMLSerializer().serializeToString(picture)
      .replace(/var\(--[^,]*,(#[0-9a-f]*)\)/g, "$1");
    const toSVG = done => done(new Blob([svg()], { type: "image/svg+xml" }));
    const toPNG = done => {
      const { width, height } = picture.viewBox.baseVal, image = new Image(), fine = 3;
      const canvas = make("canvas", { width: fine * width, height: fine * height });
      image.addEventListener("load", () => {
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        canvas.toBlob(done);
      });
      image.src = "data:image/svg+xml," + encodeURIComponent(svg());
    };
    const button = (textContent, act) => {
      const made = make("button", { type: "button", textContent });
      made.addEventListener("click", act);
      return made;
    };
    const reset = button("show the whole chart", whole);
    reset.hidden = true;
    root.append(legend, tip, make("div", { className: "tools" }, reset,
      button("save PNG", () => statelabSave(data, ".png", toPNG)),
      button("save SVG", () => statelabSave(data, ".svg", toSVG))));

    const fit = () => frames.forEach(({ place }, n) => {
      const width = Math.floor(place.clientWidth);
      if (width < 60) return; /* inside what is folded, or on paper */
      if (!plots[n]) plots[n] = plotOf(panels[n], n, width);
      else if (plots[n].width !== width) plots[n].setSize({ width, height: heightOf(width, n) });
    });
    data.after(root);
    fit();
    new ResizeObserver(fit).observe(root);
    matchMedia("(prefers-color-scheme: dark)")
      .addEventListener("change", () => plots.forEach(u => u.redraw(true, true)));
    root.plots = plots; /* for those who look closer */
  };

  document.querySelectorAll("script.chart-data")
    .forEach(data => draw(data, JSON.parse(data.textContent)));
})();
