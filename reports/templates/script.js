"use strict";
(() => {
  const FIRST = 100;
  const root = document.documentElement;
  // Until the tables are set up, only their first rows are laid out.
  root.classList.add("loading");

  // The address after "#" is an anchor, "?", and the filters of both tables:
  // #findings?f-severity=error&r-verdict=invalid
  const read = () => {
    const hash = location.hash.slice(1);
    const at = hash.indexOf("?");
    return at < 0 ? [hash, new URLSearchParams()] : [hash.slice(0, at), new URLSearchParams(hash.slice(at + 1))];
  };
  const address = (anchor, query) => {
    const text = query.toString();
    return "#" + anchor + (text ? "?" + text : "");
  };
  const compare = new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare;
  const part = (selector) => (row) => {
    const found = row.querySelector(selector);
    return found ? found.textContent.trim() : "";
  };
  const columns = () => ({
    results: ["verdict", "submitter", "system", "benchmark", "scenario", "division and category", "result", "accuracy margin", "errors", "warnings"]
      .map((name, column) => [name, part(`:scope > td:nth-child(${column + 1})`)]),
    findings: [
      ["severity", part(".sev")], ["rule", part(":scope > td:nth-child(2) > a")],
      ["name", part(":scope > td:nth-child(2) > small")], ["submitter", part(":scope > td:nth-child(3)")],
      ["concerns", part(":scope > td:nth-child(4)")], ["path", part(".path")],
      ["message", part(":scope > td:nth-child(5) > p")], ["fix", part(".fix > span")],
      ...(document.querySelector(".found .new") ? [["since", part(".new")]] : []),
      ...(document.querySelector(".follows") ? [["follows from", part(".from > a")]] : []),
    ],
  });
  // A spreadsheet program must not take a text for a formula.
  const cell = (text) => {
    const plain = text.replace(/\s+/g, " ");
    const safe = /^[=+@-]/.test(plain) && !/^[+-][\d.,]+ ?%?$/.test(plain) ? "'" + plain : plain;
    return /[",]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };
  const copied = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };

  /** A table with filters, sorting and a copy button; its state is in the address. */
  const list = (table) => {
    const section = table.closest("section");
    const prefix = section.id[0] + "-";
    const form = section.querySelector("form");
    const search = form.querySelector("input");
    const selects = [...form.querySelectorAll("select")];
    const shown = section.querySelector(".shown");
    const more = section.querySelector(".more");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const keys = rows.map((row) => row.dataset.k.split("|").map((part) => part.split(",")));
    const heads = [...table.tHead.rows[0].cells];
    const plural = (count) => count.toLocaleString("en") + " " + table.dataset.noun + (count === 1 ? "" : "s");
    let words = null;
    let order = rows.map((_, index) => index);
    let sorted = "";
    let all = false;
    let kept = rows.length;

    const filter = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (wanted.length && !words) words = rows.map((row) => row.textContent.toLowerCase());
      const chosen = selects.map((select, at) => [at, String(select.selectedIndex - 1)]).filter(([, value]) => value !== "-1");
      kept = 0;
      for (const index of order) {
        const keep = wanted.every((word) => words[index].includes(word)) &&
          chosen.every(([at, value]) => keys[index][at].includes(value));
        kept += keep;
        const late = keep && !all && kept > FIRST;
        const list = rows[index].classList;
        list.toggle("off", !keep);
        list.toggle("late", late);
      }
      const hidden = !all && kept > FIRST;
      more.hidden = !hidden;
      // A few rows need no filters, unless one hides some of them.
      form.hidden = rows.length < 5 && kept === rows.length;
      more.firstElementChild.textContent = "Show all " + plural(kept);
      shown.textContent = (kept === rows.length ? plural(kept) : kept.toLocaleString("en") + " of " + plural(rows.length)) +
        (hidden ? ", the first " + FIRST + " shown" : "");
    };
    const sort = (name) => {
      if (name === sorted) return;
      sorted = name;
      const column = heads.findIndex((head) => head.textContent === name.replace(/^-/, ""));
      for (const head of heads) head.removeAttribute("aria-sort");
      order = rows.map((_, index) => index);
      if (column >= 0) {
        const down = name[0] === "-";
        heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
        const numeric = heads[column].classList.contains("n");
        const keyed = rows.map((row) => {
          const at = row.cells[column];
          const number = parseFloat(at.dataset.v || at.textContent.replaceAll(",", ""));
          return { text: at.textContent, number, empty: numeric ? Number.isNaN(number) : !at.textContent };
        });
        order.sort((a, b) => {
          const [x, y] = [keyed[a], keyed[b]];
          if (x.empty || y.empty) return x.empty - y.empty || a - b;
          const by = numeric ? x.number - y.number : compare(x.text, y.text);
          return (down ? -by : by) || a - b;
        });
      }
      body.append(...order.map((index) => rows[index]));
    };
    /** Take over what the address says. */
    const take = (query) => {
      search.value = query.get(prefix + "q") || "";
      for (const select of selects) {
        const wanted = query.get(prefix + select.name);
        const at = wanted === null ? 0 : [...select.options].findIndex((one, n) => n && one.text === wanted);
        // What the report does not know leaves nothing, rather than everything.
        select.selectedIndex = at;
      }
      sort(query.get(prefix + "sort") || "");
      filter();
    };
    /** Put into the address what the form says; ``step``: so that "back" undoes it. */
    const give = (step) => {
      const [, query] = read();
      for (const name of [...query.keys()]) if (name.startsWith(prefix)) query.delete(name);
      if (search.value) query.set(prefix + "q", search.value);
      for (const select of selects) if (select.selectedIndex > 0) query.set(prefix + select.name, select.options[select.selectedIndex].text);
      if (sorted) query.set(prefix + "sort", sorted);
      const target = document.URL.split("#")[0] + address(section.id, query);
      if (target !== document.URL) history[step ? "pushState" : "replaceState"](null, "", target);
    };

    let waiting = 0;
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { filter(); give(false); }, 80);
    });
    form.addEventListener("change", (event) => {
      if (event.target === search) return;
      all = false;
      filter();
      give(true);
    });
    form.addEventListener("reset", () => setTimeout(() => { all = false; sort(""); filter(); give(true); }));
    form.addEventListener("submit", (event) => event.preventDefault());
    more.firstElementChild.addEventListener("click", () => { all = true; filter(); });
    form.querySelector(".copy").addEventListener("click", async () => {
      const named = columns()[section.id];
      const chosen = order.map((index) => rows[index]).filter((row) => !row.classList.contains("off"));
      const lines = [named.map(([name]) => name), ...chosen.map((row) => named.map(([, of]) => cell(of(row))))];
      const text = lines.map((line) => line.join(",")).join("\r\n") + "\r\n";
      shown.textContent = (await copied(text)) ? "Copied " + plural(chosen.length) : "Could not copy";
    });
    heads.forEach((head) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const name = head.textContent;
        // Of numbers the greatest is wanted first.
        const [once, twice] = head.classList.contains("n") ? ["-" + name, name] : [name, "-" + name];
        sort(sorted === once ? twice : once);
        filter();
        give(true);
      });
    });
    return { prefix, take };
  };

  /** Of a large report, the details of a result are unpacked when it is opened. */
  let bodies = null;
  const unpacked = async (details) => {
    const number = details.dataset.n;
    if (number === undefined) return;
    bodies ||= (async () => {
      const bytes = Uint8Array.from(atob(document.getElementById("packed").textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      return JSON.parse(await new Response(stream).text());
    })();
    delete details.dataset.n;
    details.insertAdjacentHTML("beforeend", (await bodies)[number]);
  };

  const start = () => {
    document.addEventListener("toggle", (event) => { if (event.target.open) unpacked(event.target); }, true);
    const lists = [...document.querySelectorAll("table.list")].map(list);
    let last = null;
    const show = (anchor, move) => {
      const target = anchor && document.getElementById(anchor);
      for (const one of document.querySelectorAll(".here")) one.classList.remove("here");
      if (!target) return;
      for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
      target.classList.remove("off", "late");
      target.classList.add("here");
      if (!move) return;
      const focused = target.tagName === "DETAILS" ? target.firstElementChild : target;
      if (focused.tabIndex < 0) focused.tabIndex = -1;
      focused.focus({ preventScroll: true });
      target.scrollIntoView();
    };
    const follow = (move) => {
      const [anchor, query] = read();
      const text = query.toString();
      if (text !== last) for (const one of lists) one.take(query);
      last = text;
      show(anchor, move);
    };
    follow(location.hash.length > 1);
    root.classList.remove("loading");
    let jump = false;
    // "Back" restores the place by itself; only a link moves to its target.
    addEventListener("hashchange", () => { follow(jump); jump = false; });
    document.addEventListener("click", (event) => {
      const link = event.target.closest && event.target.closest('a[href^="#"]');
      if (!link || link.className === "skip" || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      const hash = link.getAttribute("href").slice(1);
      const at = hash.indexOf("?");
      const anchor = at < 0 ? hash : hash.slice(0, at);
      const [, query] = read();
      if (at >= 0) {
        // A link that filters one table leaves the other as it is.
        const wanted = new URLSearchParams(hash.slice(at + 1));
        for (const name of [...query.keys()]) if (name.startsWith(anchor[0] + "-")) query.delete(name);
        for (const [name, value] of wanted) query.set(name, value);
      }
      const target = address(anchor, query);
      if (target === location.hash) return show(anchor, true);
      jump = true;
      location.hash = target;
    });
    // On paper nothing can be unfolded: print what has errors unfolded.
    addEventListener("beforeprint", () => {
      for (const one of document.querySelectorAll("details.bad:not([open]), .bad details:not([open], .settings)")) {
        one.open = true;
        one.dataset.printed = "";
      }
    });
    addEventListener("afterprint", () => {
      for (const one of document.querySelectorAll("details[data-printed]")) {
        one.open = false;
        delete one.dataset.printed;
      }
    });
  };
  document.addEventListener("DOMContentLoaded", start);
})();
