'use strict';
// The page of a run. It asks its own server and nobody else; every text that comes from there is
// put in as text, never as HTML. The key stays in the link's fragment.

const key = decodeURIComponent(location.hash.slice(1));
const byId = (id) => document.getElementById(id);
const POINTS_MAX = 2500;  // of a run, then its history is asked for anew, thinned
const EVENTS_MAX = 300;
const COLORS = 6;
const SHOWN_RUNS_MAX = COLORS;

async function ask(path, options = {}) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), 10000);
  try {
    const reply = await fetch(path, {
      ...options,
      cache: 'no-store',
      credentials: 'omit',
      headers: {Authorization: 'Bearer ' + key, ...(options.headers || {})},
      signal: abort.signal,
    });
    const text = await reply.text();
    if (!reply.ok) {
      let why = text;
      try {
        why = JSON.parse(text).error;
      } catch {
        // It is plain text.
      }
      const error = new Error(why);
      error.status = reply.status;
      throw error;
    }
    return JSON.parse(text);
  } finally {
    clearTimeout(timer);
  }
}

// ---- Text -----------------------------------------------------------------------------------

const isNumber = (x) => typeof x === 'number' && isFinite(x);

function count(x) {
  return isNumber(x) ? Math.round(x).toLocaleString('en') : '–';
}

function fixed(x, digits) {
  return isNumber(x) ? x.toFixed(digits) : '–';
}

function short(x) {
  if (!isNumber(x)) return '–';
  const size = Math.abs(x);
  if (size >= 1e9) return (x / 1e9).toFixed(1) + 'G';
  if (size >= 1e6) return (x / 1e6).toFixed(1) + 'M';
  if (size >= 1e4) return (x / 1e3).toFixed(1) + 'k';
  if (size >= 100) return x.toFixed(0);
  if (size >= 1) return String(+x.toFixed(2));
  return x === 0 ? '0' : String(+x.toPrecision(3));
}

function bytes(x) {
  if (!isNumber(x)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (x >= 1024 && i < units.length - 1) {
    x /= 1024;
    ++i;
  }
  return (i === 0 ? x.toFixed(0) : x.toFixed(1)) + ' ' + units[i];
}

function duration(s) {
  if (!isNumber(s) || s < 0) return '–';
  s = Math.round(s);
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return h > 0 ? h + 'h ' + m + 'm' : m > 0 ? m + 'm ' + (s % 60) + 's' : s + 's';
}

// A run's metric: a share, or r2, which may be below 0.
const metricText = (run, x, digits = 1) => run && run.metric === 'r2' ? fixed(x, 4) : percent(x, digits);
const percent = (x, digits = 1) => isNumber(x) ? (100 * x).toFixed(digits) + '%' : '–';
const usd = (x) => isNumber(x) ? x.toFixed(x < 10 ? 3 : 2) + ' USD' : '–';

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Rows of cells into a table whose nodes are kept: nothing grows, and a selection stays.
// columns: [{title, left, wide, long}]; a cell is a text or {text, className, node}.
function fillTable(table, columns, rows) {
  if (rows.length === 0) {
    table.replaceChildren();
    return;
  }
  if (!table.tHead) {
    const head = table.createTHead().insertRow();
    for (const column of columns) {
      const th = document.createElement('th');
      th.textContent = column.title;
      th.className = (column.left ? 'left ' : '') + (column.wide ? 'wide' : '');
      head.append(th);
    }
    table.append(document.createElement('tbody'));
  }
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((row, i) => {
    const tr = body.rows[i] || body.insertRow();
    tr.className = row.className || '';
    row.cells.forEach((cell, j) => {
      const td = tr.cells[j] || tr.insertCell();
      const column = columns[j];
      const isObject = typeof cell === 'object' && cell !== null;
      td.className = [column.left ? 'left' : '', column.wide ? 'wide' : '',
        column.long ? 'long' : '', isObject ? cell.className || '' : ''].join(' ').trim();
      if (isObject && cell.node) {
        if (td.firstChild !== cell.node) td.replaceChildren(cell.node);
      } else {
        setText(td, isObject ? cell.text : String(cell));
      }
    });
  });
}

function fillPairs(dl, pairs) {
  while (dl.children.length > 2 * pairs.length) dl.lastChild.remove();
  pairs.forEach(([name, value], i) => {
    if (dl.children.length <= 2 * i) {
      dl.append(document.createElement('dt'), document.createElement('dd'));
    }
    setText(dl.children[2 * i], name);
    setText(dl.children[2 * i + 1], value);
  });
}

// ---- Plots ----------------------------------------------------------------------------------

const SVG = 'http://www.w3.org/2000/svg';

function svg(name, attributes = {}) {
  const element = document.createElementNS(SVG, name);
  for (const [key_, value] of Object.entries(attributes)) element.setAttribute(key_, value);
  return element;
}

// About `wanted` round numbers from `low` to `high`.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || rough;
  const result = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step / 1e6; t += step) {
    result.push(+t.toPrecision(12));
  }
  return result;
}

