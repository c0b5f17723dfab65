"use strict";
// Everything shown here came out of a sandbox: it is only ever put in as text, never as markup.
(() => {
  const ROW = 28;
  const PALETTE = [
    "#4b5263", "#e0626f", "#8cc265", "#d9b35b", "#5aa7f0", "#c07bd8", "#4fc1c9", "#d5d9e0",
    "#6b7380", "#ff8b95", "#a9e07f", "#ffd678", "#85c3ff", "#dc9bf2", "#74e0e6", "#ffffff",
  ];
  const BOLD = 1, ITALIC = 2, UNDERLINE = 4, STRIKE = 8, REVERSE = 16, DIM = 32;
  const WIDE = /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]|[\u231a\u231b\u23e9-\u23ec\u2705\u270a\u270b\u2728\u274c\u274e\u2753-\u2755\u2757\u2795-\u2797\u2b1b\u2b1c\u2b50\u2b55]|[\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{1fa70}-\u{1faff}\u{20000}-\u{3fffd}]/u;
  const MARKED = 500;
  const SHOWN = 200000;
  const byId = (id) => document.getElementById(id);

  const frames = [], keyframes = [], items = [], commands = new Map(), styles = [null];
  let meta = {};
  const READ = {
    meta: ([value]) => { meta = value; },
    style: (value) => { styles.push(value); },
    key: ([at, sequence, cols, rows, lines, x, y, hidden]) => {
      keyframes.push({ frame: frames.length, at });
      frames.push({ at, sequence, cols, rows, lines: lines.map((spans, row) => [row, spans]), x, y, hidden, whole: true });
    },
    frame: ([at, sequence, lines, x, y, hidden, scrolled]) => { frames.push({ at, sequence, lines, x, y, hidden, scrolled }); },
    item: ([at, sequence, clock, family, title, body, exec, bad]) => {
      const item = { at, sequence, clock, family, title, body, exec, bad };
      items.push(item);
      if (exec) commands.set(exec, item);
    },
    end: ([exec, outcome, bad, output]) => {
      const item = commands.get(exec);
      if (item) Object.assign(item, { outcome, bad, output });
    },
  };
  for (const block of document.querySelectorAll("script[type='application/json']")) {
    for (const [kind, ...rest] of JSON.parse(block.textContent)) if (READ[kind]) READ[kind](rest);
    block.remove();
  }

  // What could turn a line around, or hide in it, is spelled out.
  const visible = (text) => String(text).replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu,
    (one) => one === "\r" ? "" : "\\u" + one.codePointAt(0).toString(16).padStart(4, "0"));
  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const two = (number) => String(number).padStart(2, "0");
  const span = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    return (s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}` : Math.floor(s / 60)) + `:${two(s % 60)}`;
  };
  const clockOf = (ms) => new Date(ms).toLocaleTimeString(undefined, { hour12: false });

  // The head of the page.
  const total = Math.max(meta.length_ms || 0, frames.length ? frames[frames.length - 1].at : 0, items.length ? items[items.length - 1].at : 0);
  byId("name").textContent = visible(meta.sandbox || "");
  document.title = `${visible(meta.sandbox || "")} – Cloche`;
  for (const fact of meta.facts || []) byId("facts").append(element("span", visible(fact)));

  // The terminal.
  const screen = byId("screen"), stage = byId("stage"), cursor = byId("cursor");
  const rowsShown = [];
  let cols = 80, rows = 24, shown = -1, position = 0, playing = false, speed = 1, last = 0;

  const paint = (row, spans) => {
    const line = rowsShown[row];
    if (!line) return;
    line.replaceChildren();
    for (let at = 0; at < spans.length; at += 2) {
      const part = element("span");
      if (WIDE.test(spans[at])) part.append(...[...spans[at]].map((one) => WIDE.test(one) ? element("span", one, "wide") : one));
      else part.textContent = spans[at];
      const style = styles[spans[at + 1]];
      if (style) dress(part, style);
      line.append(part);
    }
  };
  const colour = (value) => typeof value === "number" ? PALETTE[value & 15] : value;
  const dress = (part, [fore, back, flags]) => {
    let front = fore === null ? null : colour(fore), behind = back === null ? null : colour(back);
    if (flags & REVERSE) [front, behind] = [behind || "#101216", front || "#d5d9e0"];
    if (front) part.style.color = front;
    if (behind) part.style.backgroundColor = behind;
    if (flags & DIM) part.style.opacity = "0.6";
    if (flags & BOLD) part.style.fontWeight = "bold";
    if (flags & ITALIC) part.style.fontStyle = "italic";
    const lines = [flags & UNDERLINE ? "underline" : "", flags & STRIKE ? "line-through" : ""].filter(Boolean);
    if (lines.length) part.style.textDecoration = lines.join(" ");
  };
  const fit = () => {
    const room = stage.clientWidth - 20;
    const size = Math.max(6, Math.min(15, room / cols / 0.603));
    stage.style.setProperty("--size", `${size}px`);
  };
  const resize = (toCols, toRows) => {
    cols = toCols; rows = toRows;
    while (rowsShown.length < rows) { const line = element("div"); rowsShown.push(line); screen.append(line); }
    while (rowsShown.length > rows) rowsShown.pop().remove();
    screen.style.minWidth = `${cols}ch`;
    fit();
  };
  const apply = (frame) => {
    if (frame.whole) resize(frame.cols, frame.rows);
    for (const line of rowsShown.splice(0, frame.scrolled || 0)) { line.replaceChildren(); rowsShown.push(line); screen.append(line); }
    for (const [row, spans] of frame.lines) paint(row, spans);
    cursor.style.left = `${frame.x}ch`;
    cursor.style.top = `${frame.y * 1.25}em`;
    cursor.style.height = "1.25em";
    cursor.hidden = Boolean(frame.hidden);
  };
  // The last of a sorted list that is not after the value.
  const before = (list, value, key) => {
    let low = 0, high = list.length;
    const of = (one) => key === undefined ? one : one[key];
    while (low < high) { const middle = (low + high) >> 1; if (of(list[middle]) <= value) low = middle + 1; else high = middle; }
    return low - 1;
  };
  const draw = () => {
    const wanted = before(frames, position, "at");
    if (wanted < shown || wanted - shown > 400) {
      const key = before(keyframes, position, "at");
      shown = key < 0 ? -1 : keyframes[key].frame - 1;
      if (key < 0) for (let row = 0; row < rowsShown.length; row++) paint(row, []);
    }
    while (shown < wanted) apply(frames[++shown]);
    stage.classList.toggle("blank", shown < 0);
    byId("seek").value = String(total ? Math.round(position / total * 10000) : 0);
    byId("seek").setAttribute("aria-valuetext", span(position));
    byId("clock").textContent = `${span(position)} / ${span(total)}`;
    const now = before(items, position, "at");
    byId("where").textContent = now < 0 ? "" : `${items[now].sequence}  ${visible(items[now].title)}`;
    if (playing) follow(now);
    mark(now);
  };
  const tick = (time) => {
    if (!playing) return;
    position = Math.min(total, position + (time - last) * speed);
    last = time;
    draw();
    if (position >= total) play(false); else requestAnimationFrame(tick);
  };
  const play = (on) => {
    playing = on;
    if (on && position >= total) position = 0;
    byId("play").textContent = on ? "Pause" : "Play";
    byId("play").setAttribute("aria-pressed", String(on));
    if (on) { last = performance.now(); requestAnimationFrame(tick); }
  };
  const seek = (to) => { position = Math.max(0, Math.min(total, to)); draw(); };

  // The timeline: only the rows that can be seen are there.
  const list = byId("list"), held = byId("rows"), families = [...new Set(items.map((item) => item.family))];
  const hidden = new Set();
  let matching = [], words = [], chosen = null, current = -1;
  const text = (item) => (item.lower ??=
    [item.title, item.outcome || "", item.output || "", ...(item.body || []).flatMap((part) => [part.head, part.text])].join("\n").toLowerCase());
  const filter = () => {
    words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    matching = [];
    items.forEach((item, index) => {
      if (!hidden.has(item.family) && words.every((word) => text(item).includes(word))) matching.push(index);
    });
    held.style.height = `${matching.length * ROW}px`;
    byId("count").textContent = `${matching.length} of ${items.length}`;
    rowsOfList();
    highlight();
  };
  const rowsOfList = () => {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
    const end = Math.min(matching.length, first + Math.ceil(list.clientHeight / ROW) + 10);
    const made = [];
    for (let at = first; at < end; at++) made.push(rowOf(matching[at], at));
    held.replaceChildren(...made);
  };
  const rowOf = (index, at) => {
    const item = items[index];
    const row = element("div", undefined, "item");
    row.id = `row-${index}`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(item === chosen));
    row.style.top = `${at * ROW}px`;
    row.append(element("time", clockOf(item.clock)), element("i", item.family), element("b", visible(item.title)));
    row.title = visible(item.outcome ? `${item.title} – ${item.outcome}` : item.title).slice(0, 500);
    row.classList.toggle("chosen", item === chosen);
    row.classList.toggle("later", index > current);
    row.classList.toggle("bad", Boolean(item.bad));
    row.addEventListener("click", () => { choose(item); seek(item.at); });
    return row;
  };
  const mark = (now) => { if (now !== current) { current = now; rowsOfList(); } };
  const follow = (now) => {
    const at = before(matching, now);
    if (at >= 0) list.scrollTop = Math.max(0, at * ROW - list.clientHeight / 2);
  };
  const reveal = (at) => {
    if (at * ROW < list.scrollTop || (at + 1) * ROW > list.scrollTop + list.clientHeight) follow(matching[at]);
  };

  // What was chosen, whole.
  const block = (content, diff) => {
    const cut = content.length > SHOWN;
    const made = element("pre", undefined, diff ? "diff" : "");
    const put = (words) => {
      if (!diff) { made.textContent = visible(words); return; }
      made.replaceChildren(...words.split("\n").map((line) => element("span", visible(line), kindOf(line))));
    };
    put(cut ? content.slice(0, SHOWN) : content);
    const parts = [made];
    if (cut) {
      const more = element("button", `show the other ${content.length - SHOWN} characters`);
      more.addEventListener("click", () => { put(content); more.remove(); });
      parts.push(more);
    }
    return parts;
  };
  const kindOf = (line) => /^(\+\+\+|---|@@)/.test(line) ? "hunk" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "";
  const choose = (item) => {
    chosen = item;
    const detail = byId("detail");
    const when = new Date(item.clock);
    detail.replaceChildren(
      element("h2", visible(item.title)),
      element("p", `${item.family}, sequence ${item.sequence}, ${when.toLocaleString(undefined, { hour12: false })}${item.outcome ? ` – ${visible(item.outcome)}` : ""}`));
    for (const part of item.body || []) {
      if (part.head) detail.append(element("h3", visible(part.head)));
      if (part.text) detail.append(...block(part.text, part.diff));
    }
    if (item.output) detail.append(element("h3", "output"), ...block(item.output, false));
    detail.scrollTop = 0;
    list.setAttribute("aria-activedescendant", `row-${items.indexOf(item)}`);
    rowsOfList();
    const first = highlight();
    const below = first ? first.getBoundingClientRect().bottom - detail.getBoundingClientRect().top - detail.clientHeight : 0;
    if (below > 0) detail.scrollTop = below + detail.clientHeight / 2;
  };
  // Where the words that are searched for stand in what was chosen; returns the first place.
  const highlight = () => {
    if (!globalThis.CSS?.highlights) return null;
    const ranges = [], walker = document.createTreeWalker(byId("detail"), NodeFilter.SHOW_TEXT);
    for (let node; words.length && ranges.length < MARKED && (node = walker.nextNode());) {
      const lower = node.data.toLowerCase();
      // A letter whose small form is longer would move all that follows.
      if (lower.length !== node.data.length) continue;
      for (const word of words) {
        for (let at = lower.indexOf(word); at >= 0 && ranges.length < MARKED; at = lower.indexOf(word, at + word.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + word.length);
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
    return ranges.find((range) => range.startContainer.parentElement.closest("pre")) || null;
  };

  for (const family of families) {
    const chip = element("button", family);
    chip.type = "button";
    chip.setAttribute("aria-pressed", "true");
    chip.addEventListener("click", () => {
      if (!hidden.delete(family)) hidden.add(family);
      chip.setAttribute("aria-pressed", String(!hidden.has(family)));
      filter();
    });
    byId("tools").insertBefore(chip, byId("count"));
  }
  byId("search").addEventListener("input", filter);
  byId("search").addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    event.preventDefault();
    list.focus();
    go(0);
  });
  list.addEventListener("scroll", () => requestAnimationFrame(rowsOfList), { passive: true });
  byId("play").addEventListener("click", () => play(!playing));
  byId("seek").addEventListener("input", (event) => seek(Number(event.target.value) / 10000 * total));
  byId("speed").addEventListener("change", (event) => { speed = Number(event.target.value); });
  const go = (at) => {
    if (!matching.length) return;
    const to = Math.max(0, Math.min(matching.length - 1, at)), item = items[matching[to]];
    choose(item);
    seek(item.at);
    reveal(to);
  };
  // From what was chosen if that is where it is, so that events of one moment come one by one.
  const step = (by) => {
    const here = chosen && chosen.at === position ? items.indexOf(chosen) : before(items, position, "at") + (by < 0 ? 1 : 0);
    const at = before(matching, here);
    go(by > 0 ? at + 1 : matching[at] === here ? at - 1 : at);
  };
  byId("back").addEventListener("click", () => step(-1));
  byId("forth").addEventListener("click", () => step(1));
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input:not([type=range]), select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && event.target.matches("button")) return;
    const keys = {
      " ": () => play(!playing), ArrowLeft: () => seek(position - 5000), ArrowRight: () => seek(position + 5000),
      "[": () => step(-1), "]": () => step(1), "/": () => { byId("search").focus(); byId("search").select(); },
      ...(event.target === list && { ArrowUp: () => step(-1), ArrowDown: () => step(1), Home: () => go(0), End: () => go(matching.length - 1) }),
    };
    const act = /^[0-9]$/.test(event.key) ? () => seek(total * Number(event.key) / 10) : keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  new ResizeObserver(() => { fit(); rowsOfList(); }).observe(document.body);

  stage.dataset.hint = frames.length ? "Nothing on the terminal yet: press Play" : "Nothing was shown on a terminal";
  resize(80, 24);
  filter();
  if (items.length) choose(items[0]);
  draw();
  document.documentElement.dataset.ready = "true";
})();
