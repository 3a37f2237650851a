// What the panels of the page say, each from the state of the run.
import {Bars, legend, spark} from "./charts.js";
import {ago, bytes, clock, count, make, plural, short, span, time} from "./values.js";

const ACCOUNTS = ["windowed", "unwindowed", "late", "dropped", "early", "duplicate", "invalid", "purged"];
const PHASES = ["ingest", "tick", "fire", "compact", "sinks", "commit"];
const OLD = 86400e6; // microseconds: of input that is older the delay by the clock says nothing
const FEW = 12;

// -- numbers at a glance

/** Rows and events per second over the latest batches. */
export function ratesOf(view) {
  const recent = view.batches.slice(-10), none = {live: false, rows: 0, spouts: {}, bolts: {}};
  if (!recent.length || view.now.state !== "running" || view.now.clock - recent.at(-1).at > 30e6) return none;
  const first = recent[0];
  const seconds = Math.max((recent.at(-1).at - first.at) / 1e6 + first.seconds.total, 1e-3);
  const points = view.points.slice(-recent.length - 1);
  const [from, to] = [points[0], points.at(-1)];
  const early = points.length > recent.length; // there is a point before the first batch
  const gained = (now, before) => Math.max(now - (early ? before || 0 : 0), 0) / seconds;
  const spouts = {}, bolts = {};
  for (const [name, rows] of Object.entries(to.spouts)) spouts[name] = gained(rows, from.spouts[name]);
  for (const [name, bolt] of Object.entries(to.bolts)) {
    bolts[name] = gained(bolt.accounts.received || 0, from.bolts[name]?.accounts.received);
  }
  return {live: true, rows: recent.reduce((sum, batch) => sum + batch.rows, 0) / seconds, spouts, bolts};
}

export function tiles(view, rates) {
  const bolts = Object.entries(view.bolts);
  const sum = (account) => bolts.reduce((total, [, bolt]) => total + (bolt.accounts[account] || 0), 0);
  const received = sum("received"), lost = sum("late") + sum("dropped"), invalid = sum("invalid");
  const rows = Object.values(view.spouts).reduce((total, spout) => total + (spout.rows || 0), 0);
  const last = view.batches.at(-1);
  const timed = bolts.filter(([, bolt]) => bolt.delay !== null && !bolt.ended);
  const [worst, held] = timed.reduce((most, each) => (!most[1] || each[1].delay > most[1].delay ? each : most), ["", null]);
  const old = held && held.delay > OLD;
  const behind = view.now.lag.reduce((total, each) => total + each.behind, 0);
  const unit = view.now.lag[0]?.unit || "files";
  const found = [
    ["Input", rates.live ? `${short(rates.rows)}/s` : short(rows), rates.live ? `${plural(rows, "row")} so far` : "rows read",
      spark(view.batches.slice(-40).map((batch) => batch.rows))],
    ["Time is behind", !held ? "–" : old ? "old input" : span(Math.max(held.delay, 0)),
      !held ? (bolts.some(([, bolt]) => bolt.ended) ? "the input has ended" : "no watermark yet") : old ? `at ${time(held.watermark).slice(0, 10)}` : `at most, in ${worst}`,
      spark(delays(view, worst))],
    ["Waiting", short(sum("pending")), "events in no window yet",
      spark(view.points.slice(-40).map((point) => Object.values(point.bolts).reduce((total, bolt) => total + (bolt.accounts.pending || 0), 0)))],
    ["Turned away", received ? `${percent((lost + invalid) / received)}` : "–", `${count(lost)} late, ${count(invalid)} invalid`, null],
    ["Last batch", last ? span(last.seconds.total * 1e6) : "–", last ? `${plural(last.rows, "row")}, ${ago(last.at, view.now.clock)}` : view.now.live ? "none in this process" : "not in a checkpoint",
      spark(view.batches.slice(-40).map((batch) => batch.seconds.total))],
    ["Not read yet", view.now.lag.length ? short(behind) : "–", view.now.lag.length ? unit : "not known", null],
  ];
  return found.map(([label, value, note, line]) =>
    make("div", {class: "tile"}, make("dt", {}, label), make("dd", {class: "value"}, value), make("dd", {class: "note"}, note),
      line ? make("dd", {class: "line"}, line) : null));
}

