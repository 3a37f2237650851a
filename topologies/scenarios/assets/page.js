// Steps through the pictures of a replay. All that it shows is in the page already: it only hides what has not happened
// yet, tells the story of a row, and keeps what was chosen in the address, so that a reload shows the same.
"use strict";

const ROW = 24;
const SPEED = 700; // milliseconds between two steps of a run that plays

class Picture {
  constructor(element, changed) {
    this.element = element;
    this.changed = changed;
    this.chart = element.querySelector(".chart");
    this.plot = element.querySelector(".plot");
    this.stories = [...element.querySelectorAll(".all li")];
    this.last = this.stories.length - 1;
    this.row = this.last; // what has happened
    this.chosen = null; // the row whose story is told, if it is another one
    this.scale = 1;
    this.timer = null;
    this.slider = element.querySelector(".moment");
    this.by = element.querySelector(".by");
    this.index();
    this.listen();
    this.show();
  }

  index() {
    this.byRow = new Map(); // row -> what is drawn in it
    for (const drawn of this.element.querySelectorAll(".plot [data-row]:not(.box), .labels [data-row]")) {
      const row = Number(drawn.dataset.row);
      if (!this.byRow.has(row)) this.byRow.set(row, []);
      this.byRow.get(row).push(drawn);
    }
    this.boxes = new Map(); // number of a window -> its box
    for (const box of this.element.querySelectorAll(".plot .box")) {
      for (const number of box.dataset.windows.split(" ").filter(Boolean)) this.boxes.set(number, box);
    }
    this.events = new Map(); // id of an event -> its marks
    for (const event of this.element.querySelectorAll(".plot .event")) {
      const name = event.dataset.event;
      if (!this.events.has(name)) this.events.set(name, []);
      this.events.get(name).push(event);
    }
    this.firings = [...this.element.querySelectorAll(".plot .firing")].map((drawn) => ({
      drawn, box: this.boxes.get(drawn.dataset.window), names: new Set(JSON.parse(drawn.dataset.events)),
    }));
  }

