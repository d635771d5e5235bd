import { ask, complain, explain, find, keep, make, settle } from "./common.js";

const kept = JSON.parse(find("kept")?.textContent ?? "{}");
const list = find("rules");
let rules = kept.rules ?? [];
let declined = kept.declined ?? [];

/** Return a rule as a person reads it. */
function words(rule) {
  return rule.words || rule.rule;
}

/** Write one equal sign as two, which the grammar wants, unless something is quoted. */
function spell(text) {
  return /["'`]/.test(text) ? text : text.replace(/(?<![=!<>])=(?!=)/g, "==");
}

function change(next) {
  rules = next;
  keep({ rules });
  show();
  check();
}

function show() {
  list.replaceChildren(
    ...rules.map((rule, place) => {
      const others = () => rules.filter((_, x) => x !== place);
      const line = typeof rule.rule === "string"
        ? make("input", {
            type: "text", value: rule.rule, "aria-label": `Rule ${place + 1}`, spellcheck: "false", size: 48,
            onchange: (event) => change(rules.map((old, x) => (x === place ? { ...old, rule: event.target.value } : old))),
          })
        : make("code", {}, words(rule));
      const remove = make("button", { type: "button", class: "small", "aria-label": `Remove rule ${place + 1}`, onclick: () => change(others()) }, "Remove");
      return make("li", {}, make("div", { class: "rule-line" }, line, remove), make("p", { class: "found note" }));
    }),
  );
}

const check = settle(async () => {
  if (!rules.length) {
    find("whole").textContent = "";
    find("contradictions").hidden = true;
    return;
  }
  try {
    const found = await ask("check", { rules });
    [...list.children].forEach((item, place) => describe(item.querySelector(".found"), found.rules[place] ?? {}));
    find("whole").textContent = found.whole.text;
    find("contradictions").hidden = !found.whole.contradicted;
    complain("");
  } catch (error) {
    explain(error);
  }
}, 150);

function describe(place, found) {
  place.classList.toggle("wrong", Boolean(found.error || found.contradicted));
  if (found.error) {
    place.textContent = found.error;
    return;
  }
  const parts = [`Excludes ${found.removes}: ${found.words}.`];
  if (found.redundant) parts.push("Other rules exclude all of it already.");
  if (found.contradicted) {
    const more = found.contradicted > found.rows.length ? ", ..." : "";
    const verb = found.contradicted === 1 ? "row contradicts" : "rows contradict";
    parts.push(`${found.contradicted} ${verb} it: ${found.rows.join(", ")}${more}. Correct the rule or the file.`);
  } else {
    parts.push("No record contradicts it.");
  }
  place.textContent = parts.join(" ");
}

async function suggest() {
  find("looking").textContent = "Looking ...";
  find("suggest").disabled = true;
  try {
    const found = await ask("suggest");
    const more = found.more ? ` ${found.more} more are not shown.` : "";
    find("looking").textContent = found.items.length
      ? `${found.items.length} to decide about.${more}`
      : "None that chance does not explain.";
    find("suggestions").replaceChildren(...found.items.map(offer));
  } catch (error) {
    find("looking").textContent = "";
    explain(error);
  }
  find("suggest").disabled = false;
}

function offer(item) {
  const line = make("li", {});
  const decide = (accepted) => {
    if (accepted) change([...rules, { rule: item.rule, words: item.words }]);
    else keep({ declined: (declined = [...declined, item.words]) });
    const next = line.nextElementSibling ?? line.previousElementSibling;
    line.remove();
    (next?.querySelector("button") ?? find("suggest")).focus();
  };
  const blank = item.blanks.length ? " It rests on blank answers: accept it only if the questionnaire itself excludes it." : "";
  line.append(
    make("div", { class: "rule-line" }, make("code", {}, item.words),
      make("button", { type: "button", class: "small", onclick: () => decide(true) }, "Accept"),
      make("button", { type: "button", class: "small", onclick: () => decide(false) }, "Reject")),
    make("p", { class: "note" }, `No record has it, ${item.expected} expected. If it is wrong, at most ${item.wrong} of the population are left out.${blank}`),
  );
  return line;
}

if (list) {
  find("add").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = spell(find("new-rule").value.trim());
    if (!text) return;
    find("new-rule").value = "";
    change([...rules, { rule: text, words: "" }]);
    find("new-rule").focus();
  });
  find("suggest").addEventListener("click", suggest);
  find("drop-contradictions").addEventListener("change", (event) => keep({ drop_contradictions: event.target.checked }));
  show();
  check();
}
