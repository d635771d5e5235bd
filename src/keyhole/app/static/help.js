import { ask, complain, draw, explain, find, keep, make, neighbours, put, settle, whole } from "./common.js";

const kept = JSON.parse(find("kept")?.textContent ?? "{}");
let drop = kept.drop ?? [];
let merge = kept.merge ?? {};
let asking = new AbortController();

/** Ask what would remain with what is left out and merged now. */
const ask_ = settle(async () => {
  asking.abort();
  asking = new AbortController();
  try {
    showChange(await ask("what-if", { drop, merge, ...records() }, "POST", asking.signal));
    complain("");
  } catch (error) {
    explain(error);
  }
}, 150);

function changed() {
  keep({ drop, merge, ...records() });
  ask_();
}

/** What is done to records rather than to keys. */
function records() {
  return { remove: find("remove").value, subsample: find("subsample").value.trim() };
}

function showChange({ before, after, policies = [] }) {
  find("policies").replaceChildren(...policies.map((one) => make("li", {}, make("strong", { class: one.met ? "yes" : "no" }, one.met ? "Met. " : "NOT MET. "), one.words)));
  const scale = before.sample_uniques || 1;
  for (const name of ["uniques", "tau1", "tau2"]) {
    const row = document.querySelector(`#change tr[data-row=${name}]`);
    const value = (found) => name === "uniques" ? whole(found.sample_uniques) : `${found[name].about ? `${found[name].about} (${found[name].range})` : found[name].range}`;
    row.children[1].textContent = value(before);
    row.children[2].textContent = value(after);
    const ends = (found) => name === "uniques" ? [found.sample_uniques, found.sample_uniques, found.sample_uniques] : [found[name].interval[0], found[name].mean, found[name].interval[1]];
    row.children[3].replaceChildren(picture(ends(before), ends(after), scale));
  }
  find("grade").textContent = after.grade === "converged" ? "" : after.grade === "usable"
    ? "The result after the change is usable, not yet exact: a longer run would make it more certain."
    : "The chains do not agree on the result after the change: the range over chains is shown.";
}

/** Draw before (pale) and after (dark) as bars, each with its interval. */
function picture(before, after, scale) {
  const at = (value) => (200 * Math.min(value / scale, 1)).toFixed(1);
  const row = ([low, mean, high], y, look) => [
    draw("rect", { x: 0, y, width: at(mean), height: 9, class: look }),
    draw("rect", { x: at(low), y: y + 3, width: Math.max(at(high) - at(low), 0.6), height: 3, class: "range" }),
  ];
  return draw("svg", { viewBox: "0 0 200 24", preserveAspectRatio: "none", "aria-hidden": "true" }, ...row(before, 1, "whole"), ...row(after, 13, "part"));
}

function card(key, best) {
  const text = Object.fromEntries(key.categories.map((code, x) => [code, key.labels[x]]));
  const box = make("input", { type: "checkbox", checked: drop.includes(key.name), onchange: () => {
    drop = box.checked ? [...drop, key.name] : drop.filter((name) => name !== key.name);
    changed();
    show();
  } });
  const body = make("div", {});
  const whole_ = make("section", { class: "key-card", "aria-label": key.name },
    make("h2", {}, make("bdi", {}, key.name)), make("p", {}, make("label", {}, box, " Leave it out")), body);

  function set(groups) {
    merge = { ...merge, [key.name]: groups };
    changed();
    show();
  }

  function show() {
    const groups = merge[key.name] ?? [];
    whole_.classList.toggle("left-out", box.checked);
    body.hidden = box.checked;
    const chips = groups.map((group, place) => make("li", {}, make("button", {
      type: "button", "aria-label": `Undo merging ${group.map((code) => text[code]).join(", ")}`,
      onclick: () => set(groups.filter((_, x) => x !== place)),
    }, `${range(group)} \u00d7`)));
    find_(".chips").replaceChildren(...chips);
    const taken = new Set(groups.flat());
    for (const item of body.querySelectorAll(".categories li")) {
      const input = item.querySelector("input");
      input.disabled = taken.has(input.value);
      if (input.disabled) input.checked = false;
    }
  }

  const range = (group) => group.length > 3 ? `${text[group[0]]} ... ${text[group.at(-1)]} (${group.length})` : group.map((code) => text[code]).join(" + ");
  const find_ = (selector) => body.querySelector(selector);
  const [first, end] = key.ordered;
  if (end - first > 3) {
    const most = Math.min(20, Math.ceil((end - first) / 2));
    // After a reload the slider stands where it was left.
    const ordered = key.categories.slice(first, end);
    const same = (size) => JSON.stringify(neighbours(ordered, size)) === JSON.stringify(merge[key.name] ?? []);
    const left = Array.from({ length: most }, (_, x) => x + 1).find(same) ?? 1;
    const shown = make("output", {}, String(left));
    const slider = make("input", { type: "range", min: 1, max: most, value: left, "aria-label": `${key.name}: neighbours merged together`, oninput: () => {
      shown.textContent = slider.value;
      set(neighbours(ordered, Number(slider.value)));
    } });
    body.append(make("p", {}, make("label", {}, "Neighbours merged together: ", shown, slider)));
  }
  const items = key.categories.map((code) => make("li", {}, make("label", {}, make("input", { type: "checkbox", value: code }), " ", make("bdi", {}, text[code]))));
  const button = make("button", { type: "button", class: "small", onclick: () => {
    const chosen = [...body.querySelectorAll(".categories input:checked")].map((input) => input.value);
    if (chosen.length > 1) set([...(merge[key.name] ?? []), chosen]);
  } }, "Merge the ticked");
  body.append(
    make("ul", { class: "chips", "aria-label": `Merged categories of ${key.name}` }),
    make("details", {}, make("summary", {}, `${key.categories.length} categories`),
      make("ul", { class: "categories", tabindex: 0, "aria-label": `Categories of ${key.name}` }, ...items), make("p", {}, button)),
  );
  if (best) {
    const apply = make("button", { type: "button", class: "small", onclick: () => {
      if (best.step === "leave out") box.click();
      else set(best.merged);
    } }, "Try it");
    const lost = best.step === "leave out" ? "" : `, ${best.lost} of what it says is lost`;
    body.append(make("p", { class: "note" }, `Best single step: ${STEPS[best.step]}; then ${best.remains} (${best.range}) remain${lost}. `, apply));
  }
  show();
  return whole_;
}

