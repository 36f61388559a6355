// The page of a report, and of the dashboard: Colonnade.show(element, facts) draws it, and called
// again with newer facts of the same element it brings what is there up to date.
"use strict";
(() => {
  const {make, refill, figure, count, seconds, bytes, percent, ink, dash, kindInk, kindName, unbroken, table, behind, choice, select, tip,
    chart, axis, tooltip, aria, state: common, redraw} = Colonnade;
  const AXES = [["time_s", "Time"], ["round", "Rounds"], ["bytes", "Bytes"]];
  const SHOW = {time_s: seconds, round: count, bytes};
  const PLAIN = ["round", "epoch", "time_s", "bytes_up", "bytes_down", "bytes", "best"];
  const nice = (name) => String(name).replaceAll("_", " ");
  const spread = (value, deviation, show) => value === null || value === undefined ? "–"
    : show(value) + (deviation ? ` ± ${show(deviation)}` : "");
  const runName = (run, runs) => {
    const seeds = runs.filter((each) => each.method === run.method).length > 1;
    const folder = runs.filter((each) => each.method === run.method && each.seed === run.seed).length > 1;
    return (run.method || run.folder || "run") + (seeds ? `, seed ${run.seed}` : "") + (folder && run.folder ? ` (${run.folder})` : "");
  };
  const groupInk = (facts, place, look) => {
    const group = facts.groups[place];
    if (group.is_baseline && facts.groups.length > 1) return look.baseline;
    return ink(facts.groups.slice(0, place).filter((each) => !(each.is_baseline && facts.groups.length > 1)).length);
  };
  const legendOf = (look, more) => ({type: "scroll", top: 0, left: 0, right: 0, textStyle: {color: look.text}, pageTextStyle: {color: look.soft},
    itemWidth: 26, icon: undefined, ...more});

  // Sections: each has a node, and brings itself up to date from the facts and what is chosen.
  const section = (id, title, lead, ...inside) => make("section", {id, "aria-labelledby": `${id}-title`},
    make("h2", {id: `${id}-title`}, title), lead ? make("p", {class: "lead"}, lead) : null, inside);

  const head = () => {
    const node = make("header", {});
    return {node, update(facts) {
      const told = facts.headline;
      node.hidden = !told;
      if (!told) return;
      const problems = facts.runs.flatMap((run) => run.problems.map((problem) => facts.runs.length > 1 ? `${runName(run, facts.runs)}: ${problem}` : problem));
      refill(node, make("p", {class: "over"}, facts.runs[0] && facts.runs[0].job ? `Colonnade report · ${facts.runs[0].job}` : "Colonnade report"),
        make("h1", {}, unbroken(told.title)), make("p", {class: "big"}, unbroken(told.lead)),
        told.figures.length ? make("dl", {class: "figures"}, told.figures.map((each) => make("div", {},
          make("dt", {}, each.label), make("dd", {}, make("b", {}, each.value), each.note ? make("span", {}, each.note) : null)))) : null,
        told.notes.length ? make("ul", {class: "notes"}, told.notes.map((each) => make("li", {}, unbroken(each)))) : null,
        problems.length ? make("ul", {class: "notes warn"}, problems.slice(0, 20).map((each) => make("li", {}, each))) : null);
    }};
  };

  const compared = () => {
    const inside = make("div", {}), node = section("comparison", "Side by side", "", inside);
    return {node, title: "Comparison", update(facts) {
      const race = facts.race && facts.race.methods.length ? facts.race : null;
      node.hidden = !race && !facts.comparison.length;
      if (node.hidden) return;
      if (race) {
        refill(inside, make("p", {class: "lead"}, `To ${race.metric} ${figure(race.target)}, every method at its own best rate.`),
          table([{title: "method", value: (row) => row.method}, {title: "rate", value: (row) => row.rate, number: true},
            {title: "options", value: (row) => row.options || "–"}, {title: "average", value: (row) => row.average},
            {title: "reached", value: (row) => `${row.reached} of ${row.runs}`, number: true},
            {title: "time", value: (row) => spread(row.time_s_mean, row.time_s_deviation, seconds), number: true},
            {title: "speed-up", value: (row) => row.speed_up ? `${figure(row.speed_up)}×` : "–", number: true},
            {title: "bytes", value: (row) => bytes(row.bytes_mean), number: true},
            {title: "÷ FedSGD", value: (row) => row.bytes_ratio ? `${figure(row.bytes_ratio)}×` : "–", number: true},
            {title: `test ${race.metric}`, value: (row) => spread(row.test_mean, row.test_deviation, figure), number: true}],
          race.methods, "Methods side by side"));
        return;
      }
      const level = facts.level.value;
      refill(inside, make("p", {class: "lead"}, level === null ? "No level was reached by all."
        : `To ${nice(facts.metric)} ${figure(level)}, ${facts.level.is}.`),
      table([{title: "method", value: (row) => row.label}, {title: "runs", value: (row) => row.runs, number: true},
        {title: "reached", value: (row) => `${row.reached} of ${row.runs}`, number: true},
        {title: "time to it", value: (row) => spread(row.to_time_s, row.to_time_s_deviation, seconds), number: true},
        {title: "speed-up", value: (row) => row.is_baseline ? "baseline" : row.speed_up ? `${figure(row.speed_up)}×` : "–", number: true},
        {title: "rounds", value: (row) => spread(row.to_rounds, row.to_rounds_deviation, count), number: true},
        {title: "bytes", value: (row) => bytes(row.to_bytes), number: true},
        {title: "÷ baseline", value: (row) => row.is_baseline ? "1×" : row.bytes_ratio ? `${figure(row.bytes_ratio)}×` : "–", number: true},
        {title: `best ${nice(facts.metric || "")}`, value: (row) => spread(row.best, row.best_deviation, figure), number: true},
        {title: "on test rows", value: (row) => spread(row.test, row.test_deviation, figure), number: true}],
      facts.comparison, "Methods side by side"));
    }};
  };

  const band = (points, look, colour, silent = true) => ({
    type: "custom", silent, clip: true, z: 1, data: [[points[0][0], points[0][1]]], tooltip: {show: false}, itemStyle: {color: colour},
    renderItem: (params, api) => ({type: "polygon", silent: true, style: {fill: colour, opacity: 0.16},
      shape: {points: points.map((point) => api.coord([point[0], point[1]])).concat(points.slice().reverse().map((point) => api.coord([point[0], point[2]])))}}),
  });

  // A line's values at a place: straight between two points, nothing outside of them.
  const between = (points, x) => {
    const next = points.findIndex((point) => point[0] >= x);
    if (next < 0) return null;
    if (points[next][0] === x || next === 0) return points[next][0] === x ? points[next] : null;
    const [one, other] = [points[next - 1], points[next]], share = (x - one[0]) / (other[0] - one[0]);
    return one.map((value, place) => value + (other[place] - value) * share);
  };

  const curves = () => {
    let facts = null, metric = null, by = "time_s";
    const drawn = chart("Metric", 400), controls = make("div", {class: "controls"});
    const rows = () => facts.runs.flatMap((run, place) => {
      const history = run.history, values = history[metric] || [];
      return values.map((value, row) => ({run: runName(run, facts.runs), place, value,
        ...Object.fromEntries(["round", "time_s", "bytes", "epoch"].map((name) => [name, (history[name] || [])[row]]))}));
    });
    const data = behind("curves", () => ({columns: [{title: "run", value: (row) => row.run},
      {title: "epoch", value: (row) => row.epoch, show: figure, number: true}, {title: "round", value: (row) => row.round, show: count, number: true},
      {title: "time_s", value: (row) => row.time_s, show: (v) => figure(v, 6), number: true}, {title: "bytes", value: (row) => row.bytes, show: count, number: true},
      {title: metric, value: (row) => row.value, show: (v) => figure(v, 5), number: true}], rows: rows()}));
    const node = section("curves", "How well, how fast", "What was measured, against what it took. Where a method has several seeds, the line is their mean and the band reaches from the lowest to the highest.",
      controls, drawn.box, data.node);
    const series = (look) => facts.groups.flatMap((group, place) => {
      const colour = groupInk(facts, place, look), style = {type: dash[place % dash.length], width: 2.5, color: colour};
      const own = group.runs.map((run) => facts.runs[run]), mean = (group.bands[metric] || {})[by], found = [];
      const line = (run) => {
        const history = run.history;
        const xs = history[by] || [], ys = history[metric] || [];
        return ys.map((value, row) => [xs[row], value]).filter((point) => point[0] !== null && point[0] !== undefined && point[1] !== null);
      };
      if (mean) {
        const points = mean.x.map((x, row) => [x, mean.low[row], mean.high[row]]);
        found.push({...band(points, look, colour), name: group.label, id: `band:${place}`});
        found.push({type: "line", id: `mean:${place}`, name: group.label, data: mean.x.map((x, row) => [x, mean.mean[row], mean.low[row], mean.high[row]]),
          showSymbol: mean.x.length < 40, symbol: "circle", symbolSize: 5, lineStyle: style, itemStyle: {color: colour}, z: 3});
      } else own.forEach((run, number) => found.push({type: "line", id: `run:${place}:${number}`, name: group.label, data: line(run),
        showSymbol: line(run).length < 60, symbol: "circle", symbolSize: 5, lineStyle: {...style, width: own.length > 1 ? 1.2 : 2.5}, itemStyle: {color: colour}, z: 3}));
      return found;
    });
    const option = (look) => {
      const all = series(look), level = facts.level.value;
      const first = all.find((each) => each.type === "line");
      if (first && level !== null && metric === facts.metric && (facts.groups.length > 1 || facts.level.is === "the target")) first.markLine = {silent: true, symbol: "none", animation: false,
        data: [{yAxis: level}], lineStyle: {color: look.soft, type: "dotted"}, label: {formatter: `${facts.level.is === "the target" ? "target" : "level"} ${figure(level)}`, position: "insideStartTop", color: look.soft}};
      return {
        aria: aria(`${nice(metric)} against ${nice(by)}, ${facts.groups.length} methods`),
        legend: legendOf(look, {data: facts.groups.map((group) => group.label)}),
        grid: {left: 8, right: 20, top: 60, bottom: 30, containLabel: true},
        tooltip: tooltip(look, {trigger: "axis", axisPointer: {type: "line", lineStyle: {color: look.soft}}, formatter: (found) => {
          if (!found.length) return "";
          const x = found[0].axisValue, chosen = drawn.instance.getOption().legend[0].selected;
          const lines = all.filter((each) => each.type === "line" && chosen[each.name] !== false).map((each) => {
            const at = between(each.data, x);
            if (!at) return null;
            const band_ = at.length > 2 ? ` (${figure(at[2], 4)} to ${figure(at[3], 4)})` : "";
            return [each.name, figure(at[1], 4) + band_, each.itemStyle.color];
          });
          return tip(`${AXES.find(([name]) => name === by)[1]} ${SHOW[by](x)}`, lines);
        }}),
        xAxis: axis(look, {type: "value", min: 0, max: "dataMax", axisLabel: {color: look.soft, hideOverlap: true, showMaxLabel: false, formatter: (value) => SHOW[by](value)}, splitLine: {show: false}}),
        yAxis: axis(look, {type: "value", scale: true, name: nice(metric), nameLocation: "end", nameGap: 28, axisLabel: {color: look.soft, formatter: (value) => figure(value, 4)}}),
        series: all,
      };
    };
    const draw = () => { drawn.draw(option); data.update(); };
    return {node, title: "Curves", drawn, update(newer) {
      const metrics = [...new Set(newer.runs.flatMap((run) => Object.keys(run.history)))].filter((name) => !PLAIN.includes(name));
      node.hidden = !metrics.length;
      facts = newer;
      if (node.hidden) return;
      if (!metrics.includes(metric)) metric = metrics.includes(newer.metric) ? newer.metric : metrics[0];
      const timed = newer.runs.some((run) => (run.history.time_s || []).some((value) => value));
      if (!timed && by === "time_s") by = "round";
      refill(controls, choice("Against", AXES.filter(([name]) => name !== "time_s" || timed), by, (value) => { by = value; draw(); }),
        metrics.length > 1 ? select("Measured", metrics.map((name) => [name, nice(name)]), metric, (value) => { metric = value; draw(); }) : null);
      draw();
    }};
  };

  // A chart of stacked bars that lie: one bar for each name, one colour for each kind.
  const bars = (id, short, title, lead, show, colours, get) => {
    let found = null;
    const drawn = chart(title, 200), extra = make("div", {});
    const box = make("input", {type: "checkbox", checked: common.patterns, on: {change: (event) => {
      common.patterns = event.target.checked;
      for (const other of document.querySelectorAll("input.patterns")) other.checked = common.patterns;
      redraw();
    }}, class: "patterns"});
    const patterns = make("div", {class: "controls"}, make("label", {class: "select"}, box, make("span", {}, "Patterns beside colours")));
    const data = behind(id, () => ({columns: found.columns, rows: found.rows}));
    const node = section(id, title, lead, patterns, drawn.box, extra, data.node);
    const option = (look) => ({
      aria: aria(`${title}: ${found.names.length} bars, by ${found.kinds.join(", ")}`),
      legend: legendOf(look, {data: found.kinds, formatter: kindName}),
      grid: {left: 8, right: 24, top: 40, bottom: 24, containLabel: true},
      tooltip: tooltip(look, {trigger: "axis", axisPointer: {type: "shadow"}, formatter: (hits) => tip(found.names[hits[0].dataIndex],
        hits.filter((hit) => hit.value).map((hit) => [hit.seriesName, show(hit.value), typeof hit.color === "string" ? hit.color : null]))}),
      xAxis: axis(look, {type: "value", axisLabel: {color: look.soft, hideOverlap: true, formatter: show}}),
      yAxis: axis(look, {type: "category", inverse: true, data: found.names, splitLine: {show: false},
        axisLabel: {color: look.text, width: drawn.box.clientWidth < 560 ? 96 : 190, overflow: "truncate", interval: 0}}),
      series: found.kinds.map((kind, place) => ({type: "bar", stack: "all", name: kind, barMaxWidth: 24, itemStyle: {color: colours(kind, place, look), borderColor: look.card, borderWidth: 0.5},
        data: found.values[place]})),
    });
    return {node, title: short, drawn, update(facts, run) {
      found = run ? get(run, facts) : null;
      node.hidden = !found || !found.names.length;
      if (node.hidden) return;
      drawn.size(90 + 34 * found.names.length);
      drawn.draw(option);
      refill(extra, (found.notes || []).map((note) => make("p", {class: "soft"}, note)));
      data.update();
    }};
  };

  const where = () => bars("time", "Time", "Where the time went", "Each party's time by what it did. Sending and receiving go on beside it and are in the timeline.", seconds, (kind, place, look) => kindInk(kind, place, look), (run) => {
    const rows = run.time.filter((row) => !["send", "receive", "begin"].includes(row.kind));
    const names = [...new Set(rows.map((row) => row.party))].sort((a, b) => (b === run.active) - (a === run.active));
    const order = ["forward", "backward", "local", "aggregate", "top"];
    const kinds = [...new Set(rows.map((row) => row.kind))].sort((a, b) => (a === "wait") - (b === "wait") || (order.indexOf(a) + 99) % 99 - (order.indexOf(b) + 99) % 99);
    const value = (name, kind) => rows.filter((row) => row.party === name && row.kind === kind).reduce((sum, row) => sum + row.ns, 0) / 1e9;
    const total = (name) => rows.filter((row) => row.party === name).reduce((sum, row) => sum + row.ns, 0);
    return {names, kinds, values: kinds.map((kind) => names.map((name) => value(name, kind))),
      columns: [{title: "party", value: (row) => row.party}, {title: "kind", value: (row) => row.kind}, {title: "spans", value: (row) => row.spans, show: count, number: true},
        {title: "seconds", value: (row) => row.ns / 1e9, show: (v) => figure(v, 6), number: true}, {title: "share", value: (row) => total(row.party) ? row.ns / total(row.party) : null, show: percent, number: true}],
      rows};
  });

  const carried = () => bars("bytes", "Bytes", "Where the bytes went", "Every message that crossed, by direction and kind, as the parties' ledgers count them.", bytes, (kind, place) => ink(place), (run) => {
    const rows = run.flows, sums = new Map();
    for (const row of rows) sums.set(row.kind, (sums.get(row.kind) || 0) + row.bytes);
    const ranked = [...sums].sort((a, b) => b[1] - a[1]).map(([kind]) => kind), kinds = ranked.slice(0, 7), rest = ranked.slice(7);
    const label = (row) => `${row.from} → ${row.to}`, names = [...new Set(rows.map(label))].slice(0, 60);
    const value = (name, ok) => rows.filter((row) => label(row) === name && ok(row.kind)).reduce((sum, row) => sum + row.bytes, 0);
    const values = kinds.map((kind) => names.map((name) => value(name, (each) => each === kind)));
    if (rest.length) { kinds.push("other kinds"); values.push(names.map((name) => value(name, (each) => rest.includes(each)))); }
    const of = (purpose) => rows.filter((row) => purpose.includes(row.purpose)).reduce((sum, row) => sum + row.bytes, 0);
    const told = [["training and control", of(["training", "control"])], ["evaluation", of(["evaluation"])], ["alignment", of(["alignment"])], ["prediction", of(["prediction"])]].filter(([, size]) => size);
    return {names, kinds, values, notes: told.length ? [told.map(([name, size]) => `${bytes(size)} of ${name}`).join(", ") + "."] : [],
      columns: [{title: "from", value: (row) => row.from}, {title: "to", value: (row) => row.to}, {title: "message", value: (row) => row.kind}, {title: "purpose", value: (row) => row.purpose},
        {title: "messages", value: (row) => row.messages, show: count, number: true}, {title: "bytes", value: (row) => row.bytes, show: count, number: true}],
      rows};
  });

  // Curves of each party over time, from its exchanges.
  const exchanged = (id, short, title, lead, quantities, banded) => {
    let run = null, what = null;
    const drawn = chart(title, 300), controls = make("div", {class: "controls"});
    const names = () => quantities.filter(([name]) => run.exchanges.some((party) => party[name] && party[name].some((value) => value !== null)));
    const all = ["time_s", "round", ...quantities.flatMap(([name]) => banded ? ["weight_p10", "weight_p50", "weight_p90"] : [name, name === "staleness" ? "staleness_max" : null])].filter((name) => name);
    const data = behind(id, () => ({columns: [{title: "party", value: (row) => row.party}, ...all.map((name) => ({title: name, value: (row) => row[name], show: (v) => figure(v, 5), number: true}))],
      rows: run.exchanges.flatMap((party) => party.time_s.map((_, row) => ({party: party.party, ...Object.fromEntries(all.map((name) => [name, (party[name] || [])[row]]))})))}));
    const node = section(id, title, lead, controls, drawn.box, data.node);
    const option = (look) => ({
      aria: aria(`${title} of ${run.exchanges.length} parties over time`),
      legend: legendOf(look, {data: run.exchanges.map((party) => party.party)}),
      grid: {left: 8, right: 20, top: 44, bottom: 30, containLabel: true},
      tooltip: tooltip(look, {trigger: "axis", formatter: (hits) => { const rows = hits.filter((hit) => hit.seriesType === "line"); return rows.length ? tip(seconds(rows[0].value[0]), rows.map((hit) => [
        hit.seriesName + (hit.seriesId.startsWith("most") ? ", most" : ""), figure(hit.value[1], 4) + (hit.value.length > 2 ? ` (${figure(hit.value[2], 3)} to ${figure(hit.value[3], 3)})` : ""), hit.color])) : ""; }}),
      xAxis: axis(look, {type: "value", min: 0, max: "dataMax", axisLabel: {color: look.soft, hideOverlap: true, showMaxLabel: false, formatter: (value) => seconds(value)}, splitLine: {show: false}}),
      yAxis: axis(look, {type: "value", min: 0, max: banded ? 1 : null, minInterval: what === "window" ? 1 : 0, axisLabel: {color: look.soft, formatter: (value) => figure(value)}}),
      series: run.exchanges.flatMap((party, place) => {
        const colour = ink(place), line = {type: "line", symbol: "circle", name: party.party, showSymbol: party.time_s.length < 3, itemStyle: {color: colour}, lineStyle: {width: 2, color: colour, type: dash[place % dash.length]}};
        const points = (name, ...more) => party.time_s.map((time, row) => [time, (party[name] || [])[row], ...more.map((each) => (party[each] || [])[row])]).filter((point) => point[1] !== null && point[1] !== undefined);
        if (banded) {
          const found = points("weight_p50", "weight_p10", "weight_p90");
          return found.length ? [{...band(found.map((point) => [point[0], point[2], point[3]]), look, colour), name: party.party}, {...line, id: `mid:${place}`, data: found}] : [];
        }
        const made = [{...line, id: `mean:${place}`, data: points(what), step: what === "window" ? "end" : false}];
        if (what === "staleness" && party.staleness_max) made.push({...line, id: `most:${place}`, data: points("staleness_max"), lineStyle: {...line.lineStyle, width: 1, opacity: 0.6, type: "dotted"}});
        return made;
      }),
    });
    const draw = () => { drawn.draw(option); data.update(); };
    return {node, title: short, drawn, update(facts, chosen) {
      run = chosen;
      const known = run ? names() : [];
      node.hidden = !known.length;
      if (node.hidden) return;
      if (!known.some(([name]) => name === what)) what = known[0][0];
      refill(controls, known.length > 1 ? choice("Quantity", known, what, (value) => { what = value; draw(); }) : null);
      draw();
    }};
  };

  const timelines = () => {
    const inside = Colonnade.timeline();
    const node = section("timeline", "Who did what, when", "A lane for each party and each direction of each link. Drag to move, pinch or hold Ctrl and scroll to zoom, or use the buttons.", inside.node);
    return {node, title: "Timeline", inside, update(facts, run) {
      node.hidden = !run || !run.timeline;
      if (!node.hidden) return inside.update(run);
    }};
  };

  const parties = () => {
    const inside = make("div", {}), node = section("parties", "The parties", "", inside);
    return {node, title: "Parties", update(facts, run) {
      node.hidden = !run || !run.parties.length;
      if (node.hidden) return;
      const share = (row) => row.busy_s === null || row.idle_s === null ? null : row.busy_s / ((row.busy_s + row.idle_s) || 1);
      refill(inside, table([{title: "party", value: (row) => row.party}, {title: "role", value: (row) => row.role || "–"},
        {title: "busy", value: (row) => row.busy_s, show: seconds, number: true}, {title: "waiting", value: (row) => row.idle_s, show: seconds, number: true},
        {title: "busy share", value: share, show: percent, number: true}, {title: "fresh updates", value: (row) => row.fresh, show: count, number: true},
        {title: "local updates", value: (row) => row.local, show: count, number: true}, {title: "local per fresh", value: (row) => row.fresh ? row.local / row.fresh : null, show: figure, number: true},
        {title: "most in flight", value: (row) => row.max_in_flight, show: count, number: true}, {title: "sent", value: (row) => row.sent, show: bytes, number: true},
        {title: "received", value: (row) => row.received, show: bytes, number: true}], run.parties, "The parties of the run"));
    }};
  };

  const job = () => {
    const inside = make("div", {}), node = section("job", "The job and its method", "", inside);
    return {node, title: "Job", update(facts, run) {
      node.hidden = !run || (!run.words.length && !run.composition.length);
      if (node.hidden) return;
      const differs = run.composition.filter((each) => !each.neutral), same = run.composition.filter((each) => each.neutral);
      const list = (rows) => make("dl", {class: "axes"}, rows.map((each) => make("div", {}, make("dt", {}, each.axis), make("dd", {}, each.sentence || each.choice))));
      refill(inside, make("ul", {class: "plain"}, run.words.map((each) => make("li", {}, each))),
        make("h3", {}, differs.length ? `How ${run.method || "the method"} differs from plain split training` : "This is plain split training (FedSGD)"), list(differs),
        same.length ? make("details", {class: "data"}, make("summary", {}, differs.length ? "Where it is the same" : "Each policy axis in words"), list(same)) : null,
        run.about.length ? make("details", {class: "data"}, make("summary", {}, "Settings that differ from the defaults"),
          table([{title: "setting", value: (row) => row.setting}, {title: "value", value: (row) => row.value}], run.about, "Settings")) : null);
    }};
  };

  const calibrated = () => {
    const inside = make("div", {}), node = section("calibrations", "What was measured and chosen", "Where the method leaves windows or bits open, it measures speeds and links first, and chooses by them.", inside);
    const rate = (value) => value === null || value === undefined ? "–" : bytes(value / 8).replace(/B$/, "B/s");
    return {node, title: "Calibration", update(facts, run) {
      const rows = run ? run.calibrations.filter((each) => each && Array.isArray(each.parties)).flatMap((each) => each.parties.map((party) => ({...party, after: each.round}))) : [];
      node.hidden = !rows.length;
      if (node.hidden) return;
      const ns = (value) => value === null || value === undefined ? "–" : seconds(value / 1e9);
      const expected = run.calibrations[run.calibrations.length - 1];
      refill(inside, table([{title: "party", value: (row) => row.party}, {title: "after rounds", value: (row) => row.after, show: count, number: true},
        {title: "forward", value: (row) => row.forward_ns, show: ns, number: true}, {title: "backward", value: (row) => row.backward_ns, show: ns, number: true},
        {title: "one way", value: (row) => row.latency_ns, show: ns, number: true}, {title: "jitter", value: (row) => row.jitter_ns, show: ns, number: true},
        {title: "up", value: (row) => row.up_bits, show: rate, number: true}, {title: "down", value: (row) => row.down_bits, show: rate, number: true},
        {title: "in flight", value: (row) => row.window, show: count, number: true}, {title: "bits up", value: (row) => row.embedding_bits, show: count, number: true},
        {title: "bits down", value: (row) => row.gradient_bits, show: count, number: true}], rows, "Calibrations"),
      expected && expected.round_ns ? make("p", {class: "soft"}, `Expected: ${seconds(expected.round_ns / 1e9)} a round, ${bytes(expected.bytes_up)} up and ${bytes(expected.bytes_down)} down.`) : null);
    }};
  };

  const privacy = () => {
    const inside = make("div", {}), node = section("privacy", "What left whom", "", inside);
    const told = (each) => !each ? "–" : each.accuracy !== null && each.accuracy !== undefined ? percent(each.accuracy) + (each.auc ? `, AUC ${figure(each.auc)}` : "") : each.r2 !== null && each.r2 !== undefined ? `R² ${figure(each.r2)}` : "–";
    const findings = (audit) => table([{title: "whose", value: (row) => `${row.party}: ${row.of}`}, {title: "to whom", value: (row) => row.to === "*" ? "all" : row.to},
      {title: "attack", value: (row) => row.attack}, {title: "needs", value: (row) => row.needs}, {title: "one release", value: (row) => told(row.one), number: true},
      {title: "all releases", value: (row) => told(row.pooled), number: true}, {title: "known anyway", value: (row) => told(row.baseline), number: true}], audit.findings, "What attacks found");
    return {node, title: "Privacy", update(facts, run) {
      node.hidden = !run || (!run.flows.length && !run.tells && !run.privacy.audit);
      if (node.hidden) return;
      const audit = run.privacy.audit, epsilon = Object.entries(run.privacy.epsilon || {});
      refill(inside, run.tells ? make("p", {class: "lead"}, run.tells.charAt(0).toUpperCase() + run.tells.slice(1) + ".") : null,
        run.flows.length ? [make("h3", {}, "Kinds of messages that left each party"),
          ...table([{title: "from", value: (row) => row.from}, {title: "to", value: (row) => row.to}, {title: "message", value: (row) => row.kind}, {title: "for", value: (row) => row.purpose || "–"},
            {title: "messages", value: (row) => row.messages, show: count, number: true}, {title: "bytes", value: (row) => row.bytes, show: bytes, number: true}],
          run.flows.slice().sort((a, b) => a.from < b.from ? -1 : a.from > b.from ? 1 : b.bytes - a.bytes), "Messages that left each party")] : null,
        epsilon.length ? [make("h3", {}, "Under noise"), make("ul", {class: "plain"}, epsilon.map(([name, each]) => make("li", {},
          `The rows of ${name} left up to ${count(each && each.releases)} times: ε = ${figure(each && each.epsilon)} at δ = ${each && each.delta}.`)))] : null,
        make("h3", {}, "The audit"),
        audit ? [make("ul", {class: "plain"}, audit.verdict.map((line) => make("li", {}, line))), audit.findings.length ? findings(audit) : null,
          audit.not_tested.length ? make("details", {class: "data"}, make("summary", {}, "What was not tested"), make("ul", {class: "plain"}, audit.not_tested.map((line) => make("li", {}, line)))) : null].flat()
          : make("p", {}, "This run was not audited. Train with --record ROUNDS and run colonnade privacy on its folder to measure what the recorded traffic tells."));
    }};
  };

  const cards = () => {
    const inside = make("div", {class: "cards"}), node = section("model", "The model card", "", inside);
    const card = (each) => {
      const model = each.model;
      if (!model) return make("article", {}, make("h3", {}, each.party), make("p", {class: "soft"}, each.problems.join("; ") || each.state));
      const pairs = (table_) => Object.entries(table_ || {}).map(([name, value]) => name === "name" ? value : `${name} ${typeof value === "number" ? count(value) : value}`).join(", ");
      const wrong = Object.entries(model.integrity || {}).filter(([, how]) => how !== "verified");
      const measured = Object.entries(model.measured || {}).map(([split, values]) => `${split} rows: ` + Object.entries(values).map(([name, value]) => `${nice(name)} ${figure(value, 4)}`).join(", ")).join("; ");
      const facts = [["version", model.version], ["weights", `of round ${count(model.round + 1)}, the ${model.weights}`], ["goes on from", model.parent],
        ["bottom model", model.model ? pairs(model.model) : null], ["parameters", pairs(model.parameters)], ["embeddings", pairs(model.widths)], ["rows", pairs(model.rows)],
        ["task", model.task ? `${model.task}, ${count(model.outputs)} outputs` : null], ["classes", model.classes.length ? model.classes.join(", ") + (model.class_count > model.classes.length ? ` and ${model.class_count - model.classes.length} more` : "") : null],
        ["measured", measured], ["aligned", model.alignment ? `${count(model.alignment.count)} rows` : null],
        ["files", wrong.length ? wrong.map(([name, how]) => `${name} ${how}`).join("; ") : `${Object.keys(model.integrity || {}).length} verified by their hashes`],
        ["trained with", pairs(model.environment)], ["to mend", each.problems.join("; ")]].filter(([, value]) => value);
      return make("article", {}, make("h3", {}, each.party + (model.active === each.party ? ", active" : ", passive")),
        make("dl", {class: "axes"}, facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
        model.columns.length ? make("details", {class: "data"}, make("summary", {}, `${count(model.column_count)} columns`),
          table([{title: "column", value: (row) => row.name}, {title: "stored as", value: (row) => row.type || "–"}, {title: "becomes", value: (row) => row.becomes || "–"},
            {title: "inputs", value: (row) => row.inputs, show: count, number: true}, {title: "note", value: (row) => row.why || ""}], model.columns, `Columns of ${each.party}`)) : null);
    };
    return {node, title: "Model", update(facts, run) {
      node.hidden = !run || !run.models.length;
      if (!node.hidden) refill(inside, run.models.map(card));
    }};
  };

  const pages = new WeakMap();
  const build = (element) => {
    let facts = null, chosen = null;
    const first = [head(), compared(), curves()];
    const each = [timelines(), where(), carried(),
      exchanged("staleness", "Staleness", "Window and staleness", "How many exchanges each party may have in flight and has, and how many updates of its own lie between an embedding and the use of its reply.",
        [["window", "Window"], ["in_flight", "In flight"], ["staleness", "Staleness"], ["updates", "Updates on an exchange"]], false),
      exchanged("weights", "Weights", "Weights of stale rows", "How much each row counted in stale updates: the line is the median over the rows, the band reaches from the 10th to the 90th percentile.", [["weight_p50", "Weight"]], true),
      parties(), job(), calibrated(), privacy(), cards()];
    const picker = make("div", {class: "picker"}), links = make("nav", {"aria-label": "Sections"});
    const main = make("main", {}, first[0].node, links, first.slice(1).map((part) => part.node), picker, each.map((part) => part.node));
    element.replaceChildren(main);
    const navigate = () => refill(links, make("ul", {}, [...first.slice(1), ...each].filter((part) => !part.node.hidden)
      .map((part) => make("li", {}, make("a", {href: `#${part.node.id}`}, part.title)))));
    const inspect = () => { for (const part of each) part.update(facts, facts.runs[chosen]); };
    return (newer) => {
      facts = newer;
      chosen = Math.min(chosen === null ? facts.chosen || 0 : chosen, facts.runs.length - 1);
      for (const part of first) part.update(facts);
      picker.hidden = facts.runs.length < 2 || !facts.runs.some((run) => run.timeline || run.flows.length);
      refill(picker, picker.hidden ? null : [make("h2", {}, "One run in detail"), select("Run", facts.runs.map((run, place) => [String(place), runName(run, facts.runs)]), String(chosen), (value) => {
        chosen = Number(value); inspect(); navigate();
      })]);
      inspect();
      navigate();
      element.dataset.ready = "true";
    };
  };
  // The facts of one run are a report of it.
  const whole = (facts) => facts.runs ? facts : {headline: null, metric: facts.metric.name, level: {value: facts.target, is: "the target"}, comparison: [], race: null,
    groups: [{label: facts.method || facts.folder, is_baseline: false, runs: [0], bands: {}}], runs: [facts]};

  Colonnade.show = (element, facts) => {
    if (!pages.has(element)) pages.set(element, build(element));
    pages.get(element)(whole(facts));
  };
})();
