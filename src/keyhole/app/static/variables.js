import { makeCard } from "./coarser.js";
import { ask, explain, find, keep, put, settle, whole } from "./common.js";

const form = find("variables");
const rows = [...document.querySelectorAll("table.variables tbody tr")];
const cards = new Map();
const merged = JSON.parse(find("kept")?.textContent ?? "{}").merged ?? {};
let running = new AbortController();

function keys() {
  return rows.filter((row) => row.querySelector(".is-key").checked).map((row) => row.dataset.name);
}

function bands() {
  const found = {};
  for (const row of rows) {
    const text = row.querySelector(".bands")?.value.trim();
    if (text) found[row.dataset.name] = text;
  }
  return found;
}

/** Count who is alone on the keys that are ticked, then what each other choice would change, one after the other. */
async function count() {
  running.abort();
  running = new AbortController();
  const signal = running.signal;
  const chosen = keys();
  const given = { bands: bands(), merged, missing: find("missing").value };
  const total = Number(document.querySelector("table.variables").dataset.rows);
  find("key-count").textContent = `${chosen.length} key${chosen.length === 1 ? "" : "s"}`;
  for (const row of rows) {
    row.classList.toggle("chosen", chosen.includes(row.dataset.name));
    row.querySelector("[data-cost]").textContent = "";
  }
  try {
    const found = await ask("alone", { ...given, keys: chosen }, "POST", signal);
    find("alone").textContent = whole(found.alone);
    find("alone-bar").setAttribute("width", (100 * found.alone) / Math.max(found.records, 1));
    for (const row of rows) refuse(row, found.refused[row.dataset.name]);
    const usable = chosen.filter((name) => !(name in found.refused));
    const not = chosen.length - usable.length;
    find("key-count").textContent = `${usable.length} key${usable.length === 1 ? "" : "s"}${not ? `; ${not} cannot be used yet` : ""}`;
    for (const row of rows) {
      const name = row.dataset.name;
      const inside = usable.includes(name);
      if (!inside && (!row.classList.contains("looks-key") || chosen.includes(name))) continue;
      const others = inside ? usable.filter((other) => other !== name) : [...usable, name];
      const other = await ask("alone", { ...given, keys: others }, "POST", signal);
      if (name in other.refused) continue;
      const change = other.alone - found.alone;
      const sign = change > 0 ? "+" : change < 0 ? "\u2212" : "\u00b1";
      row.querySelector("[data-cost]").textContent = `${whole(other.alone)} (${sign}${whole(Math.abs(change))})`;
    }
  } catch (error) {
    explain(error);
  }
}

/** A card for each chosen key, on which its categories are merged. */
function showCards() {
  const chosen = keys();
  find("coarser").hidden = !chosen.length;
  for (const name of chosen) {
    if (!cards.has(name)) cards.set(name, makeCard(name, rows.find((row) => row.dataset.name === name).querySelector(".bands"), merged[name] ?? [], (groups) => {
      merged[name] = groups;
      keepAll();
      count();
    }));
  }
  const wanted = chosen.map((name) => cards.get(name).card);
  for (const card of [...find("coarser-keys").children]) if (!wanted.includes(card)) card.remove();
  wanted.forEach((card, place) => {
    if (find("coarser-keys").children[place] !== card) find("coarser-keys").insertBefore(card, find("coarser-keys").children[place] ?? null);
  });
}

/** Say what the file of stratum sizes has, or what is wrong with it. */
async function checkSizes() {
  const place = find("sizes-found");
  if (!place) return;
  try {
    place.textContent = (await ask("sizes")).text;
    place.classList.remove("wrong");
  } catch (error) {
    place.textContent = error.message;
    place.classList.add("wrong");
  }
}

async function giveSizes(name, body) {
  try {
    await keepAll();
    await put("strata-sizes", body, { "X-File-Name": encodeURIComponent(name) });
    location.reload();
  } catch (error) {
    explain(error);
  }
}

function refuse(row, reason) {
  const place = row.querySelector(".refused");
  place.textContent = reason ?? "";
  place.hidden = !reason;
}

function keepAll() {
  return keep({
    keys: keys(),
    bands: bands(),
    merged,
    size: form.querySelector("input[name=size]:checked").value,
    population: find("population").value,
    fraction: find("fraction").value,
    weight: find("weight").value || null,
    household: find("household").value || null,
    missing: find("missing").value,
    strata: [...form.querySelectorAll(".stratum:checked")].map((box) => box.value),
  });
}

/** Keep a codebook, and read the file again with it; one that does not fit is not kept. */
async function giveCodebook(text) {
  try {
    await put("codebook", text);
    await ask("read");
    location.reload();
  } catch (error) {
    await put("codebook", "");
    explain(error);
  }
}

if (form) {
  const countSoon = settle(count, 200);
  const keepSoon = settle(keepAll, 400);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => {
    if (event.target.id === "sizes") {
      if (event.target.files.length) giveSizes(event.target.files[0].name, event.target.files[0]);
      return;
    }
    const kept = keepAll();
    if (event.target.matches(".is-key, #missing")) {
      showCards();
      count();
    }
    if (event.target.matches(".stratum, .is-key, .bands, [name=size]")) kept.then(checkSizes);
    if (event.target.id === "missing") kept.then(() => cards.forEach((card) => card.refresh()));
  });
  form.addEventListener("input", (event) => {
    if (event.target.id === "population") form.querySelector("input[value=population]").checked = true;
    if (event.target.id === "fraction") form.querySelector("input[value=fraction]").checked = true;
    if (event.target.matches("input[type=text]")) keepSoon();
    if (event.target.matches(".bands")) {
      countSoon();
      cards.get(event.target.closest("tr").dataset.name)?.refresh();
    }
  });
  showCards();
  count();
  checkSizes();
  find("no-sizes")?.addEventListener("click", () => giveSizes("", ""));
  find("codebook").addEventListener("change", async () => giveCodebook(await find("codebook").files[0].text()));
  find("no-codebook")?.addEventListener("click", () => giveCodebook(""));
} else {
  ask("read").then(() => location.reload()).catch((error) => {
    find("reading").hidden = true;
    explain(error);
  });
}
