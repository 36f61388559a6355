// The timeline: a lane for each party and for each direction of each link. From afar a lane shows how
// much of each moment went on what; close by it shows the spans themselves. Everything is drawn by
// two dozen shapes, however many spans there are.
"use strict";
(() => {
  const {make, refill, figure, count, seconds, bytes, percent, theme, kindInk, kindName, behind, select, tip, chart, axis,
    tooltip} = Colonnade;
  const DRAWN = 0.5; // as many spans of a lane for each pixel are drawn one by one
  const LANE = 26, LANE_MIN = 22;

  const unpack = async (text) => {
    const letters = atob(text), packed = new Uint8Array(letters.length);
    for (let place = 0; place < letters.length; place += 1) packed[place] = letters.charCodeAt(place);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };

  // The columns of page/spans.py: planes of bytes, the lowest first.
  const columns = (raw, total) => {
    let at = 0;
    return () => {
      const planes = raw[at], values = new Float64Array(total);
      at += 1;
      let scale = 1;
      for (let plane = 0; plane < planes; plane += 1, scale *= 256)
        for (let row = 0; row < total; row += 1, at += 1) values[row] += raw[at] * scale;
      return values;
    };
  };

  const decode = async (facts) => {
    const [shares, raw] = await Promise.all([unpack(facts.shares.data), unpack(facts.detail.data)]);
    const header = new DataView(raw.buffer), lanes = header.getUint32(0, true);
    const counts = Array.from({length: lanes}, (_, lane) => header.getUint32(4 + 4 * lane, true));
    const total = counts.reduce((sum, each) => sum + each, 0);
    const next = columns(raw.subarray(4 + 4 * lanes), total);
    const [start, length, kind, round, size, message, peer, staleness, track] = Array.from({length: 9}, next);
    let from = 0;
    const found = counts.map((own, place) => {
      const to = from + own, starts = start.subarray(from, to), reach = new Float64Array(own);
      let clock = 0, furthest = 0;
      for (let row = 0; row < own; row += 1) {
        clock += starts[row];
        starts[row] = clock;
        furthest = Math.max(furthest, clock + length[from + row]);
        reach[row] = furthest;
      }
      const part = (column) => column.subarray(from, to);
      const lane = {...facts.lanes[place], rows: own, start: starts, length: part(length), kind: part(kind),
        round: part(round), bytes: part(size), message: part(message), peer: part(peer),
        staleness: part(staleness), track: part(track), reach, shares: []};
      from = to;
      return lane;
    });
    const buckets = facts.shares.buckets;
    facts.shares.of.forEach(([lane, kind_], place) => {
      const levels = [Float32Array.from(shares.subarray(place * buckets, (place + 1) * buckets), (v) => v / 255)];
      while (levels[levels.length - 1].length > 32) {
        const fine = levels[levels.length - 1], coarse = new Float32Array(fine.length / 2);
        for (let row = 0; row < coarse.length; row += 1) coarse[row] = (fine[2 * row] + fine[2 * row + 1]) / 2;
        levels.push(coarse);
      }
      found[lane].shares.push({kind: kind_, levels});
    });
    return {lanes: found, duration: facts.duration_ns, buckets, facts};
  };

  // The first row of a sorted column that is not below a value.
  const below = (column, value) => {
    let low = 0, high = column.length;
    while (low < high) { const middle = (low + high) >> 1; if (column[middle] < value) low = middle + 1; else high = middle; }
    return low;
  };
  const within = (model, from, to) =>
    model.facts.detail.windows.some(([begin, end]) => from >= begin - 1 && to <= end + 1);
  const rowsOf = (lane, from, to) => [below(lane.reach, from), below(lane.start, to)];
  // Whether the spans themselves are drawn.
  const exact = (model, lane, from, to, pixels) => {
    const a = Math.max(0, from), b = Math.min(model.duration, to);
    if (!within(model, a, b)) return null;
    const [first, last] = rowsOf(lane, a, b);
    return last - first <= DRAWN * Math.max(320, pixels) ? [first, last] : null;
  };

  const Bars = echarts.graphic.extendShape({
    type: "colonnade-bars", shape: {bars: []},
    buildPath(path, shape) {
      const bars = shape.bars;
      for (let at = 0; at < bars.length; at += 4) path.rect(bars[at], bars[at + 1], bars[at + 2], bars[at + 3]);
    },
  });
  echarts.graphic.registerShape("colonnade-bars", Bars);

  const render = (model, look) => (params, api) => {
    const lane = model.lanes[params.dataIndex], area = params.coordSys;
    const begun = model.facts.start_ns / 1e9, zero = api.coord([begun, params.dataIndex]);
    const end = api.coord([begun + model.duration / 1e9, params.dataIndex]);
    const scale = (end[0] - zero[0]) / model.duration, from = (area.x - zero[0]) / scale;
    const to = from + area.width / scale, band = api.size([0, 1])[1], height = band * (lane.link ? 0.7 : 0.78);
    const top = zero[1] - height / 2, bars = new Map();
    const add = (kind, x, y, width, tall) => {
      const left = Math.max(area.x, x), right = Math.min(area.x + area.width, x + Math.max(width, 0.6));
      if (right <= left) return;
      if (!bars.has(kind)) bars.set(kind, []);
      bars.get(kind).push(left, y, right - left, tall);
    };
    const rows = exact(model, lane, from, to, area.width), wait = model.facts.kinds.indexOf("wait");
    if (rows) {
      const part = height / lane.tracks;
      for (let row = rows[0]; row < rows[1]; row += 1) {
        const kind = lane.kind[row], x = zero[0] + lane.start[row] * scale, width = lane.length[row] * scale;
        if (lane.link) add(kind, x, top + part * lane.track[row], width, Math.max(1, part - (lane.tracks > 1 ? 1 : 0)));
        else if (kind === wait) add(kind, x, top + height * 0.38, width, height * 0.24);
        else add(kind, x, top, width, height);
      }
    } else {
      let level = 0, size = model.duration / model.buckets;
      const deepest = lane.shares.length ? lane.shares[0].levels.length - 1 : 0;
      while (level < deepest && size * scale < 2) { level += 1; size *= 2; }
      const first = Math.max(0, Math.floor(from / size)), last = Math.min(model.duration / size, Math.ceil(to / size));
      for (let bucket = first; bucket < last; bucket += 1) {
        let y = top + height;
        for (const each of lane.shares) {
          const tall = each.levels[level][bucket] * height;
          if (tall < 0.2) continue;
          y -= tall;
          add(each.kind, zero[0] + bucket * size * scale, y, size * scale + 0.3, tall);
        }
      }
    }
    const children = [{type: "rect", shape: {x: area.x, y: zero[1] - band / 2, width: area.width, height: band},
      style: {fill: "transparent"}}];
    for (const [kind, list] of bars)
      children.push({type: "colonnade-bars", silent: true, shape: {bars: list},
        style: {fill: kindInk(model.facts.kinds[kind], kind, look)}});
    return {type: "group", children};
  };

  // What there is to say of a row of a lane.
  const spanLines = (model, lane, row, look) => {
    const facts = model.facts, kind = facts.kinds[lane.kind[row]];
    const message = facts.messages[lane.message[row]], peer = lane.link ? "" : facts.peers[lane.peer[row]];
    return [
      ["what", kindName(kind), look ? kindInk(kind, lane.kind[row], look) : null],
      lane.round[row] ? ["round", count(lane.round[row])] : null,
      lane.staleness[row] ? ["staleness", count(lane.staleness[row] - 1)] : null,
      lane.bytes[row] ? ["bytes", bytes(lane.bytes[row])] : null,
      message ? ["message", message] : null,
      peer ? [kind === "wait" ? "for" : "with", peer] : null,
      ["from", seconds((lane.start[row] + facts.start_ns) / 1e9, 6)],
      ["took", seconds(lane.length[row] / 1e9)],
    ];
  };
  const shareLines = (model, lane, level, bucket, look) => lane.shares
    .map((each) => [each.kind, each.levels[level][bucket]]).filter(([, share]) => share > 0.002)
    .map(([kind, share]) => [kindName(model.facts.kinds[kind]), percent(share), kindInk(model.facts.kinds[kind], kind, look)]);

  const hover = (model, view, pointer, look) => (params) => {
    const lane = model.lanes[params.dataIndex], at = pointer.time() * 1e9;
    const {from, to, pixel, area} = view();
    const rows = exact(model, lane, from, to, area.width);
    if (rows) {
      let found = -1;
      const near = 3 * pixel;
      for (let row = rows[0]; row < rows[1] && lane.start[row] <= at + near; row += 1) {
        const hits = lane.start[row] <= at + near && lane.start[row] + lane.length[row] >= at - near;
        if (hits && (found < 0 || lane.track[row] === pointer.track(lane) || lane.start[row] <= at)) found = row;
      }
      return found < 0 ? tip(lane.name, [["at", seconds((at + model.facts.start_ns) / 1e9, 6)], ["what", lane.link ? "nothing under way" : "nothing recorded"]])
        : tip(lane.name, spanLines(model, lane, found, look));
    }
    let level = 0, size = model.duration / model.buckets;
    const deepest = lane.shares.length ? lane.shares[0].levels.length - 1 : 0;
    while (level < deepest && size / pixel < 2) { level += 1; size *= 2; }
    const bucket = Math.min(Math.floor(at / size), model.duration / size - 1);
    const title = `${lane.name}, ${seconds(size / 1e9)} from ${seconds((bucket * size + model.facts.start_ns) / 1e9, 5)}`;
    return tip(title, shareLines(model, lane, level, Math.max(0, bucket), look));
  };

  Colonnade.timeline = () => {
    let model = null, facts = null, lookedAt = null, laneChosen = 0, rowChosen = -1;
    const drawn = chart("Timeline", 200), note = make("p", {class: "soft"}), legend = make("ul", {class: "legend"});
    const said = make("output", {class: "said", "aria-live": "polite"});
    const lanes = make("span", {});
    const zoomed = () => {
      const option = drawn.instance && drawn.instance.getOption();
      const zoom = option && option.dataZoom && option.dataZoom[0];
      return zoom ? [zoom.start, zoom.end] : [0, 100];
    };
    const zoom = (start, end) => {
      if (!drawn.instance) return;
      const width = Math.min(100, Math.max(1e-4, end - start));
      const left = Math.min(100 - width, Math.max(0, start));
      drawn.instance.dispatchAction({type: "dataZoom", start: left, end: left + width});
    };
    const by = (factor) => { const [a, b] = zoomed(), middle = (a + b) / 2, half = (b - a) / 2 * factor; zoom(middle - half, middle + half); };
    const move = (share) => { const [a, b] = zoomed(); zoom(a + (b - a) * share, b + (b - a) * share); };
    const view = () => {
      const area = drawn.instance.getModel().getComponent("grid").coordinateSystem.getRect();
      const [a, b] = zoomed(), from = model.duration * a / 100, to = model.duration * b / 100;
      return {from, to, pixel: (to - from) / area.width, area};
    };
    const pointer = {
      x: 0, y: 0,
      time: () => { const {from, pixel, area} = view(); return (from + (pointer.x - area.x) * pixel) / 1e9; },
      track: (lane) => {
        const {area} = view(), band = area.height / model.lanes.length;
        return Math.floor(((pointer.y - area.y) % band - band * 0.15) / (band * 0.7) * lane.tracks);
      },
    };
    const state = () => {
      if (!model) return;
      const {from, to, area} = view(), all = model.lanes.every((lane) => exact(model, lane, from, to, area.width));
      const detail = facts.detail, kept = detail.whole ? "Zoom in to see the spans themselves."
        : `Spans one by one are kept for ${detail.windows.map(([a, b]) => `${seconds((a + facts.start_ns) / 1e9)} to ${seconds((b + facts.start_ns) / 1e9)}`).join(", ")}; elsewhere zooming shows finer shares.`;
      note.textContent = all ? `Every span is shown, ${seconds((to - from) / 1e9)} in view.`
        : `${count(facts.spans)} spans, aggregated: each column is the share of its time that went on each kind. ${kept}`;
      note.dataset.detail = all ? "spans" : "shares";
    };
    const step = (forward) => {
      if (!model) return;
      const lane = model.lanes[laneChosen], {from, to} = view();
      const rows = within(model, Math.max(0, from), Math.min(model.duration, to)) ? rowsOf(lane, from, to) : null;
      if (!rows || rows[0] >= rows[1]) { said.textContent = "No single spans here: zoom in first."; return; }
      if (rowChosen < rows[0] || rowChosen >= rows[1]) rowChosen = forward ? rows[0] : rows[1] - 1;
      else rowChosen = Math.min(rows[1] - 1, Math.max(rows[0], rowChosen + (forward ? 1 : -1)));
      said.textContent = `${lane.name}: ` + spanLines(model, lane, rowChosen).filter((line) => line)
        .map(([name, value]) => `${name} ${value}`).join(", ");
    };
    const button = (text, label, act) => make("button", {type: "button", "aria-label": label, title: label, on: {click: act}}, text);
    const controls = make("div", {class: "controls"},
      button("+", "Zoom in", () => by(0.5)), button("−", "Zoom out", () => by(2)),
      button("←", "Earlier", () => move(-0.5)), button("→", "Later", () => move(0.5)),
      button("Whole run", "Show the whole run", () => zoom(0, 100)),
      button("First rounds", "Show the first rounds", () => zoom(0, model ? 100 * Math.min(1, model.early / model.duration) : 1)),
      lanes, button("‹ span", "Previous span of the lane", () => step(false)), button("span ›", "Next span of the lane", () => step(true)));
    drawn.box.setAttribute("role", "group");
    drawn.box.setAttribute("tabindex", "0");
    drawn.box.addEventListener("keydown", (event) => {
      const act = {"+": () => by(0.5), "=": () => by(0.5), "-": () => by(2), ArrowLeft: () => move(-0.25),
        ArrowRight: () => move(0.25), Home: () => zoom(0, 100), ",": () => step(false), ".": () => step(true)}[event.key];
      if (act) { event.preventDefault(); act(); }
    });
    const data = behind("timeline", () => ({
      columns: [{title: "party", value: (row) => row.party}, {title: "kind", value: (row) => row.kind},
        {title: "spans", value: (row) => row.spans, show: count, number: true},
        {title: "seconds", value: (row) => row.ns / 1e9, show: (value) => figure(value, 6), number: true}],
      rows: lookedAt ? lookedAt.time : [],
    }));
    const begun = () => facts.start_ns / 1e9;
    const option = (look) => {
      const narrow = drawn.box.clientWidth < 560, longest = Math.max(...model.lanes.map((lane) => lane.name.length));
      const wide = Math.min(narrow ? 96 : 190, 18 + 7.2 * longest);
      return {
        aria: {enabled: false},
        grid: {left: wide, right: 16, top: 8, bottom: 74},
        tooltip: tooltip(look, {trigger: "item", formatter: hover(model, view, pointer, look)}),
        xAxis: axis(look, {type: "value", min: begun(), max: begun() + model.duration / 1e9, splitNumber: narrow ? 3 : 8,
          // The handshake of a launch comes before 0: a label at its first instant would be no round number.
          axisLabel: {color: look.soft, hideOverlap: true, showMinLabel: !facts.start_ns, showMaxLabel: false, formatter: (value) => seconds(value, 4)}}),
        yAxis: axis(look, {type: "category", inverse: true, data: model.lanes.map((lane) => lane.name),
          splitLine: {show: false}, splitArea: {show: false},
          axisLabel: {color: look.text, width: wide - 12, overflow: "truncate", interval: 0, fontSize: narrow ? 11 : 12}}),
        dataZoom: [{type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true, preventDefaultMouseMove: false, minSpan: 1e-4},
          {type: "slider", filterMode: "none", height: 22, bottom: 12, minSpan: 1e-4, borderColor: look.line,
            fillerColor: look.accent + "22", handleStyle: {color: look.accent}, moveHandleStyle: {color: look.accent},
            textStyle: {color: look.soft}, showDataShadow: false, brushSelect: false,
            labelFormatter: (value) => seconds(value, 4)}],
        series: [{type: "custom", renderItem: render(model, look), data: model.lanes.map((_, place) => [begun(), place]),
          encode: {x: 0, y: 1}, clip: true, animation: false, emphasis: {disabled: true}}],
      };
    };
    const draw = () => {
      const [a, b] = zoomed();
      drawn.size(82 + model.lanes.length * (model.lanes.length > 16 ? LANE_MIN : LANE + 6));
      const first = !drawn.instance;
      drawn.draw((look) => ({...option(look)}));
      if (first) {
        drawn.instance.getZr().on("mousemove", (event) => { pointer.x = event.offsetX; pointer.y = event.offsetY; });
        drawn.instance.on("datazoom", state);
      }
      if (a > 0 || b < 100) zoom(a, b);
      state();
    };
    const show = (run) => {
      const look = theme();
      const kinds = facts.kinds.filter((kind, place) => model.lanes.some((lane) => lane.shares.some((each) => each.kind === place)));
      refill(legend, kinds.map((kind) => {
        const dot = make("i", {"aria-hidden": "true"});
        dot.style.background = kindInk(kind, facts.kinds.indexOf(kind), look);
        return make("li", {}, dot, kindName(kind));
      }));
      refill(lanes, select("Lane", model.lanes.map((lane, place) => [String(place), lane.name]), String(laneChosen),
        (value) => { laneChosen = Number(value); rowChosen = -1; }));
      drawn.box.setAttribute("aria-label", `Timeline of ${run.method || run.folder}: ${model.lanes.length} lanes, ${count(facts.spans)} spans. Plus and minus zoom, arrows move, comma and full stop step through the spans of a lane.`);
      draw();
      data.update();
    };
    const remarks = make("div", {});
    const node = make("div", {}, controls, legend, drawn.box, note, said, remarks, data.node);
    const remark = (run) => {
      const lines = [];
      if (facts && !facts.traced) lines.push("This run was recorded without messages, so that its links have no lanes.");
      if (facts && facts.lanes_left_out) lines.push(`${facts.lanes_left_out} more lanes are left out.`);
      for (const clock of run.clocks || []) {
        const ahead = (clock.offset_ns || 0) / 1e9, whose = clock.party || run.active;
        lines.push(`The clock of ${clock.peer} is ${seconds(Math.abs(ahead))} ${ahead < 0 ? "behind" : "ahead of"} ${whose ? `that of ${whose}` : "the active party's"}, to within ±${seconds((clock.uncertainty_ns || 0) / 1e9)}.`);
      }
      refill(remarks, lines.map((line) => make("p", {class: "soft"}, line)));
    };
    return {
      node,
      async update(run) {
        lookedAt = run;
        if (facts === run.timeline && model) { show(run); return; }
        const wanted = facts = run.timeline;
        rowChosen = -1;
        remark(run);
        if (!wanted) return;
        try {
          const decoded = await decode(wanted);
          if (facts !== wanted) return;
          model = decoded;
        } catch (error) {
          note.textContent = "This browser is too old to unpack the timeline; the data table has its sums.";
          return;
        }
        laneChosen = Math.min(laneChosen, model.lanes.length - 1);
        // Far enough for about eight rounds, by the rounds of the first lane or by its spans.
        const lane = model.lanes[0], eighth = lane.round.findIndex((round) => round > 8);
        model.early = lane.start[eighth > 0 ? eighth : Math.min(lane.rows - 1, 60)] || model.duration;
        show(run);
      },
      get model() { return model; },
      get chart() { return drawn.instance; },
    };
  };
})();
