"use strict";
(() => {
  const told = document.getElementById("told");
  const tell = (words) => { told.textContent = words; };

  // Theme: as the system has it, light, or dark; kept where the browser lets a page keep anything.
  const theme = document.getElementById("theme");
  const themes = ["system", "light", "dark"];
  const key = "prereg-theme";
  const kept = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const use = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    theme.textContent = `Theme: ${name}`;
    theme.dataset.now = name;
  };
  use(themes.includes(kept()) ? kept() : "system");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const next = themes[(themes.indexOf(theme.dataset.now) + 1) % themes.length];
    use(next);
    try { localStorage.setItem(key, next); } catch { /* it lasts as long as the page */ }
  });

  // Copy a digest; where the clipboard is closed, select it instead.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
      tell("copied");
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    } catch {
      const code = button.parentElement.querySelector("code");
      getSelection().selectAllChildren(code);
      tell("selected; copy it with the keyboard");
    }
  });

  // Prompt tables are built when they are first opened.
  const FIRST = 100;
  const text = (value, column, nText) => {
    if (value === null) return "";
    return column < nText ? value : String(value).replace("-", "\u2212");
  };
  const compare = (a, b, sign) => {
    // What isn't there comes last, whichever way the rest is sorted.
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
  };
  const field = (value) => {
    const words = value === null ? "" : String(value);
    return /[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };

  const build = (box) => {
    const data = JSON.parse(box.querySelector("script").textContent);
    const [head, body] = [box.querySelector("thead"), box.querySelector("tbody")];
    const [input, select] = [box.querySelector("input"), box.querySelector("select")];
    const [count, more] = [box.querySelector(".count"), box.querySelector(".more")];
    const relation = data.columns.indexOf("relation");
    let sorted = { column: -1, sign: 1 };
    let limit = FIRST;

    const row = head.insertRow();
    const heads = data.columns.map((name, column) => {
      const cell = document.createElement("th");
      const button = document.createElement("button");
      cell.scope = "col";
      if (column >= data.n_text) cell.className = "num";
      button.type = "button";
      button.textContent = name.replaceAll("_", " ");
      button.addEventListener("click", () => {
        const again = sorted.column === column;
        sorted = { column, sign: again ? -sorted.sign : 1 };
        draw();
      });
      cell.append(button);
      row.append(cell);
      return cell;
    });
    for (const name of [...new Set(data.rows.map((r) => r[relation]))].sort()) {
      select.append(new Option(name, name));
    }

    const chosen = () => {
      const wanted = input.value.trim().toLocaleLowerCase();
      const rows = data.rows.filter((r) => (!select.value || r[relation] === select.value)
        && (!wanted || r.slice(0, data.n_text).some((v) => v.toLocaleLowerCase().includes(wanted))));
      const { column, sign } = sorted;
      return column < 0 ? rows : rows.toSorted((a, b) => compare(a[column], b[column], sign));
    };
    const draw = () => {
      const rows = chosen();
      const shown = rows.slice(0, limit);
      body.replaceChildren(...shown.map((r) => {
        const line = document.createElement("tr");
        r.forEach((value, column) => {
          const cell = line.insertCell();
          cell.textContent = text(value, column, data.n_text);
          if (column >= data.n_text) cell.className = "num";
        });
        return line;
      }));
      heads.forEach((cell, column) => {
        const here = column === sorted.column;
        if (here) cell.ariaSort = sorted.sign > 0 ? "ascending" : "descending";
        else cell.removeAttribute("aria-sort");
        const arrow = here ? (sorted.sign > 0 ? " \u2191" : " \u2193") : "";
        cell.firstChild.textContent = data.columns[column].replaceAll("_", " ") + arrow;
      });
      count.textContent = `${shown.length} of ${rows.length} shown` + (rows.length < data.rows.length ? `, ${data.rows.length} in all` : "");
      more.hidden = shown.length === rows.length;
      more.textContent = `Show all ${rows.length}`;
    };
    input.addEventListener("input", () => { limit = FIRST; draw(); });
    select.addEventListener("change", () => { limit = FIRST; draw(); });
    more.addEventListener("click", () => { limit = Infinity; draw(); });

    const link = box.querySelector(".download");
    if (link) {
      const lines = [data.columns, ...data.rows].map((r) => r.map(field).join(","));
      link.href = `data:text/csv;charset=utf-8,${encodeURIComponent(lines.join("\n") + "\n")}`;
    }
    draw();
  };
  for (const box of document.querySelectorAll("details.prompts")) {
    box.addEventListener("toggle", () => { if (box.open && !box.dataset.built) { box.dataset.built = "1"; build(box); } });
  }

  // On paper everything is open, and what was closed closes again. Prompt tables are left out there.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.prompts)")];
    for (const box of opened) box.open = true;
  });
  addEventListener("afterprint", () => { for (const box of opened) box.open = false; });
})();
