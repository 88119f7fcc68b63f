"use strict";
(() => {
  const rows = [...document.querySelectorAll("#list tbody tr")];
  const byId = id => document.getElementById(id);
  const column = { path: 1, kind: 3, subject: 4, workload: 5, host: 6 };
  const value = (row, name) => row.cells[column[name]].textContent;
  const values = (row, name) => name === "subject" ? value(row, name).split(", ") : [value(row, name)];
  const filters = ["kind", "subject", "workload", "host"];
  for (const name of filters) {
    const found = new Set(rows.flatMap(r => values(r, name)).filter(v => v));
    for (const one of [...found].sort()) byId(name).append(new Option(one, one));
  }
  const apply = () => {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(w => w);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !(words.every(w => text.includes(w)) &&
        filters.every(f => !byId(f).value || values(row, f).includes(byId(f).value)));
      if (!row.hidden) shown++;
    }
    byId("count").textContent = shown + " of " + rows.length + " shown";
  };
  for (const id of ["search", ...filters]) byId(id).addEventListener("input", apply);
  apply();

  const chosen = () => rows.filter(r => r.querySelector("input")?.checked);
  document.addEventListener("change", () => { byId("overlay").disabled = chosen().length < 2; });
  byId("overlay").addEventListener("click", () => {
    location.href = "/report?" + chosen().map(r => "dir=" + encodeURIComponent(value(r, "path"))).join("&");
  });

  const now = rows.find(r => r.className === "running");
  if (!now) return;
  byId("live").hidden = false;
  byId("live-name").textContent = value(now, "path");
  const poll = async () => {
    const answer = await fetch("/live?dir=" + encodeURIComponent(value(now, "path")));
    if (!answer.ok) { byId("live-text").textContent = await answer.text(); return; }
    const live = await answer.json();
    const last = live.ticks[live.ticks.length - 1];
    byId("live-text").textContent = live.status + ": " + live.runs_done + " of " + live.runs_total + " runs done" +
      (live.left ? ", about " + live.left + " left" : "") + "; run " + live.run + ", phase " + live.phase +
      (last ? ", " + Math.round(last.ops_per_second).toLocaleString("en") + " operations/s" : "");
    byId("live-text").dataset.ticks = live.ticks.length;
    if (live.ticks.length) {
      const end = Math.max(last.t, 1e-9), top = Math.max(...live.ticks.map(t => t.ops_per_second), 1e-9);
      const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
      line.setAttribute("points", live.ticks.map(t => (600 * t.t / end).toFixed(1) + "," + (155 - 150 * t.ops_per_second / top).toFixed(1)).join(" "));
      byId("live-chart").replaceChildren(line);
      byId("live-top").textContent = "Operations per second, 0 to " + Math.round(top).toLocaleString("en") + ", over " + Math.round(end) + " seconds:";
    }
    byId("live-points").replaceChildren(...live.points.map(p => {
      const row = document.createElement("tr");
      for (const text of [p.label, p.block_reads_per_get?.toPrecision(3) ?? "–", Math.round(p.gets_per_second).toLocaleString("en")]) {
        row.insertCell().textContent = text;
      }
      row.cells[0].className = "text";
      return row;
    }));
    if (live.status === "running" || live.status === "interrupted") setTimeout(poll, 1000); else location.reload();
  };
  poll();
})();
