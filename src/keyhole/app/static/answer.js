import { ask, explain, find, keep } from "./common.js";

const box = find("internal");

/** Show the sections of the report, which come as escaped markup from the templates of the report. */
async function show() {
  const internal = box.checked;
  try {
    const found = await ask("answer", { internal });
    const parsed = new DOMParser().parseFromString(found.html, "text/html");
    find("report").replaceChildren(...parsed.body.childNodes);
    find("report").setAttribute("aria-busy", "false");
    find("kind").textContent = internal ? "INTERNAL. For the owner of the data only." : "Safe to show: no single record, counts rounded.";
    document.querySelector(".view").classList.toggle("owner", internal);
    for (const place of document.querySelectorAll("#report .scroll")) place.tabIndex = 0;
  } catch (error) {
    explain(error);
    find("report").replaceChildren();
  }
}

if (box) {
  box.addEventListener("change", () => {
    keep({ internal: box.checked });
    show();
  });
  show();
}
