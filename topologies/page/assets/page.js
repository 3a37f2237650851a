// Asks the run how it is, once a second while somebody looks, and shows it. What is chosen is kept in the address, so a
// reload shows the same.
import {GraphView} from "./graph.js";
import {accountBars, accountsPanel, phaseBars, phasesPanel, policiesPanel, ratesOf, runsPanel, sinksPanel, tiles, timePanel, turnedPanel, windowBars, windowsPanel} from "./panels.js";
import {ago, fill, make, span, time} from "./values.js";

const OFTEN = 1000, SELDOM = 5000; // milliseconds between two questions, while it runs and after the end
const POINTS = 1200;
const $ = (selector) => document.querySelector(selector);
const WORDS = {
  starting: ["starting", "Starting: its state is being restored."], running: ["good", "Running."],
  stalled: ["bad", "Stalled: the batch in hand takes far longer than those before it."],
  checkpoint: ["done", "From the checkpoint: no end of the last run is noted: it is running, or it died."],
  finished: ["done", "Finished."], stopped: ["done", "Stopped. Its windows are open for the next run."],
  failed: ["bad", "Failed."],
  "taken over": ["held", "Taken over: another run has the checkpoint now, and continues with it. This run has ended, and nothing is lost."],
  restarting: ["held", "Failed, and starts again by itself: from its checkpoint, so nothing is lost."],
};

/** A text whose times are not broken at their hyphens. */
const unbroken = (words) => words.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/).map((part, at) => (at % 2 ? make("span", {class: "when"}, part) : part));

class RunView {
  constructor() {
    this.view = null;
    this.chosen = {topology: "", bolt: "", marks: false};
    this.heard = null;
    this.graph = new GraphView($("#graph"), (name) => this.choose(name));
    this.charts = {accounts: accountBars(), phases: phaseBars(), windows: windowBars()};
    this.readAddress();
    this.listen();
    this.ask();
  }

  // -- the run

  async ask() {
    clearTimeout(this.timer);
    let pause = OFTEN;
    try {
      const known = this.view;
      const query = new URLSearchParams({topology: this.chosen.topology, version: known?.version || "", after: known?.points.at(-1)?.n ?? -1});
      const answer = await fetch(`state?${query}`, {cache: "no-store"});
      const state = await answer.json();
      if (answer.ok) this.take(state);
      else if (answer.status === 404 && this.chosen.topology) this.forget();
      this.heard = Date.now();
      this.lost = answer.ok ? null : `${state.error.what}: ${state.error.why}.`;
      const live = ["running", "starting", "stalled", "restarting"].includes(this.view?.now.state);
      pause = live && answer.ok ? OFTEN : SELDOM;
    } catch {
      this.lost = "No answer: the process of the run has ended, or cannot be reached." + (this.heard ? ` This is its state of ${time(this.heard * 1000)} UTC.` : "");
      pause = 2 * OFTEN;
    }
    this.show();
    if (!document.hidden) this.timer = setTimeout(() => this.ask(), pause);
  }

  take(state) {
    const before = this.view && this.view.run === state.run ? this.view : null;
    const points = [...(before?.points || []), ...(state.points || [])];
    this.view = {
      bolts: {}, batches: [], rejected_events: [], complaints: [], remarks: [], sinks: [], spouts: {}, runs: [],
      ...before, ...state, points: thinned(points),
    };
    if (state.graph) this.graph.place(state.graph);
    if (!(this.chosen.bolt in this.view.bolts)) this.chosen.bolt = this.worst();
  }

  forget() {
    this.chosen.topology = "";
    this.view = null;
  }

  /** The bolt that one wants to see first: one of which there is something to say. */
  worst() {
    const names = Object.keys(this.view.bolts);
    return this.view.remarks.find((each) => each.bolt in this.view.bolts && each.severity !== "note")?.bolt || names[0] || "";
  }

  // -- what is shown

