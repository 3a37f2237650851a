// The topology as a graph: cards that stand still, with numbers in them that change.
import {count, cut, draw, plural, short, span} from "./values.js";

const LETTERS = 26, FACT_LETTERS = 27; // that fit into a card: of its name, which is larger and short, and of a fact

export class GraphView {
  constructor(svg, choose) {
    this.svg = svg;
    this.choose = choose;
  }

  /** Place the cards and arrows, once for a run. */
  place(graph) {
    const margin = 6, width = graph.width + 2 * margin, height = graph.height + 2 * margin;
    this.svg.setAttribute("viewBox", `${-margin} ${-margin} ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    const readable = `${Math.round(width * 0.75)}px`; // smaller could not be read
    this.svg.style.minWidth = readable; // what is wider than the page is scrolled
    this.svg.closest(".graph").style.setProperty("--readable", readable); // what is wider than a part of it has a row
    this.svg.style.maxWidth = `${width}px`;
    const arrows = graph.arrows.map((each) => this.arrow(each));
    this.cards = new Map(graph.cards.map((card) => [card.name, this.card(card)]));
    this.svg.replaceChildren(...arrows, ...[...this.cards.values()].map((card) => card.group));
  }

  arrow({source, target, label, points}) {
    let way = `M${points[0].join(" ")}`;
    for (let at = 1; at < points.length; at += 1) {
      const [x, y] = points[at - 1], [toX, toY] = points[at], middle = (y + toY) / 2;
      way += `C${x} ${middle} ${toX} ${middle} ${toX} ${toY - (at === points.length - 1 ? 6 : 0)}`;
    }
    const [x, y] = points.at(-1);
    return draw("g", {class: "arrow"}, draw("title", {}, `${source} to ${target}${label ? `: ${label}` : ""}`),
      draw("path", {d: way, class: "line"}), draw("path", {d: `M${x - 4.5} ${y - 8}L${x + 4.5} ${y - 8}L${x} ${y}Z`, class: "head"}));
  }

  card({name, kind, facts, x, y, width, height}) {
    const windowed = kind === "windowed";
    const lines = (windowed ? [19, 38, 56, 74, 92] : [20, 40, 58]).map((top, at) =>
      draw("text", {x: 14, y: top, class: at ? "fact" : "name"}));
    lines[0].textContent = cut(name, LETTERS);
    const group = draw("g", {class: `card ${kind}`, transform: `translate(${x} ${y})`},
      draw("title", {}, [name, ...facts].join("\n")),
      draw("rect", {width, height, rx: kind === "spout" || kind === "sink" ? 16 : 6, class: "box"}),
      draw("rect", {width: 5, height: height - 16, x: 0, y: 8, rx: 2.5, class: "edge"}), ...lines);
    if (windowed) {
      group.setAttribute("tabindex", 0);
      group.setAttribute("role", "button");
      group.setAttribute("data-bolt", name);
      group.addEventListener("click", () => this.choose(name));
      group.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        this.choose(name);
      });
    }
    return {group, lines, facts, kind};
  }

  /** Write the numbers. `rates`: rows and events per second, by part. */
  show(view, rates, chosen) {
    if (!this.cards) return;
    for (const [name, card] of this.cards) {
      const words = this.words(name, card, view, rates);
      card.lines.slice(1).forEach((line, at) => {
        if (line.textContent !== (words[at] || "")) line.textContent = words[at] || "";
      });
      const held = view.remarks.some((each) => each.bolt === name && each.severity !== "note");
      card.group.classList.toggle("held", held);
      card.group.classList.toggle("chosen", name === chosen);
      if (card.kind === "windowed") {
        card.group.setAttribute("aria-pressed", name === chosen);
        card.group.setAttribute("aria-label", `bolt ${name}: ${words.join(", ")}`);
      }
    }
  }

  words(name, {kind, facts}, view, rates) {
    if (kind === "spout") {
      const lag = view.now.lag.filter((each) => each.spout === name);
      const behind = lag.reduce((sum, each) => sum + each.behind, 0);
      const rows = (view.spouts[name] || {}).rows || 0;
      const read = rates.live ? `${short(rates.spouts[name] || 0)} rows/s` : plural(rows, "row");
      return [read, lag.length ? (behind ? `${plural(behind, lag[0].unit.slice(0, -1))} behind` : "nothing left to read") : ""];
    }
    if (kind === "sink") {
      const sink = view.sinks.find((each) => each.name === name);
      if (!sink) return [cut(facts[0] || "", FACT_LETTERS)];
      return [cut(sink.kind, FACT_LETTERS), sink.files ? plural(sink.files.count, "file") : ""];
    }
    if (kind !== "windowed") return facts.slice(0, 2).map((fact) => cut(fact, FACT_LETTERS));
    const bolt = view.bolts[name];
    if (!bolt) return facts.slice(0, 2).map((fact) => cut(fact, FACT_LETTERS));
    const events = rates.live ? `${short(rates.bolts[name] || 0)} events/s` : plural(bolt.accounts.received, "event");
    if (bolt.by_event) return [events, `${plural(Object.values(bolt.emitted).reduce((sum, rows) => sum + rows, 0), "row")} emitted`];
    const time = bolt.ended ? "all windows have fired" : timeOf(bolt);
    return [events, `${count(bolt.accounts.pending)} waiting`, `${plural(bolt.fired, "window")} fired`, time];
  }
}

function timeOf(bolt) {
  if (!bolt.event_time) return "by the clock";
  if (bolt.per_key) return "time of each key";
  if (bolt.watermark === null) return "no watermark yet";
  return bolt.delay === null || bolt.delay > 86400e6 ? "time of old input" : `time ${span(Math.max(bolt.delay, 0))} behind`;
}