function delays(view, name) {
  return view.points.slice(-40).filter((point) => point.bolts[name]?.watermark && point.clock)
    .map((point) => Math.max(point.clock - point.bolts[name].watermark, 0));
}

function percent(share) {
  return share === 0 ? "0 %" : share < 0.001 ? "< 0.1 %" : `${Number((share * 100).toPrecision(2))} %`;
}

// -- what holds time

export function timePanel(bolt, now, all, showAll) {
  const words = [make("p", {class: "dim"}, bolt.windows)];
  if (bolt.by_event) return [...words, make("p", {}, "No input holds it, and time passes through.")];
  if (!bolt.event_time) return [...words, make("p", {}, "Its windows follow the clock: no input holds them.")];
  if (bolt.per_key) return [...words, make("p", {}, "Each key has a watermark of its own: a key's window waits for events of that key.")];
  if (bolt.ended) return [...words, make("p", {}, "The streams have ended: all windows that held events have fired.")];
  const parts = [make("b", {}, bolt.watermark === null ? "No watermark yet" : `Watermark ${time(bolt.watermark)}`)];
  if (bolt.delay !== null && bolt.delay <= OLD) parts.push(`, ${span(Math.max(bolt.delay, 0))} behind the clock of the last batch`);
  words.push(make("p", {class: "mark"}, parts));
  const known = bolt.marks.filter((mark) => mark.at !== null);
  const furthest = Math.max(...known.map((mark) => mark.at));
  const most = Math.max(...known.map((mark) => furthest - mark.at), 1);
  const shown = all ? bolt.marks : bolt.marks.slice(0, FEW);
  const partitions = bolt.marks.some((mark) => mark.partition);
  const rows = shown.map((mark) => make("tr", {class: mark.holds ? "holds" : mark.idle ? "idle" : ""},
    make("th", {scope: "row"}, mark.input, mark.origins.length ? make("span", {class: "dim"}, ` from ${mark.origins.join(", ")}`) : ""),
    partitions ? make("td", {}, mark.partition || "–") : null,
    make("td", {class: "n"}, mark.at === null ? "nothing yet" : time(mark.at, bolt.watermark)),
    make("td", {class: "lead"}, mark.at === null ? "" : meter(furthest - mark.at, most)),
    make("td", {class: "wraps"}, mark.holds ? make("span", {class: "tag"}, "◀ holds time") : mark.idle ? "idle" : "",
      mark.since !== null && mark.since !== undefined ? make("span", {class: "dim"}, ` ${mark.since_exactly ? "last event" : "moved"} ${ago(mark.since, now)}`) : "")));
  const head = ["input", partitions ? "partition" : null, "watermark", "behind the furthest", ""].filter((each) => each !== null);
  words.push(make("div", {class: "scroll", tabindex: 0, "aria-label": "watermarks of the inputs"}, make("table", {class: "marks"}, make("thead", {}, make("tr", {}, head.map((each) => make("th", {scope: "col"}, each)))), make("tbody", {}, rows))));
  const more = bolt.marks.length - shown.length;
  if (more > 0 || all) {
    words.push(make("button", {type: "button", "data-focus": "marks", onclick: showAll}, all ? `show the ${FEW} furthest behind` : `show ${count(more)} more, less far behind`));
  }
  if (bolt.more_marks) words.push(make("p", {class: "dim"}, `${count(bolt.more_marks)} more are less far behind.`));
  return words;
}

function meter(value, most) {
  const bar = make("span", {class: "meter", "aria-hidden": "true"}, make("span", {}));
  bar.firstChild.style.width = `${Math.max((value / most) * 100, value ? 2 : 0)}%`;
  return [bar, make("span", {class: "by"}, value ? span(value) : "furthest")];
}

