// Shows /openapi.json. Everything from it is put in as text, never as markup.
"use strict";

const METHODS = ["get", "post", "put", "delete"];

function made(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function resolved(schema, all, depth = 0) {
  if (!schema) return "anything";
  if (depth > 12) return "…";
  if (schema.$ref) return resolved(all[schema.$ref.split("/").pop()], all, depth + 1);
  if (schema.type === "array") return [resolved(schema.items, all, depth + 1)];
  const either = schema.anyOf || schema.oneOf;
  if (either) return either.map((one) => briefly(resolved(one, all, depth + 1))).join(" | ");
  if (schema.properties) {
    const shown = {};
    for (const [name, one] of Object.entries(schema.properties)) {
      const star = (schema.required || []).includes(name) ? "" : "?";
      shown[name + star] = resolved(one, all, depth + 1);
    }
    return shown;
  }
  if (schema.enum) return schema.enum.join(" | ");
  return schema.type || "anything";
}

function briefly(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function example(title, content, all) {
  const part = made("div");
  for (const [media, one] of Object.entries(content || {})) {
    part.append(made("h4", `${title}: ${media}`));
    part.append(made("pre", JSON.stringify(resolved(one.schema, all), null, 2)));
  }
  return part;
}

function parameters(list) {
  const table = made("table");
  for (const one of list) {
    const row = made("tr");
    row.append(made("td", one.name + (one.required ? "" : "?")), made("td", one.in), made("td", one.description || ""));
    table.append(row);
  }
  return table;
}

function operation(method, path, one, all) {
  const box = made("details");
  const line = made("summary");
  line.append(made("b", method.toUpperCase(), method), made("code", path), made("span", one.summary || ""));
  box.append(line);
  box.dataset.words = `${method} ${path} ${one.summary || ""} ${one.description || ""}`.toLowerCase();
  if (one.description) box.append(made("p", one.description));
  if (one.parameters && one.parameters.length) box.append(parameters(one.parameters));
  if (one.requestBody) box.append(example("reads", one.requestBody.content, all));
  for (const [status, answer] of Object.entries(one.responses || {})) {
    if (status !== "default") box.append(example(`gives ${status}`, answer.content, all));
  }
  return box;
}

function show(api) {
  const all = (api.components || {}).schemas || {};
  const groups = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS) {
      if (!item[method]) continue;
      const tag = (item[method].tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(method, path, item[method], all));
    }
  }
  const main = document.getElementById("routes");
  for (const [tag, boxes] of groups) {
    const section = made("section");
    section.append(made("h2", tag), ...boxes);
    main.append(section);
  }
  document.getElementById("about").textContent = `${api.info.title} ${api.info.version}. Errors are application/problem+json.`;
}

function find(words) {
  for (const box of document.querySelectorAll("details")) box.hidden = !box.dataset.words.includes(words);
  for (const section of document.querySelectorAll("section")) {
    section.hidden = ![...section.querySelectorAll("details")].some((box) => !box.hidden);
  }
}

document.getElementById("find").addEventListener("input", (event) => find(event.target.value.trim().toLowerCase()));
fetch("/openapi.json", { credentials: "same-origin" })
  .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(`HTTP ${answer.status}`))))
  .then(show)
  .catch((problem) => { document.getElementById("about").textContent = `The description cannot be read: ${problem.message}`; });
