/** What all screens share: asking the server, saying what is wrong, keeping what was chosen. */

export const project = document.body.dataset.project;
const screen = document.body.dataset.screen;
let version = Number(document.body.dataset.version);
let keeping = Promise.resolve();

/** Return an element of the page. */
export function find(name) {
  return document.getElementById(name);
}

/** Make an element; text is text, never markup. */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Make an element of a picture. */
export function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Show what is wrong, or nothing. */
export function complain(text) {
  const place = find("problem");
  place.textContent = text;
  place.hidden = !text;
  if (text) place.scrollIntoView({ block: "nearest" });
}

/** Show an error, unless it only says that nobody waits for the answer any more. */
export function explain(error) {
  if (error.name !== "AbortError") complain(error.message);
}

/** Ask the server; an error has the words to show. */
export async function ask(path, body, method = "POST", signal = undefined) {
  let response;
  try {
    const options = { method, signal };
    if (method === "POST") {
      options.headers = { "Content-Type": "application/json" };
      options.body = JSON.stringify(body ?? {});
    }
    response = await fetch(`/api/${project}/${path}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("keyhole does not answer: it has ended. Start it again with: keyhole app");
  }
  const found = await response.json().catch((error) => {
    // The rest of an answer is missing when one leaves the screen: nobody waits for it.
    if (response.ok) throw new DOMException(error.message, "AbortError");
    return {};
  });
  if (!response.ok) throw new Error(found.error ?? "keyhole could not answer: open the page again from its file.");
  return found;
}

/** Send a file that goes with the data, as it is; an empty one takes it away. */
export async function put(path, body, headers = {}) {
  const response = await fetch(`/api/${project}/${path}`, {
    method: "PUT", headers: { "Content-Type": "application/octet-stream", ...headers }, body,
  });
  const found = await response.json();
  if (!response.ok) throw new Error(found.error);
  return found;
}

/** Keep choices, one change after the other, and show the command that follows from them. */
export function keep(changes) {
  keeping = keeping
    .then(() => ask(`choices?screen=${screen}`, changes))
    .then((found) => {
      version = found.version;
      say(found.said);
      complain("");
    })
    .catch((error) => explain(error));
  return keeping;
}

function say(said) {
  const place = find("said");
  if (!place) return;
  find("said-command").textContent = said.command;
  find("said-python").textContent = said.python;
  place.hidden = !said.command;
}

/** Wait until nothing has changed for a moment. */
export function settle(action, delay = 250) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), delay);
  };
}

/** Merge categories with their neighbours, so many at a time. */
export function neighbours(codes, size) {
  const groups = [];
  for (let x = 0; x < codes.length && size > 1; x += size) groups.push(codes.slice(x, x + size));
  return groups.filter((group) => group.length > 1);
}

/** Write a whole number with separators. */
export function whole(value) {
  return Number(value).toLocaleString("en-US");
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(find(button.dataset.copy).textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}

// A link waits for what was chosen just before.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || link.hasAttribute("download") || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (document.activeElement instanceof HTMLInputElement) document.activeElement.blur();
  keeping.finally(() => (location.href = link.href));
});

// Another tab may have changed something.
document.addEventListener("visibilitychange", async () => {
  if (document.hidden || !project) return;
  const found = await ask("version", undefined, "GET").catch(() => null);
  if (found && found.version !== version) location.reload();
});