class Chart {
  constructor(title, format, options = {}) {
    this.format = format;
    this.options = options;
    this.figure = document.createElement('figure');
    const caption = document.createElement('figcaption');
    const name = this.name = document.createElement('b');
    name.textContent = title;
    this.legend = document.createElement('span');
    this.legend.className = 'quiet';
    caption.append(name, this.legend);
    this.svg = svg('svg', {role: 'img', 'aria-label': title + ' over time'});
    this.grid = svg('g');
    this.lines = svg('g');
    this.cursor = svg('line', {class: 'cursor', visibility: 'hidden'});
    this.svg.append(this.grid, this.lines, this.cursor);
    this.figure.append(caption, this.svg);
    this.series = [];
    this.svg.addEventListener('pointermove', (event) => this.point(event));
    this.svg.addEventListener('pointerleave', () => {
      this.cursor.setAttribute('visibility', 'hidden');
      this.showLegend(null);
    });
  }

  // series: [{name, color, points: [[x, y], ...], areDots}], x in seconds, ascending.
  draw(series) {
    this.series = series.map((s) => ({...s, points: s.points.filter((p) => isNumber(p[1]))}))
        .filter((s) => s.points.length > 0);
    const width = this.svg.clientWidth || 320, height = this.svg.clientHeight || 170;
    const box = this.box = {left: 46, right: width - 8, top: 8, bottom: height - 18};
    let [x0, x1, y0, y1] = [0, 1, Infinity, -Infinity];
    for (const s of this.series) {
      x1 = Math.max(x1, s.points[s.points.length - 1][0]);
      for (const p of s.points) {
        y0 = Math.min(y0, p[1]);
        y1 = Math.max(y1, p[1]);
      }
    }
    if (this.series.length === 0) [y0, y1] = [0, 1];
    if (this.options.fromZero) y0 = Math.min(0, y0);
    if (this.options.max !== undefined) y1 = Math.min(y1, this.options.max);
    if (y1 - y0 < 1e-9 + Math.abs(y1) * 1e-6) [y0, y1] = [y0 - Math.abs(y0) * 0.1 - 0.001, y1 + Math.abs(y1) * 0.1 + 0.001];
    this.toX = (x) => box.left + (x - x0) / (x1 - x0) * (box.right - box.left);
    this.toY = (y) => box.bottom - (y - y0) / (y1 - y0) * (box.bottom - box.top);
    this.x1 = x1;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.grid.replaceChildren();
    for (const y of ticks(y0, y1, 4)) {
      const at = this.toY(y);
      const label = svg('text', {x: box.left - 5, y: at + 4, 'text-anchor': 'end'});
      label.textContent = this.format(y);
      this.grid.append(svg('line', {class: 'grid', x1: box.left, x2: box.right, y1: at, y2: at}), label);
    }
    for (const x of [x0, (x0 + x1) / 2, x1]) {
      const label = svg('text', {x: this.toX(x), y: height - 4,
        'text-anchor': x === x0 ? 'start' : x === x1 ? 'end' : 'middle'});
      label.textContent = duration(x);
      this.grid.append(label);
    }
    while (this.lines.children.length > this.series.length) this.lines.lastChild.remove();
    this.series.forEach((s, i) => {
      if (!this.lines.children[i]) this.lines.append(svg('path'));
      const path = this.lines.children[i];
      const places = s.points.map((p) => [this.toX(p[0]).toFixed(1), this.toY(p[1]).toFixed(1)]);
      const d = s.areDots || places.length === 1
        ? places.map(([x, y]) => `M${x - 2.5} ${y}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0`).join('')
        : 'M' + places.map((p) => p.join(' ')).join('L');
      const isFilled = s.areDots || places.length === 1;
      path.setAttribute('class', isFilled ? 'dots' : 'series');
      path.style.stroke = isFilled ? '' : `var(--s${s.color})`;
      path.style.fill = isFilled ? `var(--s${s.color})` : '';
      path.style.strokeDasharray = s.isDashed ? '5 4' : '';
      path.setAttribute('d', d);
    });
    this.showLegend(null);
  }

