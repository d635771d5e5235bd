import { ask, draw, explain, make, neighbours, settle, whole } from "./common.js";

const WIDE = 400, TOP = 6, LOW = 66, GRIP = 76;
const MOST_CUTS = 24;

/**
 * Make the card of a key, on which categories are merged and numbers are cut.
 * bands: the field in which bands are typed, if the key has numbers; groups: what is merged; changed: called at each change.
 */
export function makeCard(name, bands, groups, changed) {
  const state = make("span", { class: "note" });
  const cuts = make("div", {}), list = make("ul", { class: "merging", "aria-label": `Categories of ${name}` });
  const refused = make("p", { class: "refused", role: "status", hidden: true });
  const slider = make("div", {});
  const typed = make("input", { type: "text", size: 30, spellcheck: "false", autocomplete: "off", placeholder: "1,2|3,4", onchange: () => set(typed.value) });
  const together = make("button", { type: "button", class: "small", onclick: () => merge(ticked()) }, "Merge the ticked");
  const undo = make("button", { type: "button", class: "small", onclick: () => set([]) }, "Undo all");
  const card = make("details", { class: "key-card", "data-name": name, ontoggle: () => card.open && refresh() },
    make("summary", {}, make("bdi", {}, name), " ", state),
    make("div", { class: "coarser" },
      make("div", {}, cuts, slider, make("p", {}, make("label", {}, "Merge as typed: ", typed)), refused),
      make("div", {}, list, make("p", { class: "actions" }, together, undo))));
  let found = { categories: [], ordered: [] };
  let asked = 0;

  function say() {
    state.textContent = groups.length ? `${groups.length} merged` : "";
    undo.hidden = !groups.length;
  }

  /** Merge as these lists say, or as they are typed. */
  async function set(wanted) {
    if (await refresh(wanted)) changed(groups);
  }

  /** Show the categories as they are merged; return whether that could be done. */
  async function refresh(wanted = groups) {
    const number = ++asked;
    try {
      const answer = await ask("categories", { name, bands: bands?.value.trim() ?? "", merge: wanted });
      if (number !== asked) return false;
      found = answer;
      // What was typed is kept even if it does not fit, so that it can be mended.
      groups = found.groups;
      show();
      return true;
    } catch (error) {
      refused.textContent = error.message;
      refused.hidden = error.name === "AbortError";
      return false;
    }
  }

  function ticked() {
    return [...list.querySelectorAll("input:checked")].map((box) => Number(box.value));
  }

  function merge(places) {
    if (places.length < 2) return;
    const one = places.sort((a, b) => a - b).flatMap((x) => found.categories[x].codes);
    const others = found.categories.filter((_, x) => !places.includes(x)).map((item) => item.codes).filter((codes) => codes.length > 1);
    set([...others, one]).then(() => list.querySelector(`[data-first="${found.categories.findIndex((item) => item.codes.includes(one[0]))}"] button`)?.focus());
  }

  function split(place) {
    set(found.categories.filter((_, x) => x !== place).map((item) => item.codes).filter((codes) => codes.length > 1)).then(() => list.querySelector("input")?.focus());
  }

  /** Show what was found; what has the focus keeps it. */
  function show() {
    const before = card.contains(document.activeElement) ? document.activeElement : null;
    render();
    if (!before || before.isConnected) return;
    const like = (one) => one.getAttribute("aria-label") === before.getAttribute("aria-label") && one.value === before.value;
    [...card.querySelectorAll("input, button, [tabindex]")].find(like)?.focus();
  }

  function render() {
    say();
    typed.value = found.text;
    refused.textContent = found.refused;
    refused.hidden = !found.refused;
    const largest = Math.max(1, ...found.categories.map((item) => item.count));
    list.replaceChildren(...found.categories.map((item, x) => row(item, x, largest)));
    if (found.more) list.append(make("li", { class: "note" }, `${whole(found.more)} more: type them.`));
    together.hidden = found.categories.length < 2;
    slider.replaceChildren(...(found.ordered.length > 3 ? [slide()] : []));
    if (found.numbers && bands) cuts.replaceChildren(drawCuts(found.numbers));
  }

  function row(item, x, largest) {
    const text = item.texts.length > 4 ? `${item.texts[0]} ... ${item.texts.at(-1)} (${item.texts.length})` : item.texts.join(" + ");
    const line = make("li", {
      draggable: "true", "data-first": x, class: item.codes.length > 1 ? "merged" : null,
      ondragstart: (event) => {
        event.dataTransfer.setData("text/plain", String(x));
        event.dataTransfer.effectAllowed = "move";
      },
      ondragover: (event) => {
        event.preventDefault();
        line.classList.add("over");
      },
      ondragleave: () => line.classList.remove("over"),
      ondrop: (event) => {
        event.preventDefault();
        line.classList.remove("over");
        const from = Number(event.dataTransfer.getData("text/plain"));
        if (card.querySelector(".dragged") && from !== x) merge([from, x]);
      },
    }, make("label", {}, make("input", { type: "checkbox", value: x }), " ", make("bdi", {}, text)),
    draw("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, draw("rect", { width: (100 * item.count) / largest, height: 8, class: "part" })),
    make("span", { class: "n" }, whole(item.count)));
    // Only what is dragged within this card can be dropped on it.
    line.addEventListener("dragstart", () => line.classList.add("dragged"));
    line.addEventListener("dragend", () => line.classList.remove("dragged"));
    if (item.codes.length > 1) {
      line.append(make("button", { type: "button", class: "small", "aria-label": `Undo merging ${item.texts.join(", ")}`, onclick: () => split(x) }, "\u00d7"));
    }
    return line;
  }

  function slide() {
    const most = Math.min(20, Math.ceil(found.ordered.length / 2));
    const same = (size) => JSON.stringify(neighbours(found.ordered, size)) === JSON.stringify(groups);
    const left = Array.from({ length: most }, (_, x) => x + 1).find(same) ?? 1;
    const shown = make("output", {}, String(left));
    const range = make("input", {
      type: "range", min: 1, max: most, value: left, "aria-label": `${name}: neighbours merged together`,
      oninput: () => (shown.textContent = range.value),
      onchange: () => set(neighbours(found.ordered, Number(range.value))).then(() => slider.querySelector("input")?.focus()),
    });
    return make("p", {}, make("label", {}, "Neighbours merged together: ", shown, range));
  }

  /** Draw how the numbers are distributed, with cuts that can be dragged, or moved and removed by keys. */
  function drawCuts({ low, high, end, step, bars, limits }) {
    const least = Math.floor(low / step) * step;
    const tidy = (value) => Number((Math.round(value / step) * step).toPrecision(12));
    const at = (value) => 8 + ((value - low) / (end - low || 1)) * (WIDE - 16);
    const first = limits.length ? Math.min(limits[0], low) : tidy(least);
    let places = limits.slice(1).filter((value) => value > low && value <= high);
    const tallest = Math.max(1, ...bars), width = (WIDE - 16) / bars.length;
    const picture = draw("svg", { viewBox: `0 0 ${WIDE} 100`, class: "cuts", role: "group", "aria-label": `Cuts of ${name}, from ${low} to ${high}` });
    picture.append(...bars.map((count, x) => {
      const tall = ((LOW - TOP) * count) / tallest;
      return draw("rect", { x: 8 + x * width, y: LOW - tall, width: Math.max(width - 0.6, 0.4), height: tall, class: "part" });
    }), draw("line", { x1: 8, x2: WIDE - 8, y1: LOW, y2: LOW, class: "axis" }));
    const commit = settle((focus) => write(focus), 250);

    /** Write the cuts into the field of the bands, as if they were typed. */
    function write(focus) {
      bands.value = places.length ? [first, ...places].join(",") : "";
      groups = [];  // they are of categories that are no more
      changed(groups);
      bands.dispatchEvent(new Event("input", { bubbles: true }));
      refresh().then(() => focus !== undefined && cuts.querySelectorAll("[role=slider]")[Math.min(focus, places.length - 1)]?.focus());
    }

    function handle(x) {
      const line = draw("line", { y1: TOP - 4, y2: GRIP, class: "cut" });
      const grip = draw("circle", { cy: GRIP, r: 7, class: "grip" });
      const text = draw("text", { y: 97, "text-anchor": "middle", class: "tick" });
      const slot = draw("rect", { y: 0, width: 20, height: 88, class: "slot" });
      const whole_ = draw("g", { role: "slider", tabindex: 0, "aria-label": `Cut ${x + 1} of ${name}`, "aria-orientation": "horizontal" }, slot, line, grip, text);
      const bounds = () => [(x ? places[x - 1] : Math.max(first, low)) + step, x + 1 < places.length ? places[x + 1] - step : high];
      function move(value) {
        const [from, to] = bounds();
        places[x] = tidy(Math.min(Math.max(value, from), to));
        const where = at(places[x]).toFixed(1);
        line.setAttribute("x1", where);
        line.setAttribute("x2", where);
        grip.setAttribute("cx", where);
        slot.setAttribute("x", where - 10);
        text.setAttribute("x", where);
        text.textContent = places.length < 13 ? String(places[x]) : "";
        for (const [attribute, number] of [["now", places[x]], ["min", from], ["max", to]]) whole_.setAttribute(`aria-value${attribute}`, number);
      }
      move(places[x]);
      let dragging = false;
      whole_.addEventListener("pointerdown", (event) => {
        whole_.setPointerCapture(event.pointerId);
        dragging = true;
      });
      whole_.addEventListener("pointermove", (event) => {
        if (!dragging) return;
        const box = picture.getBoundingClientRect();
        move(low + ((((event.clientX - box.left) / box.width) * WIDE - 8) / (WIDE - 16)) * (end - low));
      });
      whole_.addEventListener("pointerup", () => {
        if (dragging) write();
        dragging = false;
      });
      whole_.addEventListener("keydown", (event) => {
        const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
        if (steps) move(places[x] + steps * step);
        else if (event.key === "Delete" || event.key === "Backspace") places = places.filter((_, y) => y !== x);
        else return;
        event.preventDefault();
        if (steps) commit(x);
        else write(x);
      });
      return whole_;
    }

    /** Cut the band with the most records where half of them are below. */
    function add() {
      const edges = [low, ...places, end], size = (end - low) / bars.length;
      const inside = (x) => bars.map((count, y) => (low + y * size >= edges[x] - 1e-9 && low + y * size < edges[x + 1] - 1e-9 ? count : 0));
      const total = (counts) => counts.reduce((sum, count) => sum + count, 0);
      const most = edges.slice(1).map((_, x) => x).reduce((best, x) => (total(inside(x)) > total(inside(best)) ? x : best), 0);
      const counts = inside(most), half = total(counts) / 2;
      let below = 0;
      let y = counts.findIndex((count) => (below += count) >= half);
      const usable = (value) => value > edges[most] + step / 2 && value <= high && !places.includes(value);
      let value = tidy(low + y * size);
      while (!usable(value) && y++ < bars.length) value = tidy(low + y * size);
      if (!usable(value)) return;
      places = [...places, value].sort((a, b) => a - b);
      write(places.indexOf(value));
    }

    const buttons = make("p", { class: "actions" }, make("button", { type: "button", class: "small", onclick: add }, "Add a cut"));
    if (places.length) {
      buttons.append(make("button", { type: "button", class: "small", onclick: () => {
        places = [];
        write();
      } }, "Without bands"));
    }
    if (places.length > MOST_CUTS) {
      picture.append(...places.map((value) => draw("line", { x1: at(value), x2: at(value), y1: TOP - 4, y2: LOW, class: "cut" })));
      buttons.prepend(make("span", { class: "note" }, `${places.length} cuts: too many to drag.`));
    } else {
      picture.append(...places.map((_, x) => handle(x)));
      if (places.length) buttons.prepend(make("span", { class: "note" }, "Drag a cut, or move it by arrow keys; Delete removes it."));
    }
    return make("div", {}, picture, buttons);
  }

  say();
  return { card, refresh: settle(() => card.open && refresh().catch(explain), 250) };
}