  show() {
    $(".link").textContent = this.lost || "";
    $(".link").classList.toggle("lost", Boolean(this.lost));
    document.body.classList.toggle("stale", Boolean(this.lost));
    const {view} = this;
    if (!view) return this.title("windbolt", "starting", this.lost || "Waiting for the run.");
    const rates = ratesOf(view), key = `${view.version} ${rates.live}`;
    this.banner();
    fill($("#tiles"), `${key} ${Math.round(view.now.clock / 1e6)} ${JSON.stringify(view.now.lag)}`, () => tiles(view, rates));
    this.graph.show(view, rates, this.chosen.bolt);
    this.choices();
    this.ofBolt(key);
    fill($("#phases"), key, () => phasesPanel(view, this.charts.phases));
    fill($("#turned"), key, () => turnedPanel(view));
    fill($("#sinks"), `${key} ${JSON.stringify(view.sinks)}`, () => sinksPanel(view));
    fill($("#runs"), key, () => runsPanel(view));
  }

  banner() {
    const {view} = this, {now} = view;
    const [kind, words] = WORDS[now.state] || ["done", now.state];
    const grave = view.remarks.filter((each) => each.severity !== "note");
    const held = kind === "good" && grave.length;
    const well = kind === "good" && !grave.length ? " All is well: nothing holds it." : "";
    this.title(view.topology, held ? "held" : kind, held ? "Running, and something needs a look." : words + well);
    const lines = [...(now.error ? [{severity: now.state === "taken over" ? "warn" : "bad", text: now.error}] : []), ...view.remarks].slice(0, 6);
    fill($(".remarks"), JSON.stringify(lines), () => lines.map((each) => make("li", {class: each.severity}, make("span", {class: "sign", "aria-hidden": "true"}, {bad: "✖", warn: "▲", note: "•"}[each.severity]),
      make("span", {}, each.text), each.bolt ? make("button", {type: "button", "data-focus": each.text, "aria-label": `look at bolt ${each.bolt}`, onclick: () => this.choose(each.bolt)}, "look") : null)));
    const last = view.points.at(-1);
    const parts = [];
    if (now.phase) parts.push(`In hand: ${now.phase}, for ${span(now.phase_seconds * 1e6)}.`);
    if (last) parts.push(`${last.closing ? "The closing" : `Batch ${last.batch}`} was committed ${now.live ? ago(last.at, now.clock) : time(last.at)}.`);
    $(".hand").textContent = parts.join(" ");
  }

  title(name, kind, words) {
    document.title = `${{good: "●", held: "▲", bad: "✖", done: "■", starting: "○"}[kind]} ${name} · windbolt`;
    $("#banner").dataset.kind = this.lost ? "lost" : kind;
    if ($("#title").textContent !== name) $("#title").textContent = name;
    if ($("#banner .state").textContent !== words) $("#banner .state").textContent = words;
  }

  choices() {
    const names = this.view.topologies;
    $(".choice").hidden = names.length < 2;
    fill($("#topology"), JSON.stringify(names), () => names.map((name) => make("option", {value: name}, name)));
    $("#topology").value = this.view.topology;
    const bolts = Object.keys(this.view.bolts);
    fill($("#tabs"), JSON.stringify(bolts), () => bolts.map((name) => make("button", {
      type: "button", role: "tab", "data-tab": name, "data-focus": name, "aria-controls": "bolt", onclick: () => this.choose(name, false)}, name)));
    for (const tab of document.querySelectorAll("[data-tab]")) {
      const chosen = tab.dataset.tab === this.chosen.bolt;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
    }
    $(".of-bolt").hidden = !bolts.length;
  }

