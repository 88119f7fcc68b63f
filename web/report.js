"use strict";
/* Saves tables and charts. What a page shows open for those who have no script is folded: the figures of its charts. */
const statelabSave = (element, ending, make) => {
  const name = element.closest(".block").querySelector("h3, summary")?.textContent || "statelab";
  make(blob => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name.replace(/[^A-Za-z0-9]+/g, "-").toLowerCase() + ending;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
};
document.querySelectorAll("details.figures").forEach(figures => { figures.open = false; });
document.querySelectorAll(".block table").forEach(table => {
  const tools = document.createElement("div"), made = document.createElement("button");
  tools.className = "tools";
  tools.append(made);
  made.type = "button";
  made.textContent = "save CSV";
  made.addEventListener("click", () => statelabSave(table, ".csv", done => {
    const quoted = cell => "\"" + cell.innerText.replace(/\s+/g, " ").trim().replace(/"/g, "\"\"") + "\"";
    done(new Blob([...table.rows].map(row => [...row.cells].map(quoted).join(",") + "\r\n"), { type: "text/csv" }));
  }));
  table.closest(".scroll").after(tools);
});
