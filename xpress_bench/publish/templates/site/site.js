// Sorting and filtering of the index. The page is sorted already and readable without this file.
"use strict";

const table = document.getElementById("standings");
if (table) {
  const form = document.getElementById("filter");
  const status = document.getElementById("status");
  const heads = [...table.tHead.rows[0].cells];
  const groups = [...table.tBodies].map((body) => {
    const [head, ...rows] = body.rows;
    const about = head.textContent.toLowerCase();
    return { body, rows: rows.map((row) => ({ row, text: about + row.textContent.toLowerCase() })) };
  });
  let sorted = ""; // the order the rows stand in, as in the address

  const all = groups.reduce((sum, group) => sum + group.rows.length, 0);
  const fields = [...form.elements].filter((field) => field.name);
  const columns = heads.map((head) => head.textContent.trim().toLowerCase().replace(/[^a-z]+/g, "-"));

  function read() {
    const asked = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    for (const field of fields) {
      if (field.type === "checkbox") field.checked = asked.has(field.name);
      else field.value = asked.get(field.name) ?? "";
    }
    sort(asked.get("sort") ?? "");
    filter();
  }

  function write() {
    const said = new URLSearchParams();
    for (const field of fields) {
      const value = field.type === "checkbox" ? (field.checked ? "yes" : "") : field.value;
      if (value) said.set(field.name, value);
    }
    if (sorted) said.set("sort", sorted);
    history.replaceState(null, "", said.size ? `#${said}` : location.pathname + location.search);
  }

  function filter() {
    const values = Object.fromEntries(fields.map((field) => [field.name, field.value]));
    const words = values.q.toLowerCase().split(/\s+/).filter(Boolean);
    const ranked = form.elements.ranked.checked;
    let seen = 0;
    for (const { body, rows } of groups) {
      const chosen = Object.entries(body.dataset).every(([name, value]) => !values[name] || values[name] === value);
      let left = 0;
      for (const { row, text } of rows) {
        const fits = chosen && words.every((word) => text.includes(word)) && (!ranked || /\d/.test(row.cells[0].textContent));
        row.hidden = !fits;
        left += fits;
      }
      body.hidden = !left;
      seen += left;
    }
    status.textContent = seen === all ? `${all} rows` : `${seen} of ${all} rows`;
  }

  // `order` is a column and a direction, as in "speed-up descending"; anything else is the order of the server.
  function sort(order) {
    const [name, direction] = order.split(" ");
    const at = columns.indexOf(name);
    const kind = heads[at]?.dataset.sort;
    const before = sorted;
    sorted = kind && ["ascending", "descending"].includes(direction) ? order : "";
    heads.forEach((head, index) => {
      if (head.dataset.sort) head.setAttribute("aria-sort", sorted && index === at ? direction : "none");
    });
    if (sorted === before) return;
    const sign = direction === "descending" ? -1 : 1;
    for (const { body, rows } of groups) {
      const keyed = rows.map(({ row }, place) => ({ row, place, key: sorted ? key(row.cells[at].textContent, kind) : place }));
      keyed.sort((a, b) => missing(a) - missing(b) || (a.key < b.key ? -sign : a.key > b.key ? sign : a.place - b.place));
      body.append(...keyed.map(({ row }) => row));
    }
  }

  const key = (text, kind) => (kind === "number" ? parseFloat(text) : text.trim().toLowerCase());
  const missing = ({ key }) => key === "" || Number.isNaN(key); // what is unknown stands last in either direction

  function press(head, name) {
    const first = head.dataset.first ?? "ascending";
    const second = first === "ascending" ? "descending" : "ascending";
    sort(`${name} ${sorted === `${name} ${first}` ? second : first}`);
    write();
  }

  heads.forEach((head, at) => {
    if (!head.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => press(head, columns[at]));
    head.append(button);
  });
  form.addEventListener("input", () => { filter(); write(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", read);
  form.hidden = false;
  read();
}
