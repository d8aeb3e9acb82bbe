"use strict";
const formulas = JSON.parse(document.getElementById("formulas").textContent);
const inputs = [...document.querySelectorAll("input[data-name]")];
// The formulas are the page's own: names, numbers, + - * / and ceil().
function workOut() {
  const values = new Map(inputs.map((input) => [input.dataset.name, Math.max(0, Number(input.value))]));
  for (const { name, text } of formulas) {
    values.set(name, arithmetic(text, values));
    document.querySelector(`output[data-name="${name}"]`).textContent = shown(values.get(name));
  }
}
function arithmetic(text, values) {
  const tokens = text.match(/[A-Za-z_]\w*|[\d.]+(?:e[-+]?\d+)?|[-+*/()]/g);
  let at = 0;
  const sum = () => {
    let value = product();
    while (tokens[at] === "+" || tokens[at] === "-") value = tokens[at++] === "+" ? value + product() : value - product();
    return value;
  };
  const product = () => {
    let value = single();
    while (tokens[at] === "*" || tokens[at] === "/") value = tokens[at++] === "*" ? value * single() : value / single();
    return value;
  };
  const single = () => {
    const token = tokens[at++];
    if (token === "(" || token === "ceil") {
      if (token === "ceil") at += 1;
      const value = sum();
      at += 1;
      return token === "ceil" ? Math.ceil(value) : value;
    }
    return values.has(token) ? values.get(token) : Number(token);
  };
  return sum();
}
function shown(value) {
  if (!Number.isFinite(value) || value < 0) return "–";
  return value.toLocaleString("en-US", value >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 });
}
for (const input of inputs) input.addEventListener("input", workOut);
