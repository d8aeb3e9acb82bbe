// Long code in a text or in a table may be broken after a sign that ends a part of it, such as / or _, and nowhere else.
// On a telephone, shorter code may be broken there, too: see tables.css. An option such as --name keeps its hyphens.
// A copy of the text has no other characters.
const SHORT = 10;
const LONG = 24;
const END_OF_A_PART = /(?<=[/_.=,:(|]|[\p{L}\p{N}]-)(?![/_.=,:(|-])/u;
const OPTION = /(--[\p{L}\p{N}]+)/u;

function element(tag, name, text) {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
}

for (const code of document.querySelectorAll("article :not(pre) > code")) {
  const length = code.textContent.length;
  for (const text of [...code.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE)) {
    const parts = length > SHORT ? text.data.split(END_OF_A_PART) : [text.data];
    const made = parts.flatMap((part, place) => [
      ...(place ? [element("wbr", length > LONG ? "" : "on-a-telephone", "")] : []),
      ...part.split(OPTION).map((each, odd) => (odd % 2 ? element("span", "option", each) : each)),
    ]);
    text.replaceWith(...made);
  }
}