// -- open windows

export function windowsPanel(bolt, chart, why) {
  const open = bolt.open;
  if (bolt.by_event) return [make("p", {}, "It has none: each event is given to it as it comes.")];
  if (!open) return [make("p", {class: "dim"}, "Nothing is known of them yet.")];
  if (open.by_trigger) {
    const due = open.next === null ? "None is due by the clock." : `The next is due by the clock at ${time(open.next)}.`;
    return [make("p", {}, `${plural(open.waiting, "key has", "keys have")} an open window, fired by a trigger. ${due}`)];
  }
  if (open.policies) {
    const waiting = bolt.accounts.pending;
    return [make("p", {}, waiting ? `${plural(waiting, "event waits", "events wait")}; what their windows hold is known when they fire.` : "None: no event waits.")];
  }
  if (open.windows === null) {
    const waiting = bolt.accounts.pending;
    if (!waiting) return [make("p", {}, "None: no event waits.")];
    const end = open.next === null ? "" : ` None ends before ${time(open.next)}.`;
    return [make("p", {}, open.rows > 200000 ? `${plural(waiting, "event waits", "events wait")}: too many to count by window here.${end}` : `${plural(waiting, "event waits", "events wait")}; where windows end depends on the events.${end}`)];
  }
  if (!open.windows.length) return [make("p", {}, "None: no event waits for a window.")];
  const [first] = open.windows[0];
  const short = bolt.watermark === null ? null : first + open.past_end - bolt.watermark;
  const total = open.windows.length;
  const next = `${plural(total, "window holds", "windows hold")} events. ` + (bolt.event_time
    ? (short === null ? "The first fires once there is a watermark." : short > 0 ? `The next fires when time is ${span(short)} further.` : "The next is due: it fires with the next tick.")
    : `The next fires by the clock after ${time(first)}.`);
  chart.show(open.windows.slice(0, 200).map(([end, events]) => ({values: {events}, from: clock(end), end})));
  const rows = open.windows.slice(0, 6).map(([end, events]) => make("tr", {}, make("td", {class: "n"}, time(end, bolt.watermark ?? first)),
    make("td", {class: "n"}, count(events)),
    make("td", {class: "n"}, bolt.watermark === null ? "–" : span(Math.max(end + open.past_end - bolt.watermark, 0))),
    make("td", {}, make("button", {type: "button", "data-focus": `why${end}`, "aria-label": `why has the window that ends at ${time(end)} not fired?`, onclick: () => why(end)}, "why?"))));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ["ends", "events", "time to go", ""].map((each) => make("th", {scope: "col"}, each)))), make("tbody", {}, rows));
  return [make("p", {}, next), chart.element, make("div", {class: "scroll"}, table),
    total > rows.length ? make("p", {class: "dim"}, `and ${count(total - rows.length)} more${total > 200 ? "; the picture has the first 200" : ""}`) : null];
}

export const windowBars = () => new Bars("Events in open windows, by the end of the window", [["events", "events"]],
  (bar) => `ends ${time(bar.end)}: ${plural(bar.values.events, "event")} so far`, short, "first");

// -- policies of a user's own

export function policiesPanel(bolt) {
  const seen = bolt.open.policies;
  const words = seen.told.map((each) => make("p", {}, each));
  if (!seen.told.length && seen.more) words.push(make("p", {class: "dim"}, `The states of ${plural(seen.more, "key")} are too many to look at here: windbolt state shows them.`));
  if (!seen.units.length) return words;
  const forgets = seen.units.some((each) => each.forgotten_at !== null);
  const head = [bolt.key.length ? "key" : "task", "events", "last", "since it fired", "fired", "next moment", forgets ? "forgotten at" : null, seen.trigger, seen.eviction].filter(Boolean);
  const rows = seen.units.map((each) => make("tr", {}, make("th", {scope: "row"}, each.name), make("td", {class: "n"}, count(each.events)),
    make("td", {class: "n"}, time(each.time, bolt.watermark)), make("td", {class: "n"}, count(each.events_since)),
    make("td", {class: "n"}, time(each.fired, bolt.watermark)), make("td", {class: "n"}, time(each.next_moment, bolt.watermark)),
    forgets ? make("td", {class: "n"}, time(each.forgotten_at, bolt.watermark)) : null,
    seen.trigger ? make("td", {class: "long mono"}, each.trigger) : null, seen.eviction ? make("td", {class: "long mono"}, each.eviction) : null));
  words.push(make("div", {class: "scroll", tabindex: 0, "aria-label": "what its policies keep"}, make("table", {}, make("thead", {}, make("tr", {}, head.map((each) => make("th", {scope: "col"}, each)))), make("tbody", {}, rows))));
  if (seen.more) words.push(make("p", {class: "dim"}, `and ${count(seen.more)} more, for which an event came earlier`));
  return words;
}

