// Requests the status every second, and the next image when the last one is shown: a slow or hidden
// page receives fewer images, and blocks nothing.
const STATUS_MS = 1000;
const HISTORY = 300;
const BASES = {
  arrival: "from arrival",
  schedule: "from due time",
  capture: "from capture, by the sender's clock",
};
const STATES = {
  connecting: "connecting",
  live: "live",
  stalled: "stalled",
  reconnecting: "reconnecting",
  ended: "ended",
  failed: "given up",
};
const history = [];
let silentSince = null;

const at = (id) => document.getElementById(id);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const visible = () =>
  new Promise((done) => {
    if (!document.hidden) done();
    else document.addEventListener("visibilitychange", () => done(), { once: true });
  });

// Format of numbers, as in reports.
function decimal(number) {
  if (!number) return "0";
  const size = Math.abs(number);
  if (size >= 99.95) return Math.round(number).toLocaleString("en-US");
  return number.toFixed(size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}
const count = (number) => number.toLocaleString("en-US");
const milliseconds = (number) => (number === null ? "n too small" : `${decimal(number)} ms`);
const counted = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
const percent = (share) => (share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);
const clockTime = (wallSeconds) =>
  new Date(wallSeconds * 1000).toLocaleTimeString("en-GB", { hour12: false });
const two = (number) => String(number).padStart(2, "0");
function duration(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 120) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${two(whole % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return `${hours} h ${two(minutes % 60)} min`;
}

// All content is text: the name of a source cannot be markup.
function element(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}
function row(label, ...cells) {
  const head = element("th", "", label);
  head.scope = "row";
  return element("tr", "", head, ...cells.map((cell) => element("td", "", cell)));
}
const none = (columns, words) => {
  const cell = element("td", "none", words);
  cell.colSpan = columns;
  return [element("tr", "", cell)];
};
function line(values) {
  const top = Math.max(...values.filter((value) => value !== null), 1e-9);
  const name = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(name, "svg");
  drawing.setAttribute("viewBox", `0 0 ${HISTORY - 1} 100`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("aria-hidden", "true");
  const start = HISTORY - values.length;
  let points = [];
  const draw = () => {
    if (!points.length) return;
    const drawn = document.createElementNS(name, "polyline");
    drawn.setAttribute("points", points.join(" "));
    drawing.append(drawn);
    points = [];
  };
  values.forEach((value, k) => {
    if (value === null) draw();
    else points.push(`${start + k},${(96 - (92 * value) / top).toFixed(1)}`);
  });
  draw();
  return drawing;
}
function card(label, value, more, values) {
  const node = element("div", "card", element("p", "label", label), element("p", "value", value));
  if (more) node.append(element("p", "more", more));
  if (values) node.append(line(values));
  return node;
}

function cards(status) {
  const { latency, frames } = status;
  const base = latency ? BASES[latency.base] ?? latency.base : "";
  const over = latency ? `n = ${count(latency.count)}, last ${duration(latency.window_seconds)}` : "";
  const value = (ms) => (latency && latency.count ? milliseconds(ms) : "none yet");
  const past = (key) => history.map((status) => status[key]);
  return [
    // Two values make a line.
    card("FPS", decimal(status.fps), history.length > 1 ? "now; chart: last 5 min" : "now", past("fps")),
    card("Latency p50", value(latency && latency.p50_ms), base, past("p50")),
    card("Latency p95", value(latency && latency.p95_ms), over, past("p95")),
    card("Latency jitter", status.jitter_ms === null ? "none yet" : milliseconds(status.jitter_ms), "std of output intervals"),
    card("Dropped", frames.arrived ? percent(frames.dropped / frames.arrived) : "0 %", `${count(frames.dropped)} of ${count(frames.arrived)} frames`),
    card("In flight", count(frames.in_flight), "frames in the pipeline"),
  ];
}
function sourceItem(source) {
  const facts = [
    source.words.includes(" ") ? source.words : "", // a single word only repeats the state
    source.state === "live" ? `${decimal(source.fps)} FPS` : "",
    source.width ? `${source.width}×${source.height}` : "",
    counted(source.frames, "frame"),
    source.reconnects ? counted(source.reconnects, "reconnect") : "",
    source.stalls ? counted(source.stalls, "stall") : "",
  ];
  return element(
    "li",
    "",
    element("p", "name", source.name),
    element("p", `state ${source.state}`, `${STATES[source.state]} for ${duration(source.since_seconds)}`),
    element("p", "more", facts.filter(Boolean).join(" · ")),
  );
}
function stages(status) {
  if (!status.stages.length) return none(4, "none yet");
  const time = (stage, ms) => (stage.p50_ms === null ? "none yet" : milliseconds(ms));
  return status.stages.map((stage) =>
    row(stage.name, time(stage, stage.p50_ms), time(stage, stage.p95_ms), percent(stage.busy)),
  );
}
function queues(status) {
  if (!status.queues.length) return none(4, "none yet");
  return status.queues.map((queue) => {
    const meter = element("meter");
    meter.max = queue.capacity;
    meter.value = queue.depth;
    meter.title = percent(queue.depth / queue.capacity);
    return row(queue.name, count(queue.depth), count(queue.capacity), meter);
  });
}
function frames(status) {
  const { arrived, delivered, dropped, in_flight: inFlight } = status.frames;
  const dropRow = (drop) => {
    const node = row(`${drop.cause}, at ${drop.stage}`, count(drop.items));
    node.className = "of";
    return node;
  };
  const rows = [
    row("Arrived", count(arrived)),
    row("Delivered", count(delivered)),
    row("In flight", count(inFlight)),
    row("Dropped", count(dropped)),
    ...status.drops.map(dropRow),
  ];
  const missed = status.sink_drops.reduce((sum, drop) => sum + drop.items, 0);
  if (missed) rows.push(row("Dropped by a sink", count(missed)), ...status.sink_drops.map(dropRow));
  return rows;
}
function events(status) {
  if (!status.events.length) return [element("li", "", element("time", "", ""), element("span", "quiet", "nothing yet"))];
  return status.events.map((event) => {
    const time = element("time", "", clockTime(event.wall_seconds));
    const name = event.source && status.sources.length > 1 ? `${event.source}: ` : "";
    // Most texts contain the kind: "joined 640 ms behind".
    const hasKind = !event.source || event.words.startsWith(event.kind);
    const words = hasKind ? event.words : [event.kind, event.words].filter(Boolean).join(", ");
    return element("li", "", time, element("span", "", name + words));
  });
}

// One sentence for each problem.
function problems(status) {
  if (status.state === "ended") return [`The run has ended, after ${duration(status.running_seconds)}.`];
  return status.sources
    .filter((source) => !["live", "ended"].includes(source.state))
    .map((source) => {
      const since = clockTime(status.wall_seconds - source.since_seconds);
      return `${source.name}: ${STATES[source.state]} since ${since}${source.words ? `, ${source.words}` : ""}.`;
    });
}
function caption(status) {
  if (at("picture").hidden) return "No image yet";
  const silence = status.seconds_since_last_result;
  return silence !== null && silence > 2 ? `Last image, ${duration(silence)} ago` : "";
}

function warn(words) {
  // Set only if changed: screen readers announce each change.
  if (at("alert").textContent !== words) at("alert").textContent = words;
  at("alert").hidden = !words;
}
function render(status) {
  history.push({
    fps: status.fps,
    p50: status.latency ? status.latency.p50_ms : null,
    p95: status.latency ? status.latency.p95_ms : null,
  });
  if (history.length > HISTORY) history.shift();
  const sentences = problems(status);
  const isDown = !status.sources.some((source) => source.state === "live");
  document.title = `${sentences.length ? "⚠ " : ""}${decimal(status.fps)} FPS, ${status.title}`;
  document.body.className = isDown ? "down" : "";
  at("title").textContent = status.title;
  at("clock").textContent = `${status.state} for ${duration(status.running_seconds)}, as of ${clockTime(status.wall_seconds)}`;
  warn(sentences.join(" "));
  at("caption").textContent = caption(status);
  at("sources").replaceChildren(...status.sources.map(sourceItem));
  at("cards").replaceChildren(...cards(status));
  at("stages").replaceChildren(...stages(status));
  at("queues").replaceChildren(...queues(status));
  at("frames").replaceChildren(...frames(status));
  at("events").replaceChildren(...events(status));
}
function disconnected(words) {
  silentSince ??= Date.now() / 1000;
  document.title = "⚠ no response, headrace live";
  document.body.className = "stale";
  warn(`${words} since ${clockTime(silentSince)}; retrying every second.`);
  at("caption").textContent = at("picture").hidden ? "No image yet" : "Last image";
}

async function follow() {
  for (;;) {
    try {
      const reply = await fetch("status.json", { signal: AbortSignal.timeout(5000) });
      if (reply.ok) {
        render(await reply.json());
        silentSince = null;
      } else if (reply.status === 401) disconnected("The run requires its token, open the address it printed: no access");
      else disconnected(`The run responds with error ${reply.status}`);
    } catch {
      disconnected("The run does not respond");
    }
    await pause(STATUS_MS);
  }
}
async function watch() {
  let number = 0;
  for (;;) {
    await visible();
    try {
      const reply = await fetch(`picture.jpg?after=${number}`, { signal: AbortSignal.timeout(20000) });
      if (reply.status === 200) {
        const address = URL.createObjectURL(await reply.blob());
        const before = at("picture").src;
        at("picture").src = address;
        if (at("picture").hidden) at("caption").textContent = "";
        at("picture").hidden = false;
        at("frame").className = "";
        await at("picture").decode();
        if (before) URL.revokeObjectURL(before);
        number = Number(reply.headers.get("picture-number"));
      } else if (reply.status !== 204) await pause(STATUS_MS);
    } catch {
      await pause(STATUS_MS);
    }
  }
}

follow();
watch();