  point(event) {
    if (this.series.length === 0) return;
    const at = this.svg.getBoundingClientRect();
    const x = event.clientX - at.left;
    const t = Math.max(0, (x - this.box.left) / (this.box.right - this.box.left) * this.x1);
    const px = this.toX(Math.min(t, this.x1));
    for (const [name, value] of [['x1', px], ['x2', px], ['y1', this.box.top], ['y2', this.box.bottom]]) {
      this.cursor.setAttribute(name, value);
    }
    this.cursor.setAttribute('visibility', 'visible');
    this.showLegend(Math.min(t, this.x1));
  }

  showLegend(t) {
    const parts = this.series.map((s) => {
      let p = s.points[s.points.length - 1];
      if (t !== null) p = s.points.reduce((a, b) => Math.abs(b[0] - t) < Math.abs(a[0] - t) ? b : a);
      const span = document.createElement('span');
      span.style.color = `var(--s${s.color})`;
      span.textContent = (s.name ? s.name + ' ' : '') + this.format(p[1]) + '  ';
      return span;
    });
    if (t !== null) parts.unshift(duration(t) + ': ');
    this.legend.replaceChildren(...parts);
  }
}

const charts = {
  loss: new Chart('Loss', short),
  accuracy: new Chart('Accuracy', (x) => metricText(focus && focus.state ? focus.state.run : null, x), {max: 1}),
  speed: new Chart('Samples a second', short, {fromZero: true}),
  workers: new Chart('Workers', short, {fromZero: true}),
  cost: new Chart('Cost, USD', short, {fromZero: true}),
};
for (const chart of Object.values(charts)) byId('charts').append(chart.figure);

// ---- Runs -----------------------------------------------------------------------------------

// For each run: id, history, the newest state, and whether it is among those that are plotted.
const runs = [];
let focus = null;

function newRun(id) {
  return {id, points: [], thinned: 0, state: null, isShown: false, hasHistory: false, color: 0};
}

const query = (run) => 'run=' + encodeURIComponent(run.id);

async function fetchState(run) {
  if (run.state && run.state.run.is_ended && !run.state.can_steer) return;
  run.state = await ask('/api/state?' + query(run));
}

async function fetchHistory(run) {
  if (run.hasHistory && run.state && run.state.run.is_ended && !run.state.can_steer) return;
  const last = run.points.length ? run.points[run.points.length - 1].time_unix_s : 0;
  const isAnew = run.points.length > POINTS_MAX;
  const reply = await ask(`/api/history?${query(run)}&after=${isAnew ? 0 : last}&thinned=${run.thinned}`);
  if (reply.thinned !== run.thinned || isAnew) run.points = [];
  run.thinned = reply.thinned;
  run.hasHistory = true;
  for (const row of reply.rows) {
    const point = {};
    reply.columns.forEach((name, i) => point[name] = row[i]);
    run.points.push(point);
  }
}

function seriesOf(run, name, label, more = {}) {
  const begin = run.points.length ? run.points[0].time_unix_s : 0;
  return {name: label, color: run.color, points: run.points.map((p) => [p.time_unix_s - begin, p[name]]), ...more};
}