// -- accounts

export const accountBars = () => new Bars("What became of events, batch by batch", ACCOUNTS.map((each) => [each, each]),
  (bar) => `${bar.title}: ${ACCOUNTS.filter((each) => bar.values[each]).map((each) => `${count(bar.values[each])} ${each}`).join(", ") || "nothing new"}; ${count(bar.pending)} waiting`, short);

export function accountsPanel(name, bolt, points, chart) {
  const bars = [];
  points.forEach((point, at) => {
    const now = point.bolts[name]?.accounts, before = at ? points[at - 1].bolts[name]?.accounts || {} : {};
    if (!now || (!at && points.length > 1 && point.n > 0)) return;
    const values = Object.fromEntries(ACCOUNTS.map((each) => [each, Math.max((now[each] || 0) - (before[each] || 0), 0)]));
    bars.push({values, pending: now.pending || 0, from: clock(point.at), title: `${point.closing ? "the closing" : `batch ${point.batch}`}, ${time(point.at, points.at(-1).at)}`});
  });
  chart.show(bars.slice(-240));
  const counts = bolt.accounts;
  const parts = ACCOUNTS.filter((each) => counts[each]).map((each) => [each, each, count(counts[each])]);
  const streams = Object.entries(bolt.streams);
  return [chart.element, legend([...parts, ["waiting", "pending", count(counts.pending)]]),
    make("p", {class: "dim"}, `${count(counts.received)} received = ${[...parts.map(([each, , text]) => `${text} ${each}`), `${count(counts.pending)} waiting`].join(" + ")}`),
    streams.length > 1 ? make("p", {class: "dim"}, streams.map(([stream, each]) => `${stream}: ${count(each.received)} received, ${count(each.pending)} waiting`).join(" · ")) : null];
}

// -- batches

export const phaseBars = () => new Bars("Seconds of each batch, by phase", PHASES.map((each) => [each, each]),
  (bar) => `${bar.title}: ${span(bar.total * 1e6)} in all; ${PHASES.filter((each) => bar.values[each]).map((each) => `${each} ${span(bar.values[each] * 1e6)}`).join(", ")}; ${plural(bar.rows, "row")}`,
  (value) => span(value * 1e6));

export function phasesPanel(view, chart) {
  if (!view.batches.length) {
    return [make("p", {class: "dim"}, view.now.live ? "No batch yet in this process." : "A checkpoint does not keep how long batches took."), journal(view)];
  }
  chart.show(view.batches.map((batch) => ({values: batch.seconds, total: batch.seconds.total, rows: batch.rows, from: clock(batch.at), title: `${batch.closing ? "the closing after batch" : "batch"} ${batch.batch}`})));
  const spent = Object.fromEntries(PHASES.map((each) => [each, view.batches.reduce((sum, batch) => sum + (batch.seconds[each] || 0), 0)]));
  const all = Object.values(spent).reduce((sum, each) => sum + each, 0) || 1;
  return [chart.element, legend(PHASES.map((each) => [each, each, percent(spent[each] / all)]))];
}

