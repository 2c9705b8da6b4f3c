// Notebooks of statements: kept in the browser, saved and opened as .sql files whose cells are apart by lines of `-- %%`.
"use strict";

const KEY = "howdah-notebooks";
// What is in no notebook yet.
const DRAFT = "howdah-draft";
// A quoted text or name, one in dollars, a comment, the end of a statement, or anything else.
const PARTS = /[eE]'(?:[^'\\]|''|\\[\s\S])*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|(\$\w*\$)[\s\S]*?\1|--[^\n]*|\/\*[\s\S]*?\*\/|;|[\s\S]/g;
const cells = document.getElementById("cells");
const chosen = document.getElementById("notebook");
const texts = () => [...cells.querySelectorAll("textarea")].map((area) => area.value);

function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

function keep(notebooks) {
  try {
    localStorage.setItem(KEY, JSON.stringify(notebooks));
  } catch {
    alert("The browser has no room left for notebooks: download this one.");
  }
}

function list(name) {
  const names = ["", ...Object.keys(kept()).sort()];
  chosen.replaceChildren(...names.map((one) => new Option(one || "(not saved)", one, false, one === name)));
}

function number() {
  cells.querySelectorAll("textarea").forEach((area, at) => area.setAttribute("aria-label", `Statement ${at + 1}`));
  cells.querySelectorAll(".remove").forEach((button) => { button.hidden = cells.children.length === 1; });
}

function add(text) {
  const cell = document.getElementById("cell").content.firstElementChild.cloneNode(true);
  cell.querySelector("textarea").value = text;
  // The server knows a running statement by this.
  cell.elements.run.value = [...crypto.getRandomValues(new Uint32Array(3))].join("-");
  cells.append(cell);
  htmx.process(cell);
  number();
  return cell;
}

function show(all) {
  cells.replaceChildren();
  (all.length ? all : [""]).forEach(add);
}

function save() {
  if (chosen.value) keep({ ...kept(), [chosen.value]: texts() });
  else sessionStorage.setItem(DRAFT, JSON.stringify(texts()));
}

// The statements of a file: a notebook's cells as they are, of any other file one cell for each.
function split(text) {
  if (/^-- %%/m.test(text)) return text.split(/^-- %%.*$/m);
  const all = [""];
  for (const [part] of text.matchAll(PARTS)) {
    if (part === ";") all.push("");
    else all[all.length - 1] += part;
  }
  return all;
}

// A statement with its end, which a comment behind it would hide.
function ended(text) {
  const parts = [...text.matchAll(PARTS)].map(([part]) => part);
  const last = parts.filter((part) => part.trim() && !/^(--|\/\*)/.test(part)).at(-1);
  if (last === ";" || last === undefined) return `${text}\n`;
  return parts.at(-1).startsWith("--") ? `${text}\n;\n` : `${text};\n`;
}

// The rows as a file, or why there are none in the cell.
async function csv(cell) {
  const answer = await fetch("/sql/csv", { method: "POST", body: new URLSearchParams(new FormData(cell)) });
  if (!answer.ok) {
    cell.querySelector(".result").innerHTML = await answer.text();
    return;
  }
  give(await answer.blob(), "result.csv");
}

function give(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

const acts = {
  save() {
    const name = prompt("The name of the notebook:", chosen.value)?.trim();
    if (!name) return;
    keep({ ...kept(), [name]: texts() });
    list(name);
  },
  download() {
    const file = texts().map((text) => ended(text.trim())).join("\n-- %%\n");
    give(new Blob([file], { type: "application/sql" }), `${chosen.value || "notebook"}.sql`);
  },
  delete() {
    if (!chosen.value || !confirm(`Delete the notebook ${chosen.value} from this browser?`)) return;
    const { [chosen.value]: _, ...others } = kept();
    keep(others);
    list("");
  },
};

document.addEventListener("click", (event) => {
  acts[event.target.dataset.notebook]?.();
  if (event.target.id === "add") add("").querySelector("textarea").focus();
  if (event.target.classList.contains("remove")) {
    event.target.closest(".cell").remove();
    number();
    save();
  }
});
cells.addEventListener("input", save);
cells.addEventListener("submit", (event) => {
  event.preventDefault();
  csv(event.target);
});
chosen.addEventListener("change", () => { if (chosen.value) show(kept()[chosen.value]); });
document.getElementById("open").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  const lost = !chosen.value && sessionStorage.getItem(DRAFT) && texts().some((text) => text.trim());
  if (lost && !confirm("The statements here are in no notebook. Replace them by those of the file?")) {
    event.target.value = "";
    return;
  }
  list("");
  show(split(await file.text()).map((text) => text.trim()).filter(Boolean));
  save();
  event.target.value = "";
});

document.getElementById("notebooks").hidden = document.getElementById("add").hidden = false;
list("");
const draft = JSON.parse(sessionStorage.getItem(DRAFT));
if (draft?.length) show(draft);
number();