// A result of a test stands at the moment at which it came.
function testSeries(run, name, label, more) {
  const series = seriesOf(run, name, label, more);
  series.points = series.points.filter((p, i) =>
    isNumber(p[1]) && (i === 0 || series.points[i - 1][1] !== p[1]));
  return {...series, areDots: series.points.length < 60};
}

// The samples that the newest evaluation is of: those of validation, where the job has any, and
// the tests at the end.
function measuredOn(run) {
  return run && run.measured_on || 'test';
}

function drawCharts() {
  const shown = runs.filter((run) => run.isShown);
  const areMany = shown.length > 1;
  shown.forEach((run, i) => run.color = i % COLORS);
  const label = (run, text) => areMany ? run.id : text;
  const each = (make) => shown.flatMap(make);
  const testColor = areMany ? {} : {color: 1};
  charts.loss.draw(each((run) => areMany ? [seriesOf(run, 'train_loss', label(run, ''))]
    : [seriesOf(run, 'train_loss', 'train'), testSeries(run, 'test_loss', measuredOn(run.state && run.state.run), testColor)]));
  const metric = focus && focus.state && focus.state.run.metric || 'accuracy';
  setText(charts.accuracy.name, metric[0].toUpperCase() + metric.slice(1));
  charts.accuracy.draw(each((run) => areMany ? [testSeries(run, 'test_accuracy', run.id)]
    : [seriesOf(run, 'train_accuracy', 'train'), testSeries(run, 'test_accuracy', measuredOn(run.state && run.state.run), testColor)]));
  charts.speed.draw(each((run) => [seriesOf(run, 'samples_per_s', label(run, ''))]));
  charts.workers.draw(each((run) => [seriesOf(run, 'workers_alive', label(run, ''))]));
  const cost = each((run) => [seriesOf(run, 'usd_spent', label(run, 'spent'))]);
  const plan = !areMany && focus && focus.state && focus.state.run.plan;
  if (plan && plan.seconds > 0) {
    cost.push({name: 'planned', color: 3, isDashed: true, points: [[0, 0], [plan.seconds, plan.usd]]});
  }
  const hasCost = cost.some((s) => s.points.some((p) => p[1] > 0));
  charts.cost.figure.hidden = !hasCost;
  if (hasCost) charts.cost.draw(cost);
}

// ---- The run in focus -----------------------------------------------------------------------

function tile(name, value, more) {
  return [name, value, more || ''];
}

function showTiles(run) {
  const plan = run.plan;
  const tiles = [
    tile('training loss', run.train_loss === undefined ? '–' : fixed(run.train_loss, 4),
      isNumber(run.test_loss) ? measuredOn(run) + ' ' + fixed(run.test_loss, 4) : ''),
    tile(measuredOn(run) + ' ' + (run.metric || 'accuracy'), metricText(run, run.test_accuracy, 2),
      isNumber(run.test_epoch) ? 'after epoch ' + run.test_epoch : isNumber(run.train_accuracy) ? 'training ' + percent(run.train_accuracy) : ''),
    tile('samples a second', short(run.samples_per_s), 'epoch ' + run.epoch + ' of ' + run.epochs),
    tile('workers', count(run.fleet.alive), (run.is_ended ? '' : `of ${count(run.fleet.wanted)}; `) +
      count(run.revocations_noticed + run.revocations_unnoticed) + ' taken away, ' + count(run.joins) + ' joined'),
    tile('time', duration(run.elapsed_s), run.eta_s >= 0 && !run.is_ended ? duration(run.eta_s) + ' left' : ''),
  ];
  if (run.usd_spent > 0 || run.usd_per_hour > 0) {
    tiles.push(tile('cost', usd(run.usd_spent), plan ? 'planned ' + usd(plan.usd)
      : run.is_ended ? '' : usd(run.usd_per_hour) + ' an hour'));
  }
  const parent = byId('tiles');
  while (parent.children.length > tiles.length) parent.lastChild.remove();
  tiles.forEach(([name, value, more], i) => {
    if (!parent.children[i]) {
      const div = document.createElement('div');
      div.className = 'tile';
      div.append(document.createElement('span'), document.createElement('b'), document.createElement('span'));
      div.children[0].className = div.children[2].className = 'quiet';
      parent.append(div);
    }
    [name, value, more].forEach((text, j) => setText(parent.children[i].children[j], text));
  });
}

