// Reads the first lines of a file for the server to look at, and sends the file when its form is filled in.
"use strict";

const SAMPLE = 1 << 16;
const file = document.getElementById("file");
const outcome = document.getElementById("outcome");
let sample;

async function read(chosen, encoding) {
  const bytes = new Uint8Array(await chosen.slice(0, SAMPLE).arrayBuffer());
  const whole = chosen.size <= SAMPLE;
  const big = bytes[0] === 0xfe && bytes[1] === 0xff;
  const names = { UTF8: "utf-8", UTF16: big ? "utf-16be" : "utf-16le", WIN1252: "windows-1252" };
  // A character may be cut at the end of the sample.
  const decoded = (name, fatal) => new TextDecoder(names[name], { fatal }).decode(bytes, { stream: !whole });
  if (!encoding) {
    encoding = big || (bytes[0] === 0xff && bytes[1] === 0xfe) ? "UTF16" : "UTF8";
    try { decoded(encoding, true); } catch { encoding = "WIN1252"; }
  }
  sample = { sample: decoded(encoding, false), encoding, whole: whole ? "1" : "", file: chosen.name };
}

const look = (more) => htmx.ajax("POST", "/train/upload/look", { values: { ...sample, ...more }, target: "#look" });

file.addEventListener("change", async () => {
  outcome.replaceChildren();
  if (!file.files.length) return;
  await read(file.files[0]);
  look({});
});

document.addEventListener("change", async (event) => {
  if (!("again" in event.target.dataset)) return;
  const form = new FormData(document.getElementById("plan"));
  if (event.target.name === "encoding") await read(file.files[0], event.target.value);
  // Another delimiter makes other columns, whose styles are found anew.
  const kept = event.target.name === "delimiter" ? ["delimiter"] : ["delimiter", "header", "missing", "numbers", "dates"];
  look(Object.fromEntries([...kept, "table"].map((name) => [name, form.get(name) ?? ""])));
});

document.addEventListener("submit", async (event) => {
  if (event.target.id !== "plan") return;
  event.preventDefault();
  const form = event.target;
  const all = (selector) => [...form.querySelectorAll(selector)].map((one) => one.value);
  const plan = Object.fromEntries(new FormData(form));
  const types = all(".type");
  plan.header = plan.header === "1";
  plan.columns = all(".column").map((name, at) => [name, types[at]]);
  const button = form.querySelector("button.main");
  button.disabled = true;
  document.getElementById("sent").textContent = "sending …";
  outcome.replaceChildren();
  try {
    const answer = await fetch("/train/upload", {
      method: "POST",
      body: file.files[0],
      headers: {
        ...JSON.parse(document.body.getAttribute("hx-headers")),
        "HX-Request": "true",
        "Content-Type": "text/csv",
        // Headers are bytes: other letters are escaped.
        "X-Plan": JSON.stringify(plan).replace(/[^ -~]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`),
      },
    });
    const address = answer.headers.get("HX-Redirect");
    if (address) { location.assign(address); return; }
    outcome.innerHTML = await answer.text();
  } catch {
    outcome.textContent = "The file could not be sent: has it changed, or is the console away?";
  }
  outcome.scrollIntoView({ block: "nearest" });
  button.disabled = false;
  document.getElementById("sent").textContent = "";
});
