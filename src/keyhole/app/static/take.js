import { ask, explain, find, keep, project } from "./common.js";

find("internal")?.addEventListener("click", async () => {
  try {
    await ask("internal");
    location.href = `/p/${project}/files/report-internal.html`;
  } catch (error) {
    explain(error);
  }
});
find("temporary")?.addEventListener("change", (event) => keep({ temporary: event.target.checked }));