const WORKER_COLUMNS = [{title: 'worker'}, {title: 'state', left: true}, {title: 'samples/s'},
  {title: 'steps'}, {title: 'computing'}, {title: 'stale', wide: true}, {title: 'pushed', wide: true},
  {title: 'pulled', wide: true}, {title: 'type', left: true, wide: true}, {title: 'device', left: true, wide: true},
  {title: 'host', left: true, wide: true}, {title: 'USD/h', wide: true}, {title: 'why', left: true, long: true, wide: true}, {title: ''}];
const drainButtons = new Map();

function drainButton(worker) {
  if (!drainButtons.has(worker)) {
    if (drainButtons.size > 500) drainButtons.clear();
    const button = document.createElement('button');
    button.className = 'small';
    button.textContent = 'drain';
    button.addEventListener('click', () => order({do: 'drain', worker},
      `Worker ${worker} hands over what it has and leaves; its group will be smaller by one.`));
    drainButtons.set(worker, button);
  }
  return drainButtons.get(worker);
}

function showWorkers(run, canSteer) {
  const fleet = run.fleet;
  setText(byId('workers-title'), run.workers_hidden > 0
    ? `those to look at first; ${count(run.workers_hidden)} more are not shown` : '');
  const states = Object.entries(fleet.states).map(([name, n]) => count(n) + ' ' + name).join(', ');
  setText(byId('fleet'), states === '' ? 'no workers yet' : states +
    (fleet.rate_max > 0 ? `; slowest ${short(fleet.rate_min)}, middle ${short(fleet.rate_median)}, fastest ${short(fleet.rate_max)} samples/s` : '') +
    (fleet.staleness_max > 0 ? `; staleness up to ${short(fleet.staleness_max)} steps` : ''));
  const hasTypes = fleet.types.length > 1 || fleet.groups.some((g) => g.waiting > 0);
  fillTable(byId('types-table'), [{title: 'type', left: true}, {title: 'there'}, {title: 'wanted'},
    {title: 'samples/s'}, {title: 'USD/h'}, {title: 'waits', left: true, long: true}],
  hasTypes ? fleet.types.map((t) => {
    const group = fleet.groups.find((g) => g.type === t.type) || {};
    return {cells: [t.type || '(none)', count(t.present), count(t.wanted), short(t.samples_per_s),
      fixed(t.usd_per_hour, 2), group.waiting > 0 ? `${group.waiting}: ${group.why}` : '']};
  }) : []);
  fillTable(byId('workers-table'), WORKER_COLUMNS, run.workers.map((w) => ({
    className: w.is_gone ? 'gone' : '',
    cells: [String(w.worker),
      {text: w.is_silent ? 'silent ' + fixed(w.silent_s, 1) + ' s' : w.state, className: w.is_silent ? 'silent' : w.state},
      w.is_gone ? '–' : short(w.samples_per_s), count(w.steps), percent(w.computing, 0), short(w.staleness),
      bytes(w.bytes_pushed), bytes(w.bytes_pulled), w.type, w.device, w.host,
      w.usd_per_hour > 0 ? fixed(w.usd_per_hour, 2) : '–', w.reason,
      canSteer && !w.is_gone && w.state !== 'draining' ? {node: drainButton(w.worker)} : ''],
  })));
  setText(byId('waits'), run.waits.map((w) => `${w.who} waits for ${w.for_whom}: ${w.why}, ${fixed(w.since_s, 1)} s`).join('; '));
}

