"use strict";
/* Values under the mouse, series on and off, a part enlarged, charts and tables to save.
   Charts are drawn by Go; this only reads what they hold. No less-than sign or ampersand: the page is XML. */
(() => {
  const element = (name, text, parent) => {
    const made = document.createElement(name);
    made.textContent = text;
    parent.append(made);
    return made;
  };
  const save = (name, blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const numbers = text => (text || "").split(",").map(Number);
  const near = (a, b) => a.length === 3 ? b.length === 3 ? a.every((v, i) => 4 > Math.abs(v - b[i])) : false : false;
  const colorsOf = shape => ["fill", "stroke"].map(key => {
    const found = shape.style[key].match(/rgb\((\d+), (\d+), (\d+)\)/);
    return found ? found.slice(1).map(Number) : [];
  });
  const svgText = svg => {
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", "http:" + "//www.w3.org/2000/svg");
    copy.querySelectorAll(".hit, .off, .part").forEach(e => e.remove());
    const box = svg.viewBox.baseVal;
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    copy.style.fontFamily = "Arial, Helvetica, sans-serif";
    return new XMLSerializer().serializeToString(copy);
  };
  /* A rectangle drawn with the mouse becomes all that the chart shows. A finger scrolls. */
  const enlarge = (svg, button) => {
    const all = svg.getAttribute("viewBox"), size = svg.viewBox.baseVal;
    svg.style.aspectRatio = size.width + "/" + size.height;
    const part = document.createElementNS("http:" + "//www.w3.org/2000/svg", "rect");
    part.setAttribute("class", "part");
    svg.append(part);
    const whole = button("show the whole chart", () => {
      svg.setAttribute("viewBox", all);
      whole.hidden = true;
    });
    whole.hidden = true;
    const place = e => new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let from = null, box = [0, 0, 0, 0];
    const outline = () => ["x", "y", "width", "height"].forEach((name, i) => part.setAttribute(name, box[i]));
    svg.addEventListener("pointerdown", e => {
      if (e.button !== 0) return;
      if (e.pointerType !== "mouse") return;
      e.preventDefault(); /* selects no text */
      svg.setPointerCapture(e.pointerId);
      from = place(e);
    });
    svg.addEventListener("pointermove", e => {
      if (!from) return;
      const to = place(e);
      box = [Math.min(from.x, to.x), Math.min(from.y, to.y), Math.abs(from.x - to.x), Math.abs(from.y - to.y)];
      outline();
    });
    svg.addEventListener("pointerup", () => {
      if (Math.min(box[2], box[3]) > 10) {
        svg.setAttribute("viewBox", box.join(" "));
        whole.hidden = false;
      }
      from = null;
      box = [0, 0, 0, 0];
      outline();
    });
  };
  document.querySelectorAll(".chart").forEach(chart => {
    const svg = chart.querySelector("svg");
    const hits = [...svg.querySelectorAll(".hit")];
    const block = chart.closest(".block");
    const name = (block.querySelector("h3, summary")?.textContent || "chart").replace(/[^A-Za-z0-9]+/g, "-").toLowerCase();
    const tip = element("div", "", chart);
    tip.className = "tip";
    tip.hidden = true;
    hits.forEach(hit => {
      const text = hit.querySelector("title").textContent;
      hit.querySelector("title").remove(); /* the tip says it at once */
      hit.setAttribute("tabindex", "0");
      hit.setAttribute("aria-label", text);
      const show = () => {
        tip.textContent = text;
        tip.hidden = false;
        const at = hit.getBoundingClientRect(), frame = chart.getBoundingClientRect();
        const left = at.left - frame.left + chart.scrollLeft;
        tip.style.left = Math.max(0, Math.min(left, frame.width + chart.scrollLeft - tip.offsetWidth)) + "px";
        tip.style.top = (at.top - frame.top + 20) + "px";
      };
      const hide = () => { tip.hidden = true; };
      hit.addEventListener("mouseenter", show);
      hit.addEventListener("focus", show);
      hit.addEventListener("mouseleave", hide);
      hit.addEventListener("blur", hide);
    });
    const tools = document.createElement("div");
    tools.className = "tools";
    chart.after(tools);
    const series = new Map();
    hits.filter(h => h.dataset.series).forEach(h => {
      const names = series.get(h.dataset.color) || new Set();
      series.set(h.dataset.color, names.add(h.dataset.series));
    });
    if (series.size > 1) series.forEach((names, color) => {
      const label = element("label", "", tools);
      const box = element("input", "", label);
      box.type = "checkbox";
      box.checked = true;
      element("i", "", label).style.background = "rgb(" + color + ")";
      label.append([...names].join(", "));
      const shapes = [...svg.querySelectorAll("path")].filter(p => colorsOf(p).some(c => near(c, numbers(color))));
      const own = hits.filter(h => h.dataset.color === color);
      box.addEventListener("change", () => [...shapes, ...own].forEach(e => e.classList.toggle("off", !box.checked)));
    });
    const button = (text, act) => {
      const made = element("button", text, tools);
      made.type = "button";
      made.addEventListener("click", act);
      return made;
    };
    enlarge(svg, button);
    button("save SVG", () => save(name + ".svg", new Blob([svgText(svg)], {type: "image/svg+xml"})));
    button("save PNG", () => {
      const picture = new Image();
      picture.onload = () => {
        const canvas = document.createElement("canvas");
        canvas.width = 2 * picture.width;
        canvas.height = 2 * picture.height;
        const pen = canvas.getContext("2d");
        pen.fillStyle = "#fff";
        pen.fillRect(0, 0, canvas.width, canvas.height);
        pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
        canvas.toBlob(blob => save(name + ".png", blob));
      };
      picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(svg));
    });
  });
  document.querySelectorAll(".block table").forEach(table => {
    const name = (table.closest(".block").querySelector("h3, summary")?.textContent || "table").replace(/[^A-Za-z0-9]+/g, "-").toLowerCase();
    const tools = document.createElement("div");
    tools.className = "tools";
    const made = element("button", "save CSV", tools);
    made.type = "button";
    made.addEventListener("click", () => {
      const quoted = cell => "\"" + cell.innerText.replace(/\s+/g, " ").trim().replace(/"/g, "\"\"") + "\"";
      const lines = [...table.rows].map(row => [...row.cells].map(quoted).join(","));
      save(name + ".csv", new Blob([lines.join("\r\n") + "\r\n"], {type: "text/csv"}));
    });
    table.closest(".scroll").after(tools);
  });
})();