function journal(view) {
  if (!view.journal?.length) return null;
  const rows = view.journal.map((batch) => make("tr", {}, make("td", {class: "n"}, String(batch.batch)), make("td", {class: "n"}, time(batch.at)), make("td", {}, batch.done ? "committed" : "planned, not committed")));
  return make("div", {class: "scroll tall", tabindex: 0, "aria-label": "the batches of the journal"}, make("table", {}, make("caption", {}, "The batches of the journal"), make("thead", {}, make("tr", {}, ["batch", "planned", ""].map((each) => make("th", {scope: "col"}, each)))), make("tbody", {}, rows)));
}

// -- events that were turned away

export function turnedPanel(view) {
  const late = view.rejected_events.map((event) => make("tr", {}, make("td", {class: "n", "data-label": "came"}, time(event.at, view.now.clock)),
    make("td", {}, make("span", {class: `tag ${event.account}`}, event.account)), make("td", {"data-label": "at"}, `${event.bolt} ← ${event.stream}`),
    make("td", {class: "n", "data-label": "its time"}, time(event.time)),
    make("td", {class: "n", "data-label": "behind by"}, event.watermark === null || event.watermark <= event.time ? "–" : span(event.watermark - event.time)),
    make("td", {class: "long", "data-label": "why"}, event.reason), make("td", {class: "long mono"}, event.content)));
  const found = [];
  if (late.length) {
    const head = ["came", "", "at", "its time", "behind by", "why", "event"];
    found.push(make("div", {class: "scroll tall", tabindex: 0, "aria-label": "late events"}, make("table", {}, make("thead", {}, make("tr", {}, head.map((each) => make("th", {scope: "col"}, each)))), make("tbody", {}, late))));
  }
  if (view.complaints.length) {
    const lines = view.complaints.map((each) => make("li", {}, make("span", {class: "dim"}, `batch ${each.batch}, ${time(each.at, view.now.clock)} `), each.text));
    found.push(make("h3", {}, "Invalid"), make("ul", {class: "complaints scroll tall", tabindex: 0, "aria-label": "invalid input"}, lines));
  }
  const none = view.now.live ? "None in this process so far." : "A checkpoint keeps their number only: the streams of late and invalid events have them.";
  return found.length ? found : [make("p", {class: "dim"}, none)];
}

// -- sinks and runs

export function sinksPanel(view) {
  if (!view.sinks.length) return [make("p", {class: "dim"}, "None.")];
  return view.sinks.map((sink) => make("div", {class: "sink"}, make("h3", {}, sink.name, make("span", {class: "dim"}, ` ${sink.kind}`)),
    sink.files ? make("p", {}, plural(sink.files.count, "file")) : null,
    sink.files ? make("ul", {class: "files"}, sink.files.latest.map((file) => make("li", {}, make("code", {}, file.name), make("span", {class: "dim"}, ` ${bytes(file.bytes)}`)))) : null));
}

export function runsPanel(view) {
  const rows = view.runs.map((run) => run.changed ? make("li", {class: "changed"}, make("b", {}, time(run.began)), " ", run.changed) : make("li", {class: run.how},
    make("b", {}, run.began === null ? "starting" : time(run.began)), " ",
    run.continues === null ? "on a new checkpoint" : `continued after batch ${run.continues}`, "; ",
    make("span", {class: "tag"}, ENDS[run.how] || run.how), " ",
    [run.ended ? time(run.ended, run.began) : "", run.restarts ? `restarted ${plural(run.restarts, "time")}` : "",
      run.repeats ? `a batch was begun again ${plural(run.repeats, "time")}` : ""].filter(Boolean).join("; "),
    run.error ? make("span", {class: "error"}, run.error) : null));
  return rows.length ? [make("ol", {class: "runlist"}, rows)] : [make("p", {class: "dim"}, "None is noted in this checkpoint.")];
}

const ENDS = {
  starting: "starting", running: "running", stalled: "stalls", finished: "finished", stopped: "stopped", failed: "failed",
  "taken over": "taken over by another run",
  restarting: "failed, to be started again",
  "no end": "no end is noted: it is running, or it died",
};