function showServers(run) {
  byId('servers-section').hidden = run.servers.shards === 0 && run.is_ended;
  const servers = run.servers;
  setText(byId('servers-title'), servers.shards === 0 ? '' :
    `${count(servers.count)} of ${count(servers.wanted)}, ${count(servers.chunks)} chunks, ${bytes(servers.parameter_bytes)}; ` +
    `in ${bytes(servers.received_bytes_per_s)}/s, out ${bytes(servers.sent_bytes_per_s)}/s` +
    (servers.is_moving ? '; chunks move' : '') + (servers.moves > 0 ? `; placed anew ${servers.moves} times` : '') +
    (servers.chunks_pinned > 0 ? `; ${count(servers.chunks_pinned)} chunks moved by hand` : ''));
  fillTable(byId('servers-table'), [{title: 'shard'}, {title: 'state', left: true}, {title: 'chunks'},
    {title: 'holds', wide: true}, {title: 'in/s'}, {title: 'out/s'}, {title: 'in', wide: true}, {title: 'out', wide: true},
    {title: 'steps', wide: true}, {title: 'stale', wide: true}, {title: 'lr', wide: true}, {title: 'address', left: true, wide: true}],
  servers.rows.map((s) => ({cells: [String(s.shard), {text: s.state, className: s.state}, count(s.chunks), bytes(s.parameter_bytes),
    bytes(s.received_bytes_per_s), bytes(s.sent_bytes_per_s), bytes(s.bytes_received), bytes(s.bytes_sent),
    count(s.steps), short(s.staleness), short(s.lr), s.address]})));
}

function showFacts(run) {
  const c = run.checkpoints;
  fillPairs(byId('checkpoints'), !c.is_on ? [['', 'none']] : [
    ['newest', run.is_ended ? '–' : c.newest > 0 ? `${c.newest}, ${duration(c.age_s)} old, ${bytes(c.written_bytes)} written` : c.committed > 0 ? '–' : 'none yet'],
    ...(c.open > 0 ? [['now', `${c.open} is being written`]] : []),
    ['written', `${count(c.committed)}, ${count(c.failed)} failed, ${count(c.skipped)} skipped`],
    ...(c.copies_to ? [['copies', `${count(c.copied)} in ${c.copies_to}, ${count(c.copies_failed)} failed`]] : []),
    ...(c.rollbacks > 0 ? [['went back', count(c.rollbacks)]] : []),
    ...(c.undone ? [['undone', c.undone]] : [])]);
  const plan = run.plan;
  fillPairs(byId('cost'), [
    ['so far', usd(run.usd_spent)],
    ...(run.is_ended ? [] : [['now', usd(run.usd_per_hour) + ' an hour']]),
    ...(run.traffic_bytes > 0 ? [['traffic', `${usd(run.traffic_usd)} for ${bytes(run.traffic_bytes)}` +
      (run.is_ended ? '' : `, ${usd(run.traffic_usd_per_hour)} an hour`)]] : []),
    ...(plan ? [['planned', `${usd(plan.usd)} (${usd(plan.usd_low)} to ${usd(plan.usd_high)})`],
      ['planned time', `${duration(plan.seconds)} (${duration(plan.seconds_low)} to ${duration(plan.seconds_high)})`],
      ...(plan.loss_target > 0 ? [['to loss', short(plan.loss_target)]] : []),
      ['of the plan', percent(plan.usd > 0 ? run.usd_spent / plan.usd : NaN, 0) + ' of the cost, ' +
        percent(plan.seconds > 0 ? run.elapsed_s / plan.seconds : NaN, 0) + ' of the time']] : [])]);
  fillPairs(byId('counted'), [
    ['samples', `${count(run.samples_counted)} of ${count(run.samples_total)}`],
    ['steps', `${count(run.steps_counted)}, ${count(run.steps_lost)} lost`],
    ['lost workers', `${count(run.revocations_noticed)} with notice, ${count(run.revocations_unnoticed)} without`],
    ['exchange', run.exchange],
    ...Object.entries(run.figures).map(([name, value]) => [name, short(value)]),
    ...(run.coordinator_restarts > 0 ? [['coordinator', `restarted ${run.coordinator_restarts} times`]] : []),
    ['directory', run.run_directory]]);
}

