// Numbers, times and durations as text, and elements of the page. All that comes from a run is set as text, never as
// markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; strings among the children are text. */
export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same, of SVG. */
export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Replace what is in an element, where that has changed; so focus and selections stay. */
export function fill(element, key, build) {
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  const focus = element.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  element.replaceChildren(...[build()].flat().filter((child) => child !== null && child !== ""));
  if (focus) element.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({preventScroll: true});
}

export const count = (value) => Math.round(value).toLocaleString("en-US");

/** A number short enough for a tile: 1,234, 56.1k, 7.8M. */
export function short(value) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (value >= size) return `${(value / (unit === "k" ? 1e3 : size)).toPrecision(3)}${unit}`;
  }
  return value > 0 && value < 10 ? String(Number(value.toPrecision(2))) : count(value);
}

const UNITS = [[86400e6, "d"], [3600e6, "h"], [60e6, "m"], [1e6, "s"]];

/** A duration in microseconds, in its two largest units. */
export function span(micros) {
  if (micros < 0) return `-${span(-micros)}`;
  if (micros < 1e3) return micros ? `${Math.round(micros)} µs` : "0 s";
  if (micros < 1e6) return `${Number((micros / 1e3).toPrecision(3))} ms`;
  if (micros < 60e6) return `${Number((micros / 1e6).toPrecision(3))} s`;
  const at = UNITS.findIndex(([size]) => micros >= size);
  const [size, unit] = UNITS[at];
  const [smaller, small] = UNITS[at + 1];
  const rest = Math.floor((micros % size) / smaller);
  return `${Math.floor(micros / size)} ${unit}${rest ? ` ${rest} ${small}` : ""}`;
}

/** A time in microseconds as text of UTC: with its day, if that is not `day`. */
export function time(micros, day = null) {
  if (micros === null || micros === undefined) return "–";
  const text = new Date(Math.floor(micros / 1000)).toISOString();
  const rest = text.slice(11, 23).replace(/\.000$/, "");
  return day !== null && dayOf(day) === dayOf(micros) ? rest : `${text.slice(0, 10)} ${rest}`;
}

/** The time of day to the second, for axes. */
export const clock = (micros) => new Date(Math.floor(micros / 1000)).toISOString().slice(11, 19);

const dayOf = (micros) => Math.floor(micros / 86400e6);

/** How long ago something was, in words. */
export const ago = (then, now) => (now - then < 1.5e6 ? "just now" : `${span(now - then)} ago`);

export function bytes(value) {
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return `${value} B`;
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
