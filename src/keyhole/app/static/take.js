import { ask, explain, find, keep, project } from "./common.js";

find("internal")?.addEventListener("click", async () => {
  try {
    await ask("internal");
    location.href = `/p/${project}/files/report-internal.html`;
  } catch (error) {
    explain(error);
  }
});
find("session")?.addEventListener("change", (event) => keep({ stays: event.target.checked ? "session" : "always" }));