function showRun() {
  const {run, can_steer: canSteer, age_s: age} = focus.state;
  document.title = `${run.name}: ${run.state}`;
  setText(byId('name'), run.name);
  setText(byId('state'), run.state);
  byId('state').className = 'pill ' + run.state;
  setText(byId('mode'), run.mode + (run.mode_wanted !== run.mode ? ' → ' + run.mode_wanted : '') +
    (run.detail ? '; ' + run.detail : ''));
  setText(byId('link'), age > 3 ? `as of ${duration(age)} ago` : '');
  byId('progress-bar').style.width = percent(run.samples_total > 0 ? Math.min(1, run.samples_counted / run.samples_total) : 0);
  const notices = byId('notices');
  notices.hidden = run.notices.length === 0;
  notices.replaceChildren(...run.notices.map((text) => {
    const p = document.createElement('p');
    p.textContent = text;
    return p;
  }));
  showTiles(run);
  showWorkers(run, canSteer && !run.is_ended);
  showServers(run);
  showFacts(run);
  byId('steer').hidden = !canSteer || run.is_ended;
  setText(byId('do-pause'), run.state === 'paused' ? 'Continue' : 'Pause');
  const types = ['', ...run.fleet.groups.map((g) => g.type).filter((t) => t)];
  const select = byId('type');
  if (select.options.length !== types.length) {
    select.replaceChildren(...types.map((t) => new Option(t || 'all types', t)));
    select.hidden = types.length < 2;
  }
  for (const [id, value] of [['workers', run.fleet.wanted], ['servers', run.servers.wanted]]) {
    if (byId(id).value === '' && document.activeElement !== byId(id)) byId(id).value = value;
  }
  if (!byId('modes').dataset.isSet) {
    byId('modes').value = run.mode.split(':')[0];
    byId('modes').dataset.isSet = '1';
  }
}

function showRuns() {
  byId('runs').hidden = runs.length < 2;
  if (runs.length < 2) return;
  fillTable(byId('runs-table'), [{title: 'plot'}, {title: 'run', left: true}, {title: 'state', left: true},
    {title: 'loss'}, {title: 'test'}, {title: 'samples', wide: true}, {title: 'time'}, {title: 'cost', wide: true}],
  runs.map((run) => {
    if (!run.box) {
      run.box = document.createElement('input');
      run.box.type = 'checkbox';
      run.box.setAttribute('aria-label', 'plot ' + run.id);
      run.box.addEventListener('change', () => {
        run.isShown = run.box.checked;
        update();
      });
      run.button = document.createElement('button');
      run.button.className = 'small';
      run.button.textContent = run.id;
      run.button.addEventListener('click', () => setFocus(run));
    }
    run.box.checked = run.isShown;
    const s = run.state ? run.state.run : null;
    return {cells: [{node: run.box}, {node: run.button}, s ? {text: s.state, className: s.state} : '…',
      s ? fixed(s.train_loss, 4) : '', s ? (s.metric === 'r2' ? 'r2 ' : '') + metricText(s, s.test_accuracy, 2) : '', s ? count(s.samples_counted) : '',
      s ? duration(s.elapsed_s) : '', s && s.usd_spent > 0 ? usd(s.usd_spent) : '–']};
  }));
}

// ---- Events ---------------------------------------------------------------------------------

let newestEvent = 0;

async function fetchEvents() {
  const run = focus;
  const events = await ask(`/api/events?${query(run)}&after=${newestEvent}`);
  if (run !== focus) return;
  const list = byId('events');
  for (const event of events) {
    newestEvent = Math.max(newestEvent, event.number);
    const li = document.createElement('li');
    const time = document.createElement('time');
    time.textContent = new Date(event.unix_s * 1000).toLocaleTimeString([], {hour12: false});
    time.title = new Date(event.unix_s * 1000).toISOString();
    const kind = document.createElement('span');
    kind.className = 'kind';
    kind.textContent = event.kind;
    const text = document.createElement('span');
    text.className = 'text';
    text.textContent = event.text + (event.others ? ` (else: ${event.others})` : '');
    li.append(time, kind, text);
    list.prepend(li);
  }
  while (list.children.length > EVENTS_MAX) list.lastChild.remove();
}

