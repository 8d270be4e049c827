/* Draws GPUs in their places on a canvas, with zoom and pan. Reads what to draw from data-spec of every .fleetmap. */
(function () {
  "use strict";

  const CELL = 10, GAP = 2, PAD = 3, LABEL = 6, APART = 5, BETWEEN = 14;
  const BAR_BELOW_PX = 2.2, GROUP_BELOW_PX = 5, NUMBER_FROM_PX = 15, LABEL_FROM_PX = 8.5, FRAME_FROM_PX = 9;
  const CELL_MAX_PX = 64, TOOLS_PX = 42, STEP = 1.35, KEY_PX = 60, CLICK_PX = 4;
  const PICTURE_FROM = 1500, PICTURE_EDGE = 0.5, SETTLE_MS = 150;
  const views = new Map();

  /* Positions, in units of the drawing. ---------------------------------------------------------- */

  function nodeColumns(gpus) {
    return gpus <= 1 ? 1 : gpus <= 4 ? 2 : gpus <= 16 ? 4 : Math.ceil(Math.sqrt(gpus * 2));
  }

  function measured(spec) {
    const groups = spec.groups.map(function (group) {
      const nodes = group.nodes.map(function (node) {
        const columns = nodeColumns(node.c.length), rows = Math.ceil(node.c.length / columns);
        return {
          data: node, columns: columns,
          w: columns * CELL + (columns - 1) * GAP + 2 * PAD,
          h: rows * CELL + (rows - 1) * GAP + 2 * PAD + LABEL,
        };
      });
      const w = Math.max.apply(null, nodes.map(function (n) { return n.w; }));
      const h = Math.max.apply(null, nodes.map(function (n) { return n.h; }));
      const across = Math.max(1, Math.min(nodes.length, Math.round(Math.sqrt(nodes.length * 1.7 * h / w))));
      const down = Math.ceil(nodes.length / across);
      const width = across * (w + APART) - APART + 2 * APART;
      const head = Math.max(12, 0.11 * width);
      nodes.forEach(function (node, n) {
        node.x = APART + (n % across) * (w + APART);
        node.y = head + Math.floor(n / across) * (h + APART);
      });
      return { data: group, nodes: nodes, w: width, h: head + down * (h + APART), head: head };
    });
    return groups;
  }

  function shelves(groups, width) {
    let x = 0, y = 0, tall = 0, most = 0;
    groups.forEach(function (group) {
      if (x > 0 && x + group.w > width) { y += tall + BETWEEN; x = 0; tall = 0; }
      group.x = x; group.y = y;
      x += group.w + BETWEEN;
      most = Math.max(most, x - BETWEEN);
      tall = Math.max(tall, group.h);
    });
    return { w: most, h: y + tall };
  }

  /* The width at which rows of groups fill a canvas of this shape best. */
  function arranged(groups, aspect) {
    const widest = Math.max.apply(null, groups.map(function (g) { return g.w; }));
    const area = groups.reduce(function (sum, g) { return sum + (g.w + BETWEEN) * (g.h + BETWEEN); }, 0);
    let best = null;
    for (let step = 0; step < 24; step += 1) {
      const width = Math.max(widest, Math.sqrt(area * aspect) * (0.7 + 0.04 * step));
      const size = shelves(groups, width);
      const scale = Math.min(aspect / size.w, 1 / size.h);
      if (best === null || scale > best.scale) { best = { width: width, scale: scale }; }
    }
    return shelves(groups, best.width);
  }

  function cellAt(node, n) {
    return {
      x: PAD + (n % node.columns) * (CELL + GAP),
      y: LABEL + PAD + Math.floor(n / node.columns) * (CELL + GAP),
    };
  }

  /* What all names begin and end with, as in gpu-node-0017.example.org: a short label leaves it out. */
  function alike(names) {
    const first = names[0] || "", least = Math.min.apply(null, names.map(function (name) { return name.length; }));
    const same = function (at, of) { return names.every(function (name) { return of(name, at) === of(first, at); }); };
    let head = 0, tail = 0;
    while (head < least && same(head, function (name, at) { return name[at]; })) { head += 1; }
    while (head + tail < least && same(tail, function (name, at) { return name[name.length - 1 - at]; })) { tail += 1; }
    const start = first.slice(0, head).search(/[^-_.]*$/), end = tail ? first.slice(first.length - tail).indexOf(".") : -1;
    return names.length < 2 ? [0, 0] : [start, end < 0 ? 0 : tail - end];
  }

  /* One drawing. ---------------------------------------------------------------------------------- */

  function Drawing(element) {
    this.element = element;
    this.stage = element.querySelector(".fleetmap-stage");
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.tip = document.createElement("div");
    this.tip.className = "fleetmap-tip";
    this.tip.hidden = true;
    this.tools = document.createElement("div");
    this.tools.className = "fleetmap-tools";
    this.stage.append(this.canvas, this.tip, this.tools);
    this.button("+", "Zoom in", function () { this.zoom(STEP * STEP); });
    this.button("−", "Zoom out", function () { this.zoom(1 / STEP / STEP); });
    this.button("⤢", "Show everything", function () { this.fit(); });
    this.listen();
    new ResizeObserver(this.resized.bind(this)).observe(this.stage);
  }

  Drawing.prototype.button = function (sign, label, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = sign;
    made.title = label;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", act.bind(this));
    this.tools.append(made);
  };

  Drawing.prototype.read = function (text) {
    const began = performance.now(), spec = JSON.parse(text);
    this.source = text;
    this.spec = spec;
    this.canvas.setAttribute("aria-label", spec.label);
    this.groups = spec.groups.length ? measured(spec) : [];
    this.index = new Map();
    this.groups.forEach(function (group) {
      group.nodes.forEach(function (node) { this.index.set(node.data.k, { group: group, node: node }); }, this);
    }, this);
    this.alike = alike(Array.from(this.index.values(), function (found) { return found.node.data.n; }));
    const before = views.get(spec.id);
    this.size();
    this.arrange();
    if (before && before.focus === spec.focus && before.width === this.width) {
      this.view = before;
      this.draw();
    } else {
      this.fit(spec.focus ? this.marked() : null);
    }
    this.canvas.dataset.gpus = String(this.gpus());
    this.canvas.dataset.firstMs = (performance.now() - began).toFixed(1);
  };

  Drawing.prototype.gpus = function () {
    return this.groups.reduce(function (sum, group) {
      return sum + group.nodes.reduce(function (some, node) { return some + node.data.c.length; }, 0);
    }, 0);
  };

  Drawing.prototype.size = function () {
    this.width = this.stage.clientWidth;
    this.height = this.stage.clientHeight;
    this.ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
  };

  Drawing.prototype.arrange = function () {
    this.whole = this.groups.length ? arranged(this.groups, (this.width - TOOLS_PX) / Math.max(1, this.height)) : { w: 1, h: 1 };
  };

  Drawing.prototype.resized = function () {
    if (!this.spec || (this.stage.clientWidth === this.width && this.stage.clientHeight === this.height)) { return; }
    this.size();
    this.arrange();
    this.fit(this.spec.focus ? this.marked() : null);
  };

  /* The box around the marked GPUs; null where nothing is marked. */
  Drawing.prototype.marked = function () {
    let box = null;
    this.spec.marks.forEach(function (mark) {
      Object.keys(mark.at).forEach(function (key) {
        const found = this.index.get(key);
        if (!found) { return; }
        const x = found.group.x + found.node.x, y = found.group.y + found.node.y;
        box = box || { x0: x, y0: y, x1: x, y1: y };
        box = {
          x0: Math.min(box.x0, x), y0: Math.min(box.y0, y),
          x1: Math.max(box.x1, x + found.node.w), y1: Math.max(box.y1, y + found.node.h),
        };
      }, this);
    }, this);
    return box;
  };

  Drawing.prototype.fit = function (box) {
    const at = box || { x0: 0, y0: 0, x1: this.whole.w, y1: this.whole.h }, edge = box ? 24 : 4;
    const w = at.x1 - at.x0, h = at.y1 - at.y0;
    const width = this.width - (box ? 0 : TOOLS_PX);
    const scale = Math.min((width - 2 * edge) / w, (this.height - 2 * edge) / h, (box ? 34 : CELL_MAX_PX) / CELL);
    this.view = {
      scale: scale, focus: this.spec.focus, width: this.width,
      x: at.x0 - (width / scale - w) / 2, y: at.y0 - (this.height / scale - h) / 2,
    };
    if (!box) { this.view.y = -edge / scale; }
    this.draw();
  };

  Drawing.prototype.zoom = function (by, px, py) {
    const x = px === undefined ? this.width / 2 : px, y = py === undefined ? this.height / 2 : py, view = this.view;
    const least = Math.min(this.width / this.whole.w, this.height / this.whole.h) * 0.8;
    const scale = Math.max(least, Math.min(CELL_MAX_PX / CELL, view.scale * by));
    view.x += x / view.scale - x / scale;
    view.y += y / view.scale - y / scale;
    view.scale = scale;
    this.ask();
  };

  Drawing.prototype.pan = function (dx, dy) {
    const view = this.view, spare = 40 / view.scale;
    const low = function (size, pixels) { return Math.min(0, size - pixels / view.scale) - spare; };
    const high = function (size, pixels) { return Math.max(0, size - pixels / view.scale) + spare; };
    view.x = Math.max(low(this.whole.w, this.width), Math.min(high(this.whole.w, this.width), view.x - dx / view.scale));
    view.y = Math.max(low(this.whole.h, this.height), Math.min(high(this.whole.h, this.height), view.y - dy / view.scale));
    this.ask(Number(this.canvas.dataset.drawn) >= PICTURE_FROM);
  };

  /* Draws once before the next frame, however often it is asked. `moved`: many GPUs only move. */
  Drawing.prototype.ask = function (moved) {
    this.whole_again = this.whole_again || !moved;
    if (this.asked) { return; }
    this.asked = true;
    requestAnimationFrame(function () {
      const again = this.whole_again;
      this.asked = this.whole_again = false;
      if (again) { this.draw(); } else { this.slide(); }
    }.bind(this));
  };

  /* Moves a picture of the GPUs, which reaches beyond the canvas, and draws them when the movement ends. */
  Drawing.prototype.slide = function () {
    const began = performance.now(), view = this.view, scale = view.scale, context = this.canvas.getContext("2d");
    const reach = function (size) { return size * PICTURE_EDGE / scale; };
    let picture = this.picture;
    if (!picture || picture.scale !== scale || Math.abs(picture.x - view.x) > reach(this.width) || Math.abs(picture.y - view.y) > reach(this.height)) {
      picture = this.picture = this.pictured();
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(
      picture.canvas,
      Math.round(((picture.x - view.x) * scale - this.width * PICTURE_EDGE) * this.ratio),
      Math.round(((picture.y - view.y) * scale - this.height * PICTURE_EDGE) * this.ratio));
    this.counted(began);
    clearTimeout(this.settling);
    this.settling = setTimeout(this.ask.bind(this), SETTLE_MS);
  };

  Drawing.prototype.pictured = function () {
    const view = this.view, width = this.width, height = this.height, canvas = document.createElement("canvas");
    const made = { canvas: canvas, x: view.x, y: view.y, scale: view.scale };
    this.width *= 1 + 2 * PICTURE_EDGE;
    this.height *= 1 + 2 * PICTURE_EDGE;
    this.view = Object.assign({}, view, { x: view.x - width * PICTURE_EDGE / view.scale, y: view.y - height * PICTURE_EDGE / view.scale });
    canvas.width = Math.round(this.width * this.ratio);
    canvas.height = Math.round(this.height * this.ratio);
    this.paint(canvas.getContext("2d", {willReadFrequently: true}));
    this.width = width;
    this.height = height;
    this.view = view;
    this.canvas.dataset.pictures = String(Number(this.canvas.dataset.pictures || 0) + 1);
    return made;
  };

  Drawing.prototype.counted = function (began) {
    this.canvas.dataset.ms = (performance.now() - began).toFixed(2);
    this.canvas.dataset.frames = String(Number(this.canvas.dataset.frames || 0) + 1);
  };

  Drawing.prototype.colours = function (context) {
    const style = getComputedStyle(this.element), of = function (name) { return style.getPropertyValue(name).trim(); };
    this.ink = { text: of("--ink"), muted: of("--muted"), line: of("--line"), soft: of("--soft"), card: of("--card"), focus: of("--focus") };
    return this.spec.classes.map(function (one) {
      if (!one.h) { return one.f; }
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const pen = tile.getContext("2d");
      pen.fillStyle = this.ink.card;
      pen.fillRect(0, 0, 6, 6);
      pen.strokeStyle = one.f;
      pen.lineWidth = 2;
      [-3, 0, 3, 6, 9].forEach(function (at) { pen.moveTo(at - 3, 9); pen.lineTo(at + 9, -3); });
      pen.stroke();
      return context.createPattern(tile, "repeat");
    }, this);
  };

  Drawing.prototype.draw = function () {
    const began = performance.now();
    views.set(this.spec.id, this.view);
    this.picture = null;
    clearTimeout(this.settling);
    this.canvas.dataset.drawn = String(this.paint(this.canvas.getContext("2d")));
    this.counted(began);
    const whole = Math.min(this.width / this.whole.w, this.height / this.whole.h);
    this.canvas.style.touchAction = this.view.scale > whole * 1.05 ? "none" : "pan-y";
  };

  /* Draws what lies within the width and height; returns how many GPUs. */
  Drawing.prototype.paint = function (context) {
    const view = this.view, scale = view.scale;
    const fills = this.colours(context), cells = fills.map(function () { return []; });
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const px = CELL * scale;
    let drawn = 0;
    this.labels = [];
    this.groups.forEach(function (group) {
      const gx = (group.x - view.x) * scale, gy = (group.y - view.y) * scale;
      if (gx > this.width || gy > this.height || gx + group.w * scale < 0 || gy + group.h * scale < 0) { return; }
      context.fillStyle = this.ink.card;
      context.strokeStyle = this.ink.line;
      context.lineWidth = 1;
      context.beginPath();
      context.roundRect(gx, gy, group.w * scale, group.h * scale, Math.min(6, 4 * scale));
      context.fill();
      context.stroke();
      this.title(context, group, gx, gy, scale);
      if (group.nodes[0].w * scale < GROUP_BELOW_PX) {
        this.shares(context, fills, group.nodes, gx + 1, gy + group.head * scale, group.w * scale - 2, (group.h - group.head) * scale - 1);
        drawn += 1;
        return;
      }
      group.nodes.forEach(function (node) {
        const nx = gx + node.x * scale, ny = gy + node.y * scale;
        if (nx > this.width || ny > this.height || nx + node.w * scale < 0 || ny + node.h * scale < 0) { return; }
        drawn += node.data.c.length;
        context.fillStyle = this.ink.soft;
        context.fillRect(nx, ny + LABEL * scale, node.w * scale, (node.h - LABEL) * scale);
        if (px < BAR_BELOW_PX) {
          this.shares(context, fills, [node], nx, ny + LABEL * scale, node.w * scale, (node.h - LABEL) * scale);
          return;
        }
        if (LABEL * scale >= LABEL_FROM_PX) { this.labels.push([node.data.n, nx, ny, node.w * scale, LABEL * scale]); }
        if (px >= FRAME_FROM_PX && node.data.i) { this.islands(context, node, nx, ny, scale); }
        node.data.c.forEach(function (kind, n) {
          const at = cellAt(node, n);
          cells[kind].push(nx + at.x * scale, ny + at.y * scale, node.data.x ? node.data.x[n] : n, node.data.t ? node.data.t[n] : -1);
        });
      }, this);
    }, this);
    const dim = this.spec.marks.some(function (mark) { return mark.dim; }) && Object.keys(this.spec.marks[0].at).length;
    cells.forEach(function (places, kind) {
      context.fillStyle = fills[kind];
      context.globalAlpha = dim ? 0.45 : 1;
      for (let n = 0; n < places.length; n += 4) { context.fillRect(places[n], places[n + 1], px, px); }
    });
    context.globalAlpha = 1;
    this.labels.forEach(function (label) {
      const size = Math.min(12, label[4] * 0.92);
      this.text(context, this.short(context, label[0], label[3] - 2, size), label[1] + 1, label[2] + label[4] - 2, label[3] - 2, size, this.ink.muted);
    }, this);
    this.spec.marks.forEach(function (mark) { this.outline(context, mark, scale, fills); }, this);
    this.words(context, cells, px);
    if (this.spec.selected) { this.select(context, this.spec.selected, scale); }
    return drawn;
  };

  /* Numbers in cells that are large enough, and the job where there is room for it. */
  Drawing.prototype.words = function (context, cells, px) {
    if (px < NUMBER_FROM_PX) { return; }
    cells.forEach(function (places, kind) {
      const ink = this.spec.classes[kind].i;
      for (let n = 0; n < places.length; n += 4) {
        const size = Math.min(12, px * 0.5);
        this.text(context, String(places[n + 2]), places[n] + 3, places[n + 1] + size + 1, px - 5, size, ink);
        if (px >= 44 && places[n + 3] >= 0) {
          this.text(context, this.spec.tips[places[n + 3]], places[n] + 3, places[n + 1] + px - 5, px - 5, 10, ink);
        }
      }
    }, this);
  };

  Drawing.prototype.title = function (context, group, x, y, scale) {
    const strip = group.head * scale, size = Math.min(14, strip * 0.7);
    if (size < 6.5) { return; }
    const most = group.w * scale - 10, left = Math.max(x, 0) + 5;
    const room = most - (left - x - 5);
    context.font = "600 " + size.toFixed(1) + "px system-ui, sans-serif";
    const fitted = Math.max(Math.min(size, 8), Math.min(size, size * room / Math.max(1, context.measureText(group.data.t).width)));
    this.text(context, group.data.t, left, y + strip * 0.5 + fitted * 0.34, room, fitted, this.ink.text, true);
  };

  /* A name of a node, without what all names have in common where it is too long. */
  Drawing.prototype.short = function (context, name, most, size) {
    context.font = size.toFixed(1) + "px system-ui, sans-serif";
    if (context.measureText(name).width <= most) { return name; }
    const whole = name.slice(this.alike[0]), tail = this.alike[1];
    const ended = tail && context.measureText(whole).width > most ? whole.slice(0, -tail) : whole;
    const begun = (this.alike[0] ? "…" : "") + ended;
    return context.measureText(begun).width <= most ? begun : ended;
  };

  Drawing.prototype.text = function (context, words, x, y, most, size, colour, strong) {
    if (most < 8) { return; }
    context.font = (strong ? "600 " : "") + size.toFixed(1) + "px system-ui, sans-serif";
    context.fillStyle = colour;
    let shown = words;
    const room = Math.floor(most / (size * 0.42));
    if (shown.length > room) { shown = shown.slice(0, Math.max(0, room)); }
    while (shown.length > 1 && context.measureText(shown + (shown === words ? "" : "…")).width > most) { shown = shown.slice(0, -1); }
    if (shown.length < 2 && words.length > 2) { return; }
    context.fillText(shown === words ? shown : shown + "…", x, y);
  };

  /* A box as one bar, divided by how many GPUs are of each class. */
  Drawing.prototype.shares = function (context, fills, nodes, x, y, w, h) {
    const counts = fills.map(function () { return 0; });
    let all = 0;
    nodes.forEach(function (node) { node.data.c.forEach(function (kind) { counts[kind] += 1; all += 1; }); });
    let at = x;
    counts.forEach(function (count, kind) {
      const part = w * count / all;
      context.fillStyle = fills[kind];
      context.fillRect(at, y, part, h);
      at += part;
    });
  };

  /* A frame around the GPUs that NVLink connects. */
  Drawing.prototype.islands = function (context, node, nx, ny, scale) {
    const boxes = new Map();
    node.data.i.forEach(function (island, n) {
      if (island === null) { return; }
      const at = cellAt(node, n), box = boxes.get(island) || [at.x, at.y, at.x, at.y, 0];
      boxes.set(island, [Math.min(box[0], at.x), Math.min(box[1], at.y), Math.max(box[2], at.x), Math.max(box[3], at.y), box[4] + 1]);
    });
    context.strokeStyle = this.ink.muted;
    context.lineWidth = 1;
    boxes.forEach(function (box) {
      if (box[4] < 2) { return; }
      context.strokeRect(nx + (box[0] - 1.6) * scale, ny + (box[1] - 1.6) * scale, (box[2] - box[0] + CELL + 3.2) * scale, (box[3] - box[1] + CELL + 3.2) * scale);
    });
  };

  /* Marked GPUs: held solid, ghosts dashed. Nodes too small for cells get one frame. */
  Drawing.prototype.outline = function (context, mark, scale, fills) {
    const colour = mark.ghost ? this.ink.focus : this.ink.text, px = CELL * scale, view = this.view;
    Object.keys(mark.at).forEach(function (key) {
      const found = this.index.get(key);
      if (!found) { return; }
      const nx = (found.group.x + found.node.x - view.x) * scale, ny = (found.group.y + found.node.y - view.y) * scale;
      if (nx > this.width || ny > this.height || nx + found.node.w * scale < 0 || ny + found.node.h * scale < 0) { return; }
      context.strokeStyle = colour;
      context.lineWidth = px >= 6 ? 2 : 1.5;
      context.setLineDash(mark.ghost ? [4, 3] : []);
      if (px < 4) {
        context.strokeRect(nx - 1, ny + LABEL * scale - 1, found.node.w * scale + 2, (found.node.h - LABEL) * scale + 2);
        return;
      }
      mark.at[key].forEach(function (n) {
        const at = cellAt(found.node, n), x = nx + at.x * scale, y = ny + at.y * scale;
        if (!mark.ghost) {
          context.fillStyle = fills[found.node.data.c[n]];
          context.fillRect(x, y, px, px);
        }
        context.strokeRect(x, y, px, px);
      });
    }, this);
    context.setLineDash([]);
  };

  Drawing.prototype.select = function (context, key, scale) {
    const found = this.index.get(key);
    if (!found) { return; }
    context.strokeStyle = this.ink.focus;
    context.lineWidth = 2.5;
    context.strokeRect(
      (found.group.x + found.node.x - this.view.x) * scale - 2, (found.group.y + found.node.y + LABEL - this.view.y) * scale - 2,
      found.node.w * scale + 4, (found.node.h - LABEL) * scale + 4);
  };

  /* What lies under a point of the canvas. */
  Drawing.prototype.under = function (px, py) {
    const x = px / this.view.scale + this.view.x, y = py / this.view.scale + this.view.y;
    const within = function (box, left, top) { return x >= left && x <= left + box.w && y >= top && y <= top + box.h; };
    const group = this.groups.find(function (one) { return within(one, one.x, one.y); });
    if (!group) { return null; }
    const node = group.nodes.find(function (one) { return within(one, group.x + one.x, group.y + one.y); });
    if (!node) { return { group: group }; }
    const column = Math.floor((x - group.x - node.x - PAD + GAP / 2) / (CELL + GAP));
    const row = Math.floor((y - group.y - node.y - LABEL - PAD + GAP / 2) / (CELL + GAP));
    const n = row * node.columns + column;
    const inside = column >= 0 && column < node.columns && row >= 0 && n < node.data.c.length;
    return { group: group, node: node, gpu: inside ? n : null };
  };

  Drawing.prototype.listen = function () {
    const canvas = this.canvas, touches = new Map();
    let moved = 0, apart = 0;
    const spread = function () {
      const points = Array.from(touches.values());
      return points.length < 2 ? 0 : Math.hypot(points[0].x - points[1].x, points[0].y - points[1].y);
    };
    canvas.addEventListener("pointerdown", function (event) {
      touches.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      canvas.setPointerCapture(event.pointerId);
      moved = 0;
      apart = spread();
    });
    canvas.addEventListener("pointermove", function (event) {
      const last = touches.get(event.pointerId);
      if (!last) { this.hover(event.offsetX, event.offsetY); return; }
      const dx = event.offsetX - last.x, dy = event.offsetY - last.y;
      touches.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      moved += Math.abs(dx) + Math.abs(dy);
      const now = spread();
      if (now && apart) { this.zoom(now / apart, event.offsetX, event.offsetY); apart = now; } else { this.pan(dx, dy); }
      this.tip.hidden = true;
    }.bind(this));
    const release = function (event) {
      const was = touches.delete(event.pointerId);
      if (was && event.type === "pointerup" && moved <= CLICK_PX) { this.open(event.offsetX, event.offsetY); }
    }.bind(this);
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", function () { this.tip.hidden = true; }.bind(this));
    canvas.addEventListener("wheel", function (event) {
      if (!event.ctrlKey && !event.metaKey) { return; }
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? STEP : 1 / STEP, event.offsetX, event.offsetY);
    }.bind(this), { passive: false });
    canvas.addEventListener("keydown", function (event) {
      const moves = { ArrowLeft: [KEY_PX, 0], ArrowRight: [-KEY_PX, 0], ArrowUp: [0, KEY_PX], ArrowDown: [0, -KEY_PX] };
      if (event.ctrlKey || event.metaKey || event.altKey) { return; }
      if (moves[event.key]) { this.pan(moves[event.key][0], moves[event.key][1]); }
      else if (event.key === "+" || event.key === "=") { this.zoom(STEP); }
      else if (event.key === "-") { this.zoom(1 / STEP); }
      else if (event.key === "0") { this.fit(); }
      else { return; }
      event.preventDefault();
    }.bind(this));
  };

  Drawing.prototype.hover = function (x, y) {
    const found = this.under(x, y);
    this.canvas.style.cursor = found && found.node && this.spec.link ? "pointer" : "grab";
    if (!found) { this.tip.hidden = true; return; }
    const lines = [found.node ? found.node.data.n : found.group.data.t];
    if (found.node && found.gpu !== null) {
      const data = found.node.data;
      lines.push("GPU " + (data.x ? data.x[found.gpu] : found.gpu) + ": " + this.spec.classes[data.c[found.gpu]].w);
      if (data.t && data.t[found.gpu] >= 0) { lines.push(this.spec.tips[data.t[found.gpu]]); }
    } else if (!found.node) {
      lines.push(found.group.nodes.length + " nodes");
    }
    this.tip.textContent = lines.join("\n");
    this.tip.hidden = false;
    this.tip.style.left = Math.max(4, Math.min(x + 14, this.width - this.tip.offsetWidth - 4)) + "px";
    this.tip.style.top = (y + 18 + this.tip.offsetHeight > this.height ? y - this.tip.offsetHeight - 8 : y + 18) + "px";
  };

  Drawing.prototype.open = function (x, y) {
    const found = this.under(x, y);
    if (!found || !found.node || !this.spec.link) { return; }
    const names = found.node.data.k.split("\u001f");
    const to = this.spec.link.replace("__NODE__", encodeURIComponent(names[1])).replace("__CLUSTER__", encodeURIComponent(names[0]));
    // The same as a click on a link of Dash, without scrolling to the top.
    window.history.pushState({}, "", to);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
  };

  /* All drawings on the page. ---------------------------------------------------------------------- */

  function refresh() {
    document.querySelectorAll(".fleetmap[data-spec]").forEach(function (element) {
      const text = element.getAttribute("data-spec");
      let drawing = element.gpuwatchDrawing;
      if (!drawing || !drawing.stage.isConnected || !drawing.canvas.isConnected) {
        drawing = element.gpuwatchDrawing = new Drawing(element);
      }
      if (drawing.source !== text && element.clientWidth) { drawing.read(text); }
    });
  }

  let waiting = false;
  function soon() {
    if (waiting) { return; }
    waiting = true;
    requestAnimationFrame(function () { waiting = false; refresh(); });
  }

  function start() {
    new MutationObserver(soon).observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-spec"] });
    new MutationObserver(function () {
      document.querySelectorAll(".fleetmap").forEach(function (element) {
        if (element.gpuwatchDrawing && element.gpuwatchDrawing.spec) { element.gpuwatchDrawing.ask(); }
      });
    }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-mantine-color-scheme"] });
    soon();
  }

  if (document.body) { start(); } else { document.addEventListener("DOMContentLoaded", start); }
}());
