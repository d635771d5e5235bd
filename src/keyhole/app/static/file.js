import { complain, find } from "./common.js";

const field = find("file");
const drop = find("drop");

/** Send a file as it is; its name comes in a header and is only shown. */
function send(file) {
  complain("");
  if (file.size > Number(field.dataset.limit)) {
    complain("The file is too large to be copied: end keyhole and name it on the command line, keyhole app FILE.");
    return;
  }
  const request = new XMLHttpRequest();
  request.open("PUT", "/api/upload");
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.setRequestHeader("X-File-Name", encodeURIComponent(file.name));
  request.upload.addEventListener("progress", (event) => {
    find("sent").value = event.lengthComputable ? (100 * event.loaded) / event.total : 0;
  });
  request.addEventListener("error", () => fail("The file could not be sent: keyhole has ended."));
  request.addEventListener("load", async () => {
    const found = JSON.parse(request.responseText || "{}");
    if (request.status !== 200) {
      fail(found.error ?? "The file could not be sent.");
      return;
    }
    await keepFor(found.project, find("stays").value);
    location.href = `/p/${found.project}/variables`;
  });
  find("sending-name").textContent = file.name;
  find("sending").hidden = false;
  request.send(file);
}

/** Say how long a file and its results are kept. */
async function keepFor(project, stays) {
  const response = await fetch(`/api/${project}/choices`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ stays }),
  });
  if (!response.ok) location.reload();
}

function fail(text) {
  find("sending").hidden = true;
  complain(text);
}

field.addEventListener("change", () => field.files.length && send(field.files[0]));
if (field.files.length) send(field.files[0]);  // chosen before this script was there
drop.addEventListener("dragover", (event) => {
  event.preventDefault();
  drop.classList.add("over");
});
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
});

for (const choice of document.querySelectorAll("[data-stays]")) {
  choice.addEventListener("change", () => keepFor(choice.dataset.stays, choice.value));
}

for (const button of document.querySelectorAll("[data-remove]")) {
  button.addEventListener("click", async () => {
    if (!button.dataset.sure) {
      button.dataset.sure = "yes";
      button.firstChild.textContent = "Really remove";
      return;
    }
    const response = await fetch(`/api/${button.dataset.remove}`, { method: "DELETE" });
    if (!response.ok) complain("It could not be removed.");
    location.reload();
  });
}
