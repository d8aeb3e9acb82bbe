// Long code in a text or in a table may be broken after a sign that ends a part of it, such as / or _, and nowhere else.
// On a telephone, shorter code may be broken there, too: see tables.css. A copy of the text has no other characters.
const SHORT = 10;
const LONG = 24;

for (const code of document.querySelectorAll("article :not(pre) > code")) {
  const length = code.textContent.length;
  if (length <= SHORT) continue;
  for (const text of [...code.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE)) {
    const [first, ...others] = text.data.split(/(?<=[/_.=,:(|-])(?![/_.=,:(|-])/);
    const breaks = others.flatMap((part) => {
      const place = document.createElement("wbr");
      place.className = length > LONG ? "" : "on-a-telephone";
      return [place, part];
    });
    text.replaceWith(first, ...breaks);
  }
}