const STEPS = {
  "leave out": "leave it out", bands: "merge neighbours", top: "merge the highest", bottom: "merge the lowest",
  rare: "merge the rarest",
};

async function open() {
  try {
    const found = await ask("prepare");
    // What was chosen for another result may be of keys that this one does not have.
    const names = found.keys.map((key) => key.name);
    drop = drop.filter((name) => names.includes(name));
    merge = Object.fromEntries(Object.entries(merge).filter(([name]) => names.includes(name)));
    find("keys").replaceChildren(...found.keys.map((key) => card(key, found.helps.find((one) => one.name === key.name))));
    find("waiting").hidden = true;
    find("help").hidden = false;
    showChange({ before: found.before, after: found.before, policies: found.policies });
    openPlan(names);
    const some = Object.values(merge).some((groups) => groups.length) || Object.values(records()).some(Boolean);
    if (drop.length || some) ask_();
  } catch (error) {
    find("waiting").hidden = true;
    explain(error);
  }
}

/** The plan that was found last, and the form for another one. */
async function openPlan(names) {
  const keepers = kept.plan_keep ?? [], weights = kept.plan_importance ?? {};
  find("plan-keys").append(...names.map((name) => make("tr", { "data-name": name }, make("th", { scope: "row" }, make("bdi", {}, name)),
    make("td", {}, make("input", { type: "checkbox", value: name, checked: keepers.includes(name), "aria-label": `${name} stays as it is` })),
    make("td", {}, make("input", { type: "number", min: 0, step: "any", value: weights[name] ?? 1, "aria-label": `Importance of ${name}` })))));
  find("hierarchy-key").append(...names.map((name) => make("option", { value: name }, name)));
  showHierarchies(kept.hierarchies ?? {});
  await showPlan();
}

function planChoices() {
  return {
    plan_limits: find("plan-limits").value.trim(), plan_time: find("plan-time").value.trim(),
    plan_keep: [...find("plan-keys").querySelectorAll("input:checked")].map((box) => box.value),
    plan_importance: Object.fromEntries([...find("plan-keys").rows].map((row) => [row.dataset.name, Number(row.querySelector("input[type=number]").value)]).filter(([, weight]) => weight !== 1)),
  };
}

/** The hierarchies that were given, each with a button that takes it away. */
function showHierarchies(given) {
  find("hierarchies").replaceChildren(...Object.entries(given).map(([key, name]) => make("li", {}, make("button", {
    type: "button", "aria-label": `Do without the hierarchy ${name}`, onclick: () => giveHierarchy(key, "", ""),
  }, `${key ? `${key}: ` : ""}${name} \u00d7`))));
}

async function giveHierarchy(key, name, body) {
  try {
    const found = await put("hierarchy", body, { "X-Key": encodeURIComponent(key), "X-File-Name": encodeURIComponent(name) });
    showHierarchies(found.hierarchies);
    complain("");
    await keep({});  // the command has changed
  } catch (error) {
    explain(error);
  }
}

/** Show what the page of the plan shows, which comes as escaped markup from its template. */
async function showPlan() {
  const found = await ask("plan-page");
  const parsed = new DOMParser().parseFromString(found.html, "text/html");
  find("plan").replaceChildren(...parsed.body.childNodes);
  for (const place of find("plan").querySelectorAll(".scroll")) place.tabIndex = 0;
  find("plan-next").hidden = !found.html;
  find("protected").hidden = !found.protected;
  find("undoing").hidden = !found.caution;
  find("undoing-what").textContent = found.caution;
}

/** Do something that takes a while, with a word about it. */
async function wait(button, place, words, action) {
  button.disabled = true;
  find(place).textContent = words;
  try {
    complain("");
    await action();
  } catch (error) {
    explain(error);
  }
  find(place).textContent = "";
  button.disabled = false;
}

if (find("help")) {
  find("plan-form").addEventListener("submit", (event) => {
    event.preventDefault();
    wait(find("plan-start"), "plan-state", `Searching, at most ${find("plan-time").value} ...`, async () => {
      await keep(planChoices());
      await ask("plan");
      await showPlan();
    });
  });
  find("records").addEventListener("change", changed);
  find("plan-form").addEventListener("change", async (event) => {
    if (event.target.id === "hierarchy-key") return;
    if (event.target.id !== "hierarchy") keep(planChoices());
    else if (event.target.files.length) {
      await giveHierarchy(find("hierarchy-key").value, event.target.files[0].name, event.target.files[0]);
      event.target.value = "";
    }
  });
  find("protect").addEventListener("click", () => wait(find("protect"), "protect-state", "Protecting ...", async () => {
    await ask("protect");
    await showPlan();
  }));
  find("leave-out").addEventListener("click", () => wait(find("leave-out"), "protect-state", "Protecting ...", async () => {
    await ask("protect", { drop_columns: true });
    await showPlan();
  }));
  find("assess-protected").addEventListener("click", () => wait(find("assess-protected"), "protect-state", "", async () => {
    location.href = `/p/${(await ask("assess-protected")).project}/variables`;
  }));
  open();
}
