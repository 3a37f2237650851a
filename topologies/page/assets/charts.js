// Stacked bars over time. Each is a picture with a text that says the same, and is read bar by bar with the pointer or
// the arrow keys.
import {draw, make} from "./values.js";

const HEIGHT = 150, LEFT = 52, BOTTOM = 18, TOP = 8;

export class Bars {
  /** `parts`: [name, class] from the bottom up. `tell`: a bar as text; `scale`: a value on the axis as text; `rest`: which
   * bar is told while none is chosen. */
  constructor(label, parts, tell, scale, rest = "last") {
    this.parts = parts;
    this.tell = tell;
    this.scale = scale;
    this.rest = rest;
    this.bars = [];
    this.chosen = null;
    this.svg = draw("svg", {class: "bars", tabindex: 0, role: "img", "aria-label": label, height: HEIGHT});
    this.said = make("p", {class: "said", "aria-live": "off"});
    this.element = make("div", {class: "chart"}, this.svg, this.said);
    this.label = label;
    new ResizeObserver(() => this.paint()).observe(this.element);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.choose(null));
    this.svg.addEventListener("blur", () => this.choose(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  /** `bars`: {values: by part, from: text of its beginning}. */
  show(bars) {
    this.bars = bars;
    if (this.chosen !== null && this.chosen >= bars.length) this.chosen = null;
    this.paint();
  }

  paint() {
    const width = this.element.clientWidth;
    if (!width) return;
    const wide = width - LEFT - 4, high = HEIGHT - BOTTOM - TOP;
    const total = (bar) => this.parts.reduce((sum, [name]) => sum + (bar.values[name] || 0), 0);
    const most = Math.max(...this.bars.map(total), 0);
    const top = rounded(most);
    const step = Math.min(wide / Math.max(this.bars.length, 1), 22);
    this.place = (index) => LEFT + index * step;
    this.step = step;
    const drawn = [draw("line", {x1: LEFT, x2: width, y1: TOP + high, y2: TOP + high, class: "base"})];
    for (const share of most ? [0.5, 1] : []) {
      const y = TOP + high * (1 - share);
      drawn.push(draw("line", {x1: LEFT, x2: width, y1: y, y2: y, class: "rule"}));
      drawn.push(draw("text", {x: LEFT - 6, y: y + 4, class: "axis end"}, this.scale(top * share)));
    }
    this.bars.forEach((bar, index) => {
      let y = TOP + high;
      for (const [name, kind] of this.parts) {
        const tall = top ? ((bar.values[name] || 0) / top) * high : 0;
        if (!tall) continue;
        y -= tall;
        const shown = {x: this.place(index), y, width: Math.max(step - (step > 4 ? 1 : 0), 0.6), height: Math.max(tall, 0.8)};
        drawn.push(draw("rect", {...shown, class: `part ${kind}`}));
      }
    });
    if (this.bars.length) {
      drawn.push(draw("text", {x: LEFT, y: HEIGHT - 4, class: "axis"}, this.bars[0].from));
      if (this.bars.length * step > 260) {
        const x = this.place(this.bars.length);
        drawn.push(draw("text", {x, y: HEIGHT - 4, class: "axis end"}, this.bars.at(-1).from));
      }
    }
    this.cursor = draw("rect", {class: "cursor", y: TOP - 4, height: high + 4, width: Math.max(step, 2), hidden: true});
    this.svg.replaceChildren(...drawn, this.cursor);
    this.svg.setAttribute("width", width);
    this.choose(this.chosen);
  }

  choose(index) {
    this.chosen = index;
    const bar = index === null ? this.bars.at(this.rest === "last" ? -1 : 0) : this.bars[index];
    this.said.textContent = bar ? this.tell(bar) : "nothing yet";
    this.svg.setAttribute("aria-label", `${this.label}. ${this.said.textContent}`);
    if (!this.cursor) return;
    this.cursor.toggleAttribute("hidden", index === null);
    if (index !== null) this.cursor.setAttribute("x", this.place(index));
  }

  point(event) {
    const index = Math.floor((event.clientX - this.svg.getBoundingClientRect().left - LEFT) / this.step);
    this.choose(index >= 0 && index < this.bars.length ? index : null);
  }

  key(event) {
    const last = this.bars.length - 1, at = this.chosen === null ? last : this.chosen;
    const to = {
      ArrowLeft: this.chosen === null ? last : at - 1, ArrowRight: at + 1, Home: 0, End: last,
      PageUp: at - 10, PageDown: at + 10,
    };
    if (event.key === "Escape") return this.choose(null);
    if (!(event.key in to) || last < 0) return;
    event.preventDefault();
    this.choose(Math.min(Math.max(to[event.key], 0), last));
  }
}

/** What the colours mean, with a text for each. */
export function legend(parts) {
  return make("ul", {class: "legend"}, parts.map(([name, kind, text]) =>
    make("li", {}, make("span", {class: `swatch ${kind}`}), make("span", {}, `${name} `, make("b", {}, text)))));
}

/** A line of values, without axes, for a tile. */
export function spark(values) {
  const most = Math.max(...values, 0), wide = 100, high = 22;
  if (values.length < 2 || !most) return null;
  const way = values.map((value, at) => `${((at / (values.length - 1)) * wide).toFixed(1)} ${(high - 1 - (value / most) * (high - 3)).toFixed(1)}`);
  return draw("svg", {class: "spark", viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", "aria-hidden": "true"},
    draw("polyline", {points: way.join(" ")}));
}

function rounded(most) {
  if (!most) return 0;
  const size = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((each) => each * size).find((each) => each >= most);
}
