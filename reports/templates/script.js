"use strict";
(() => {
  const table = document.getElementById("table");
  // A link to a result or a rule opens it, and whatever encloses it.
  const open = () => {
    const target = /^#[rf]\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) open();
  });
  // On paper nothing can be unfolded: print what a reader would open, unless it is a whole round.
  addEventListener("beforeprint", () => {
    const folded = document.querySelectorAll("details:not([open])");
    if (folded.length <= 300) for (const one of folded) { one.open = true; one.dataset.printed = ""; }
  });
  addEventListener("afterprint", () => {
    for (const one of document.querySelectorAll("details[data-printed]")) {
      one.open = false;
      delete one.dataset.printed;
    }
  });
  if (!table) return;

  const body = table.tBodies[0];
  const rows = [...body.rows];
  const form = document.querySelector(".filters");
  const search = document.getElementById("q");
  const selects = [...form.querySelectorAll("select")];
  const shown = document.getElementById("shown");
  const words = rows.map((row) => row.textContent.toLowerCase());
  const counted = rows.length.toLocaleString("en") + (rows.length === 1 ? " result" : " results");
  form.hidden = false;

  const filter = () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = selects.filter((s) => s.value).map((s) => [Number(s.dataset.c), s.value]);
    let count = 0;
    rows.forEach((row, index) => {
      const keep = wanted.every((word) => words[index].includes(word)) &&
        chosen.every(([column, value]) => row.cells[column].textContent === value);
      row.hidden = !keep;
      count += keep;
    });
    shown.textContent = count === rows.length ? counted : count.toLocaleString("en") + " of " + counted;
  };
  let waiting = 0;
  const soon = () => { clearTimeout(waiting); waiting = setTimeout(filter, 80); };
  search.addEventListener("input", soon);
  form.addEventListener("change", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());

  const compare = new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare;
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numeric = head.classList.contains("n");
      const keyed = rows.map((row, index) => {
        const cell = row.cells[column];
        const text = cell.textContent;
        const number = parseFloat(cell.dataset.v || text);
        return { row, index, text, number, empty: numeric ? Number.isNaN(number) : !text };
      });
      keyed.sort((a, b) => {
        if (a.empty || b.empty) return a.empty - b.empty || a.index - b.index;
        const order = numeric ? a.number - b.number : compare(a.text, b.text);
        return (down ? -order : order) || a.index - b.index;
      });
      body.append(...keyed.map((one) => one.row));
    });
  });
})();
