// SPDX-License-Identifier: Apache-2.0
/* What the scripts of both pages use (report_page.html, search_page.html, at the mark COMMON):
 * elements, numbers, names of models, and marks of a precision's color. */
const at = (id) => document.getElementById(id);
const count = (n) => n.toLocaleString("en");

// Names are a model's: what would hide or reorder what is beside it is shown as its number.
const hidden =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const shown = (text) => String(text).replace(hidden,
  (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

function make(tag, parent, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = shown(text);
  if (name) element.className = name;
  if (parent) parent.append(element);
  return element;
}

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (bytes >= 1000 && i < units.length - 1) { bytes /= 1000; i++; }
  return (i && bytes < 10 ? bytes.toFixed(2) : i ? bytes.toFixed(1) : bytes) + " " + units[i];
}

function card(value, text, bad) {
  const box = make("div", at("cards"), undefined, bad ? "card bad" : "card");
  make("b", box, value);
  make("span", box, text);
  at("cards").style.setProperty("--cards", at("cards").childElementCount);
}

/* Precisions are called as a search's candidates; page_palette.c has a color for each. */
function dot(parent, precision) {
  make("i", parent, undefined, "dot").style.background = "var(--" + precision + ", var(--other))";
}
function pill(parent, precision, text) {
  const box = make("span", parent, undefined, "pill");
  dot(box, precision);
  box.append(shown(text));
}

/* What four of five names or more begin with, up to a separator: it tells them apart from nothing.
 * The same as common_prefix in search_draw.c. */
function commonPrefix(names) {
  const LEAST = 4;
  let prefix = "";
  while (names.length > 1) {
    const found = new Map();
    for (const name of names) {
      if (!name.startsWith(prefix)) continue;
      const part = /^[^/.:]*[/.:]+(?=.)/.exec(name.slice(prefix.length));
      if (part) found.set(part[0], (found.get(part[0]) || 0) + 1);
    }
    const [part, number] = [...found].reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
    if (number < 0.8 * names.length || !part) break;
    prefix += part;
  }
  return prefix.length < LEAST ? "" : prefix;
}
const without = (name, prefix) =>
  prefix && name.startsWith(prefix) ? "\u2026" + name.slice(prefix.length) : name;
const saysPrefix = (prefix) => (prefix ? "\u2026 stands for " + prefix : "");