  listen() {
    const doing = {
      first: () => this.go(0), back: () => this.step(-1), next: () => this.step(1), last: () => this.go(this.last),
      play: () => this.play(), smaller: () => this.zoom(this.scale / 1.25), larger: () => this.zoom(this.scale * 1.25),
      fit: () => this.fit(),
    };
    this.element.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) return doing[button.dataset.do]();
      const to = event.target.closest(".to");
      if (to) return this.goTo(Number(to.dataset.row));
      const drawn = event.target.closest(".chart [data-row]");
      if (drawn) this.choose(Number(drawn.dataset.row));
    });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.by.addEventListener("change", () => this.changed());
    this.chart.addEventListener("pointerover", (event) => {
      const drawn = event.target.closest("[data-row]");
      if (event.pointerType !== "touch") this.tell(drawn ? Number(drawn.dataset.row) : this.chosen);
    });
    this.chart.addEventListener("pointerleave", () => this.tell(this.chosen));
    this.chart.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.chosen === null ? this.row : this.chosen;
    const keys = {
      ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1), Home: () => this.go(0),
      End: () => this.go(this.last), " ": () => this.play(), "+": () => this.zoom(this.scale * 1.25),
      "-": () => this.zoom(this.scale / 1.25), "0": () => this.fit(), Escape: () => this.choose(null),
      ArrowUp: () => this.choose(Math.min(at + 1, this.row)), ArrowDown: () => this.choose(Math.max(at - 1, 0)),
      PageDown: () => this.step(1, "batch"), PageUp: () => this.step(-1, "batch"),
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  }

  // -- time

  stop() {
    if (this.timer) clearInterval(this.timer);
    this.timer = null;
    this.element.querySelector("[data-do=play]").textContent = "▶ play";
  }

  play() {
    if (this.timer) return this.stop();
    if (this.row >= this.last) this.go(0);
    this.element.querySelector("[data-do=play]").textContent = "❚❚ pause";
    this.timer = setInterval(() => {
      this.step(1, this.by.value, true);
      if (this.row >= this.last) this.stop();
    }, SPEED);
  }

  step(by, unit = this.by.value, playing = false) {
    let row = this.row + by;
    if (unit === "batch") {
      const ends = (at) => at === this.last || this.stories[at].dataset.batch !== this.stories[at + 1].dataset.batch;
      while (row > 0 && row < this.last && !ends(row)) row += by;
    }
    this.go(row, playing);
  }

  go(row, playing = false) {
    if (!playing) this.stop();
    this.row = Math.min(Math.max(row, 0), this.last);
    this.chosen = null;
    this.show();
    this.reveal(this.row);
    this.changed();
  }

  goTo(row) {
    this.stop();
    if (row > this.row) this.row = row;
    this.show();
    this.choose(row);
  }

  show() {
    const top = this.row >= this.last ? 0 : (this.last - this.row) * ROW + ROW / 2;
    for (const clip of this.element.querySelectorAll(".upto")) {
      const height = Number(clip.closest("svg").dataset.height);
      clip.setAttribute("y", top);
      clip.setAttribute("height", height - top);
    }
    const now = this.element.querySelector(".now");
    now.setAttribute("transform", `translate(0 ${top})`);
    now.style.display = this.row >= this.last ? "none" : "";
    this.slider.value = this.row;
    this.slider.setAttribute("aria-valuetext", `${this.row + 1} of ${this.last + 1}`);
    this.tell(null);
  }

  // -- stories

  choose(row) {
    this.chosen = row;
    this.tell(row);
    if (row !== null) this.reveal(row);
    this.changed();
  }

  tell(row) {
    const at = row === null ? this.row : row;
    const story = this.stories[at];
    if (!story || this.told === `${at} ${row}`) return;
    this.told = `${at} ${row}`;
    this.element.querySelector(".when").textContent = `row ${at + 1} of ${this.last + 1}, batch ${story.dataset.batch}`;
    this.element.querySelector(".what").textContent = story.textContent;
    for (const drawn of this.element.querySelectorAll(".hot, .chosen")) drawn.classList.remove("hot", "chosen");
    const here = this.byRow.get(at) || [];
    const still = row === null && this.row >= this.last; // nothing is singled out in the whole picture
    let related = false;
    for (const drawn of still ? [] : here) {
      drawn.classList.add("chosen", "hot");
      if (drawn.matches(".event")) related = this.mark((firing) => firing.names.has(drawn.dataset.event)) || related;
      if (drawn.matches(".firing")) related = this.mark((firing) => firing.drawn === drawn, true) || related;
    }
    this.plot.classList.toggle("focused", related && row !== null);
  }

  mark(wanted, withEvents = false) {
    let found = false;
    for (const firing of this.firings) {
      if (!wanted(firing)) continue;
      found = true;
      firing.drawn.classList.add("hot");
      if (firing.box) firing.box.classList.add("hot");
      for (const name of withEvents ? firing.names : []) {
        for (const event of this.events.get(name) || []) event.classList.add("hot");
      }
    }
    return found;
  }

  // -- room

  zoom(scale) {
    this.scale = Math.min(Math.max(scale, 0.005), 4);
    for (const part of this.chart.querySelectorAll(".sheet svg")) {
      part.setAttribute("width", Math.max(part.dataset.width * this.scale, 1));
      part.setAttribute("height", Math.max(part.dataset.height * this.scale, 1));
    }
    this.reveal(this.chosen === null ? this.row : this.chosen);
    this.changed();
  }

  usual() { // a small picture fills its room, a large one is read at the size of text
    const width = ["labels", "plot"].reduce((sum, name) => sum + Number(this.chart.querySelector(`.${name}`).dataset.width), 0);
    return Math.min(Math.max((this.chart.clientWidth - 2) / width, 1), 1.35);
  }

  fit() {
    const size = { width: 0, height: 0 };
    for (const part of this.chart.querySelectorAll(".labels, .plot")) size.width += Number(part.dataset.width);
    for (const part of this.chart.querySelectorAll(".plot, .bottom")) size.height += Number(part.dataset.height);
    const most = parseFloat(getComputedStyle(this.chart).maxHeight) || this.chart.clientHeight;
    this.zoom(Math.min((this.chart.clientWidth - 4) / size.width, (most - 4) / size.height, 1.6));
  }

  reveal(row) {
    const drawn = (this.byRow.get(row) || []).find((each) => each.closest(".plot"));
    const label = Number(this.chart.querySelector(".labels").getAttribute("width"));
    const y = (this.last - row) * ROW * this.scale;
    const view = this.chart;
    const room = view.clientHeight - 60;
    if (y < view.scrollTop + 40 || y > view.scrollTop + room - 40) view.scrollTop = y - room / 2;
    if (!drawn || drawn.matches(".tick-row")) return;
    const box = drawn.getBBox();
    const left = box.x * this.scale, right = (box.x + box.width) * this.scale;
    const wide = view.clientWidth - label;
    if (left < view.scrollLeft + 10 || right > view.scrollLeft + wide - 10) {
      view.scrollLeft = right - left > wide ? left - 20 : (left + right) / 2 - wide / 2;
    }
  }
}