function setFocus(run) {
  focus = run;
  run.isShown = true;
  newestEvent = 0;
  byId('events').replaceChildren();
  update();
}

// ---- Orders ---------------------------------------------------------------------------------

function isSure(text) {
  const dialog = byId('sure');
  setText(byId('sure-text'), text);
  return new Promise((resolve) => {
    const end = (answer) => {
      byId('sure-yes').onclick = byId('sure-no').onclick = dialog.onclose = null;
      if (dialog.open) dialog.close();
      resolve(answer);
    };
    byId('sure-yes').onclick = () => end(true);
    byId('sure-no').onclick = () => end(false);
    dialog.onclose = () => end(false);
    dialog.showModal();
  });
}

async function order(what, question) {
  if (question && !await isSure(question)) return;
  const said = byId('said');
  try {
    const reply = await ask('/api/control?' + query(focus), {
      method: 'POST', body: JSON.stringify(what), headers: {'Content-Type': 'application/json'}});
    said.className = '';
    setText(said, reply.said);
  } catch (error) {
    said.className = 'failed';
    setText(said, 'not done: ' + error.message);
  }
  update();
}

byId('do-pause').addEventListener('click', () => focus.state.run.state === 'paused'
  ? order({do: 'continue'})
  : order({do: 'pause'}, 'Training pauses after the steps in hand, and a checkpoint is written.'));
byId('do-checkpoint').addEventListener('click', () => order({do: 'checkpoint'}));
byId('do-scale').addEventListener('click', () => {
  const workers = Number(byId('workers').value);
  const type = byId('type').value;
  order({do: 'scale', workers, ...(type ? {type} : {})},
    `${workers} workers${type ? ' of type ' + type : ''} are to train from now on.`);
});
byId('do-servers').addEventListener('click', () => {
  const servers = Number(byId('servers').value);
  order({do: 'scale', servers}, `${servers} servers are to have the parameters from now on.`);
});
byId('do-mode').addEventListener('click', () => {
  const mode = byId('modes').value;
  order({do: 'mode', mode}, `The run trains in mode ${mode} from now on.`);
});
byId('do-stop').addEventListener('click', () => order({do: 'stop'},
  'The run ends after the steps in hand and leaves its model. This can not be taken back.'));

// ---- Again and again ------------------------------------------------------------------------

function showTrouble(text) {
  byId('trouble').hidden = text === '';
  setText(byId('trouble'), text);
}

async function look() {
  if (runs.length === 0) {
    for (const {run} of await ask('/api/runs')) runs.push(newRun(run));
    runs.slice(-SHOWN_RUNS_MAX).forEach((run) => run.isShown = true);
    focus = runs[runs.length - 1];
  }
  await fetchState(focus);
  showRun();
  for (const run of runs) {
    if (run !== focus && runs.length > 1) await fetchState(run);
    if (run.isShown) await fetchHistory(run);
  }
  showRuns();
  drawCharts();
  await fetchEvents();
  showTrouble('');
}

let timer = 0;
let isLooking = false;

async function update() {
  clearTimeout(timer);
  if (isLooking) return;
  isLooking = true;
  try {
    await look();
  } catch (error) {
    const wasEnding = focus && focus.state && (focus.state.run.is_ended || focus.state.run.detail.includes('stop'));
    showTrouble(error.status ? error.message
      : wasEnding ? 'The run has ended, and its page with it. See it again with: psctl page ' + focus.id
        : 'No answer: the run has ended, or the way to it is cut. This page tries again. After its end: psctl page ' + (focus ? focus.id : 'RUN'));
  } finally {
    isLooking = false;
  }
  document.documentElement.dataset.looks = String(Number(document.documentElement.dataset.looks || 0) + 1);
  timer = setTimeout(update, document.hidden ? 10000 : 1000);
}

document.addEventListener('visibilitychange', () => document.hidden || update());
window.addEventListener('resize', () => runs.length && drawCharts());
window.addEventListener('hashchange', () => location.reload());
update();