  ofBolt(key) {
    const {view} = this, name = this.chosen.bolt, bolt = view.bolts[name];
    if (!bolt) return;
    $("#h-time").textContent = `What holds the time of ${name}`;
    $("#why .key").hidden = !bolt.key.length;
    const minute = Math.floor(view.now.clock / 5e6);
    fill($("#time"), `${key} ${name} ${this.chosen.marks} ${minute}`, () => timePanel(bolt, view.now.clock, this.chosen.marks, () => { this.chosen.marks = !this.chosen.marks; this.show(); }));
    fill($("#windows"), `${key} ${name}`, () => windowsPanel(bolt, this.charts.windows, (end) => this.why(new Date(end / 1000).toISOString().replace("Z", String(Math.round(end % 1000)).padStart(3, "0") + "Z"))));
    $(".policies").hidden = !bolt.open?.policies;
    if (bolt.open?.policies) fill($("#policies"), `${key} ${name}`, () => policiesPanel(bolt));
    fill($("#accounts"), `${key} ${name}`, () => accountsPanel(name, bolt, view.points, this.charts.accounts));
  }

  // -- why

  async why(window) {
    const form = $("#why"), place = form.querySelector(".answer");
    if (window !== undefined) form.elements.window.value = window;
    const query = new URLSearchParams({topology: this.view.topology, bolt: this.chosen.bolt, window: form.elements.window.value.trim(), key: form.elements.key.value.trim()});
    try {
      const answer = await fetch(`why?${query}`, {cache: "no-store"});
      const told = await answer.json();
      const {error} = told;
      place.replaceChildren(...(error
        ? [make("p", {class: "error"}, `${error.what}: ${error.why}. To do: ${error.do}.`)]
        : told.words.map((words, at) => make("p", {class: at ? "" : "lead"}, ...unbroken(words)))));
    } catch {
      place.replaceChildren(make("p", {class: "error"}, "No answer: the process of the run has ended, or cannot be reached."));
    }
  }

  // -- what is chosen

  choose(name, jump = true) {
    if (name !== this.chosen.bolt) {
      $("#why .answer").replaceChildren();
      $("#why").reset();
    }
    Object.assign(this.chosen, {bolt: name, marks: false});
    this.writeAddress();
    this.show();
    if (jump) $(".of-bolt").scrollIntoView({block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"});
  }

  listen() {
    const theme = $("#theme");
    theme.value = document.documentElement.dataset.theme || "";
    theme.addEventListener("change", () => {
      this.theme(theme.value);
      this.writeAddress();
    });
    $("#topology").addEventListener("change", (event) => {
      this.chosen = {topology: event.target.value, bolt: "", marks: false};
      this.view = null;
      this.writeAddress();
      this.ask();
    });
    $("#why").addEventListener("submit", (event) => {
      event.preventDefault();
      this.why();
    });
    $("#tabs").addEventListener("keydown", (event) => {
      const names = Object.keys(this.view.bolts), at = names.indexOf(this.chosen.bolt);
      const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.choose(names[(to + names.length) % names.length], false);
      document.querySelector("[data-tab][aria-selected=true]").focus();
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.ask(); });
    window.addEventListener("hashchange", () => { this.readAddress(); this.show(); });
  }

  theme(value) {
    if (value) document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
  }

  readAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    this.chosen.topology = given.get("topology") || "";
    this.chosen.bolt = given.get("bolt") || this.chosen.bolt;
    this.theme(["light", "dark"].includes(given.get("colours")) ? given.get("colours") : "");
    $("#theme").value = document.documentElement.dataset.theme || "";
  }

  writeAddress() {
    const given = new URLSearchParams();
    for (const [name, value] of [["topology", this.chosen.topology], ["bolt", this.chosen.bolt], ["colours", $("#theme").value]]) if (value) given.set(name, value);
    history.replaceState(null, "", `#${given}`);
  }
}

/** Points at equal distances, but for the latest, which are all kept. */
function thinned(points) {
  const from = points.length - 240;
  let kept = points;
  for (let every = 2; kept.length > POINTS; every *= 2) kept = points.filter((point, at) => at >= from || point.n % every === 0);
  return kept;
}

new RunView();