class Page {
  constructor() {
    this.articles = [...document.querySelectorAll(".scenario")];
    this.pictures = new Map();
    this.choice = document.getElementById("choice");
    this.theme();
    this.tabs();
    if (this.choice) this.choice.addEventListener("change", () => this.open(Number(this.choice.value), 0));
    const kept = new URLSearchParams(location.hash.slice(1));
    this.open(Number(kept.get("scenario")) || 0, Number(kept.get("bolt")) || 0, kept);
    window.addEventListener("hashchange", () => {
      const asked = new URLSearchParams(location.hash.slice(1));
      this.open(Number(asked.get("scenario")) || 0, Number(asked.get("bolt")) || 0, asked);
    });
  }

  theme() {
    const switched = document.getElementById("theme");
    const keep = (work) => { try { return work(); } catch { return null; } }; // files may have no storage
    const use = (value) => {
      if (value) document.documentElement.dataset.theme = value;
      else delete document.documentElement.dataset.theme;
    };
    switched.value = keep(() => localStorage.getItem("windbolt-theme")) || "";
    use(switched.value);
    switched.addEventListener("change", () => {
      use(switched.value);
      keep(() => localStorage.setItem("windbolt-theme", switched.value));
    });
  }

  tabs() {
    for (const list of document.querySelectorAll("[role=tablist]")) {
      const tabs = [...list.querySelectorAll("[role=tab]")];
      tabs.forEach((tab, at) => {
        tab.addEventListener("click", () => this.open(this.scenario, at));
        tab.addEventListener("keydown", (event) => {
          const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!by) return;
          event.preventDefault();
          const next = (at + by + tabs.length) % tabs.length;
          tabs[next].focus();
          this.open(this.scenario, next);
        });
      });
    }
  }

  open(scenario, bolt, kept = null) {
    if (this.picture) this.picture.stop();
    this.scenario = Math.min(scenario, this.articles.length - 1);
    const article = this.articles[this.scenario];
    this.articles.forEach((each) => { each.hidden = each !== article; });
    if (this.choice) this.choice.value = this.scenario;
    const panels = [...article.querySelectorAll(".picture")];
    this.bolt = Math.min(bolt, Math.max(panels.length - 1, 0));
    panels.forEach((panel, at) => { panel.hidden = at !== this.bolt; });
    article.querySelectorAll("[role=tab]").forEach((tab, at) => {
      tab.setAttribute("aria-selected", at === this.bolt);
      tab.tabIndex = at === this.bolt ? 0 : -1;
    });
    this.picture = panels.length ? this.pictureOf(panels[this.bolt]) : null;
    if (this.picture && kept) this.restore(kept);
    else if (this.picture) this.picture.zoom(this.picture.usual());
    this.keep();
  }

  pictureOf(panel) {
    if (!this.pictures.has(panel)) this.pictures.set(panel, new Picture(panel, () => this.keep()));
    return this.pictures.get(panel);
  }

  restore(kept) {
    const picture = this.picture;
    if (kept.has("by")) picture.by.value = kept.get("by");
    picture.zoom(Number(kept.get("zoom")) || picture.usual());
    const chosen = kept.has("row") ? Number(kept.get("row")) : null;
    picture.go(kept.has("at") ? Number(kept.get("at")) : picture.last);
    if (chosen !== null) picture.choose(Math.min(chosen, picture.last));
  }

  keep() {
    if (!this.picture) return;
    const kept = new URLSearchParams({ scenario: this.scenario, bolt: this.bolt });
    if (this.picture.row < this.picture.last) kept.set("at", this.picture.row);
    if (this.picture.chosen !== null) kept.set("row", this.picture.chosen);
    if (this.picture.by.value !== "row") kept.set("by", this.picture.by.value);
    if (this.picture.scale !== this.picture.usual()) kept.set("zoom", this.picture.scale.toFixed(3));
    history.replaceState(null, "", `#${kept}`);
  }
}

new Page();
