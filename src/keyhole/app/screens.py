"""The screens and what they ask, as routes. A screen is a whole page; what it asks is JSON, both ways."""

import asyncio
import json
import mimetypes
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from keyhole.app.children import Children
from keyhole.app.choices import make_options
from keyhole.app.home import CODEBOOK, Home, Project, Run, read_json, show_name
from keyhole.app.said import rules_path, say
from keyhole.app.uploads import TooLargeError, TooManyError, Uploads
from keyhole.errors import KeyholeError, SettingsError
from keyhole.files import replace_file, write_text
from keyhole.words import as_flags, number, percent, plural, read_people, with_interval

FOLDER = Path(__file__).parent
REPORT_STYLE = FOLDER.parent / "report" / "templates" / "style.css"
POLICIES = FOLDER.parent / "risk" / "policies.yaml"
SCREENS = {
    "file": "File",
    "variables": "Variables",
    "rules": "Rules",
    "run": "Run",
    "answer": "Answer",
    "help": "What would help",
    "take": "Take away",
}
DOWNLOADS = {
    "report.html": "text/html",
    "report-internal.html": "text/html",
    "summary.json": "application/json",
    "records.csv": "text/csv",
    "rules.yaml": "application/yaml",
    "plan.html": "text/html",
    "plan.yaml": "application/yaml",
    "protected.csv": "text/csv",
    "protected.codebook.yaml": "application/yaml",
    "protected.log.txt": "text/plain",
}
PROTECTED = "protected.json"
"""Beside the protected file: what the next assessment of it needs."""

RELEASE = ("drop", "merge", "remove", "subsample")
COUNTED = ("keys", "bands", "merged", "missing")
LARGEST_JSON = 2_000_000
LOOK_SECONDS = 0.3
SWEEP_SECONDS = 60.0
KEEP_ALIVE_SECONDS = 15.0

Handler = Callable[["Page", Request], Awaitable[Response]]


@dataclass
class Page:
    """What all requests share. ending: whether the server is about to end, so that streams do too."""

    home: Home
    uploads: Uploads
    children: Children = field(default_factory=Children)
    ending: bool = False

    async def close_desks(self, project: Project) -> None:
        """Close what answers questions about a project."""
        for aside in (False, True):
            await self.children.close_desk(project.identifier, aside)

    async def remove_idle(self) -> None:
        """Remove the uploads that are not used."""
        for project in self.home.list():
            if self.home.is_idle(project) and not self.children.is_busy(project):
                await self.close_desks(project)
                if self.home.is_idle(project):  # nobody came back meanwhile
                    self.home.remove(project)

    async def sweep(self) -> None:
        """Look again and again for uploads that are not used."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.remove_idle()


@cache
def make_environment() -> Environment:
    """Return an environment that escapes everything."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, percent=percent, estimate=with_interval)
    environment.globals.update(plural=plural, screens=SCREENS)
    return environment


@cache
def list_policies() -> tuple[dict[str, Any], ...]:
    """Return the shipped policies that come with a number."""
    found = yaml.safe_load(POLICIES.read_text(encoding="utf-8"))
    return tuple(entry for entry in found if "limit" in entry)


def render(screen: str, project: Project | None, **given: Any) -> HTMLResponse:
    """Return a screen."""
    said = say(screen, project)
    name = "Open a file" if project is None else project.name
    template = make_environment().get_template(f"{screen}.html")
    return HTMLResponse(template.render(screen=screen, project=project, said=said, name=name, **given))


def find_project(page: Page, request: Request) -> Project:
    """Return the project that the address names."""
    project = page.home.read(request.path_params["project"])
    if project is None:
        raise HTTPException(404, "There is no such file here any more: it was removed, or not used for an hour.")
    page.home.use(project)
    return project


async def read_bytes(request: Request) -> bytes:
    """Return the body of a request, which is no upload of data."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_JSON:
            raise HTTPException(413, "This is too long.")
    return body


async def read_body(request: Request) -> dict[str, Any]:
    """Return the JSON of a request."""
    body = await read_bytes(request)
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        raise HTTPException(400, "This is not JSON.") from None
    if not isinstance(found, dict):
        raise HTTPException(400, "This is not what the page sends.")
    return found


def state_of(page: Page, run: Run | None) -> str:
    """Return running, done, stopped, failed, interrupted (the server ended first), or none."""
    if run is None:
        return "none"
    if page.children.is_running(run):
        return "running"
    return "interrupted" if run.outcome is None else str(run.outcome["state"])


async def show_files(page: Page, request: Request) -> Response:
    listed = [(project, state_of(page, project.run), project.finished) for project in page.home.list()]
    return render("file", None, listed=listed, limit=page.uploads.limit)


async def show_variables(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    found = project.variables
    return render("variables", project, found=found, choices=project.choices)


async def show_rules(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    return render("rules", project, choices=project.choices)


async def show_run(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    missing = ""
    try:
        make_options(project.choices)
    except SettingsError as error:
        missing = as_flags(str(error))
    run = project.run
    return render(
        "run", project, choices=project.choices, missing=missing, state=state_of(page, run),
        outcome=None if run is None else run.outcome, changed=run is not None and differs(project, run),
        policies=list_policies(),
    )  # fmt: skip


def differs(project: Project, run: Run) -> bool:
    """Whether something was chosen since that would give another result."""
    request = read_json(run.folder / "request.json") or {}
    asked = dict(request.get("options", {}))
    rules, codebook, sizes = (asked.pop(name, None) for name in ("zeros", "codebook", "strata_sizes"))
    try:
        wanted = make_options(project.choices)
    except SettingsError:
        return True
    text, book = (Path(path).read_text(encoding="utf-8") if path else "" for path in (rules, codebook))
    now = Path(project.codebook).read_text(encoding="utf-8") if project.codebook else ""
    before, after = (Path(path).read_bytes() if path else b"" for path in (sizes, project.sizes))
    return asked != wanted or text != rules_text(project) or book != now or before != after


def rules_text(project: Project) -> str:
    """Return the rules as a file that `zeros` reads, each on the line of its number. JSON is YAML."""
    rules = project.choices.rule_list()
    lines = ",\n".join(json.dumps(rule, ensure_ascii=False) for rule in rules)
    return f'{{"impossible": [{lines}]}}\n' if rules else ""


async def show_answer(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    return render("answer", project, choices=project.choices, run=project.finished)


async def show_help(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    titles = {policy["name"]: policy["title"] for policy in list_policies()}
    asked = [titles.get(name, name) for name in project.choices.policies]
    return render("help", project, choices=project.choices, run=project.finished, asked=asked)


async def show_take(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    return render("take", project, choices=project.choices, run=project.finished)


async def take_upload(page: Page, request: Request) -> Response:
    """Receive a file as the body of the request; its name comes in a header and is only shown."""
    name = unquote(request.headers.get("x-file-name", "file.csv"))
    try:
        path = await page.uploads.receive(request)
    except TooLargeError:
        raise HTTPException(
            413,
            f"The file is larger than {page.uploads.limit / 1e9:.3g} GB: end keyhole and name the file on the command "
            "line, keyhole app FILE, which reads it where it is.",
        ) from None
    except TooManyError:
        raise HTTPException(429, "Four files are on their way already: wait for one of them.") from None
    except ClientDisconnect:
        return PlainTextResponse("", 499)
    return JSONResponse({"project": page.home.make(name, upload=path).identifier})


async def take_codebook(page: Page, request: Request) -> Response:
    """Receive the codebook of a file; an empty one takes it away."""
    project = find_project(page, request)
    try:
        text = (await read_bytes(request)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError("The codebook is not text in UTF-8: save it as YAML or JSON.") from None
    path = project.folder / CODEBOOK
    if text.strip():
        write_text(text, path)
    else:
        path.unlink(missing_ok=True)
    return JSONResponse({})


async def take_sizes(page: Page, request: Request) -> Response:
    """Receive the people in each stratum; an empty file takes them away."""
    project, body = find_project(page, request), await read_bytes(request)
    name = show_name(unquote(request.headers.get("x-file-name", ""))) if body else ""
    if project.choices.strata_sizes:
        project.sizes_path(project.choices.strata_sizes).unlink(missing_ok=True)
    if body:
        replace_file(project.sizes_path(name), body, ".sent-")
    size = "strata" if body else "population" if project.choices.size == "strata" else project.choices.size
    project.change({"strata_sizes": name, "size": size})
    return JSONResponse({})


async def take_hierarchy(page: Page, request: Request) -> Response:
    """Receive a hierarchy, of the key that a header names or of several; one that does not fit changes nothing."""
    project, run = find_finished(page, request)
    body, key = await read_bytes(request), unquote(request.headers.get("x-key", ""))
    path, given = project.hierarchy_path(key), dict(project.choices.hierarchies)
    if body:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = path.with_name(f"new-{path.name}")
        replace_file(fresh, body, ".sent-")
        name = show_name(unquote(request.headers.get("x-file-name", "")))
        others = project.list_hierarchies(other for other in given if other != key)
        wanted = [*others, f"{key}={fresh}" if key else str(fresh)]
        try:
            with calling(fresh, name):
                await page.children.ask(
                    project, "hierarchy", folder=str(run.result), path=project.file, hierarchy=wanted
                )
        except KeyholeError:
            fresh.unlink(missing_ok=True)
            raise
        fresh.replace(path)
        given[key] = name
    else:
        path.unlink(missing_ok=True)
        given.pop(key, None)
    return JSONResponse({"hierarchies": project.change({"hierarchies": given}).choices.hierarchies})


@contextmanager
def calling(path: Path, name: str) -> Iterator[None]:
    """Name a file in messages as the person does who gave it."""
    try:
        yield
    except KeyholeError as error:
        raise KeyholeError(str(error).replace(str(path), name)) from None


async def remove(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    for run in project.runs:
        await page.children.stop_fit(run)
    await page.close_desks(project)
    await asyncio.to_thread(page.home.remove, project)
    return JSONResponse({})


async def choose(page: Page, request: Request) -> Response:
    """Keep choices; return what is chosen now and what the command would be."""
    project = find_project(page, request).change(await read_body(request))
    path = Path(rules_path(project))
    if project.choices.rule_list():
        write_text(rules_text(project), path)
    else:
        path.unlink(missing_ok=True)
    screen = request.query_params.get("screen", "variables")
    said = say(screen if screen in SCREENS else "variables", project)
    return JSONResponse({"version": project.version, "said": said})


async def tell_version(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    return JSONResponse({"version": project.version, "run": state_of(page, project.run)})


async def read_file(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    await page.children.ask(
        project, "read", path=project.file, codebook=project.codebook, out=str(project.folder / "variables.json")
    )
    return JSONResponse({})


def about_keys(project: Project) -> dict[str, Any]:
    """Return what the desk needs to know of the keys."""
    chosen = project.choices
    return {
        "path": project.file, "codebook": project.codebook,
        "keys": chosen.keys, "bands": chosen.used_bands, "merge": chosen.used_merges, "missing": chosen.missing,
    }  # fmt: skip


async def count_alone(page: Page, request: Request) -> Response:
    """Count records that are alone on these keys, which need not be those that are kept."""
    project, body = find_project(page, request), await read_body(request)
    asked = project.choices.change({name: body[name] for name in COUNTED if name in body})
    return JSONResponse(await page.children.ask(project, "alone", **about_keys(replace(project, choices=asked))))


async def list_categories(page: Page, request: Request) -> Response:
    """Return the categories of one key, whether or not it is kept as one, with the merges that are asked for."""
    project, body = find_project(page, request), await read_body(request)
    name, bands, merge = (body.get(part, "") for part in ("name", "bands", "merge"))
    if not all(isinstance(part, str) for part in (name, bands)) or not isinstance(merge, str | list):
        raise HTTPException(400, "This is not what the page sends.")
    if isinstance(merge, list):
        merge = project.choices.change({"merged": {name: merge}}).merged[name]
    return JSONResponse(await page.children.ask(
        project, "categories", path=project.file, codebook=project.codebook, name=name, bands=bands, merge=merge,
        missing=project.choices.missing,
    ))  # fmt: skip


async def check_sizes(page: Page, request: Request) -> Response:
    """Say how many strata and people a file of stratum sizes has, or what is wrong with it."""
    project = find_project(page, request)
    if project.sizes is None or not project.choices.strata:
        return JSONResponse({"text": ""})
    given = {**about_keys(project), "strata": project.choices.strata, "sizes": project.sizes}
    with calling(Path(project.sizes), project.choices.strata_sizes):
        return JSONResponse(await page.children.ask(project, "sizes", **given))


def need_keys(project: Project) -> None:
    """Refuse what needs keys."""
    if not project.choices.keys:
        raise SettingsError("Choose keys first, on the screen Variables.")


async def check_rules(page: Page, request: Request) -> Response:
    project, body = find_project(page, request), await read_body(request)
    need_keys(project)
    rules = [rule.rule for rule in project.choices.change({"rules": body.get("rules", [])}).rules]
    return JSONResponse(await page.children.ask(project, "rules", **about_keys(project), rules=rules))


async def suggest(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    need_keys(project)
    given = project.choices
    people = read_people(given.population) if given.size == "population" and given.population.strip() else None
    found = await page.children.ask(project, "suggest", **about_keys(project), population=people)
    kept = [rule.words for rule in given.rules] + given.declined
    found["items"] = [item for item in found["items"] if item["words"] not in kept]
    return JSONResponse(found)


async def start_run(page: Page, request: Request) -> Response:
    """Start a run, or go on with the last one."""
    project, body = find_project(page, request), await read_body(request)
    run = project.run
    if not page.children.is_running(run):
        if body.get("resume") and run is not None:
            await page.children.start_fit(extend(run, body.get("time_limit")))
        else:
            await page.children.start_fit(project.start_run(make_options(project.choices), rules_text(project)))
    return JSONResponse({})


def extend(run: Run, time_limit: Any) -> Run:
    """Return the run with another time limit, which changes nothing of what it has done."""
    request = read_json(run.folder / "request.json") or {}
    if isinstance(time_limit, str) and time_limit.strip():
        request["options"]["time_limit"] = time_limit.strip()
        write_text(json.dumps(request, ensure_ascii=False), run.folder / "request.json")
    return run


async def stop_run(page: Page, request: Request) -> Response:
    project = find_project(page, request)
    await read_body(request)
    if project.run is not None:
        await page.children.stop_fit(project.run)
    return JSONResponse({"state": state_of(page, project.run)})


async def stream_progress(page: Page, request: Request) -> Response:
    """Send the state of the last run whenever it changes, until it ends."""
    project = find_project(page, request)

    async def events() -> AsyncIterator[str]:
        sent, quiet = "", 0.0
        while not page.ending:
            run = project.run
            state = state_of(page, run)
            progress = None if run is None else read_json(run.folder / "progress.json")
            outcome = None if run is None or state == "running" else run.outcome
            kept = run is not None and run.kept
            text = json.dumps({"state": state, "progress": progress, "outcome": outcome, "kept": kept})
            if text != sent:
                sent, quiet = text, 0.0
                yield f"data: {text}\n\n"
            elif quiet > KEEP_ALIVE_SECONDS:
                quiet = 0.0
                yield ": still here\n\n"
            if state != "running":
                return
            await asyncio.sleep(LOOK_SECONDS)
            quiet += LOOK_SECONDS

    return StreamingResponse(events(), media_type="text/event-stream")


def find_finished(page: Page, request: Request) -> tuple[Project, Run]:
    project = find_project(page, request)
    run = project.finished
    if run is None:
        raise HTTPException(404, "There is no result yet: run the estimate first.")
    return project, run


async def give_answer(page: Page, request: Request) -> Response:
    """Return the sections of the report, safe or internal."""
    project, run = find_finished(page, request)
    body = await read_body(request)
    return JSONResponse(
        await page.children.ask(
            project, "answer", folder=str(run.result), name=project.name, internal=body.get("internal") is True
        )
    )


async def prepare(page: Page, request: Request) -> Response:
    project, run = find_finished(page, request)
    return JSONResponse(await page.children.ask(project, "prepare", folder=str(run.result), path=project.file))


async def what_if(page: Page, request: Request) -> Response:
    project, run = find_finished(page, request)
    body = await read_body(request)
    asked = project.choices.change({name: body[name] for name in RELEASE if name in body}).release()
    folder = str(run.result)
    return JSONResponse(await page.children.ask(project, "what_if", folder=folder, path=project.file, release=asked))


async def find_plan(page: Page, request: Request) -> Response:
    """Search a plan, in a process of its own, so that What would help answers meanwhile."""
    project, run = find_finished(page, request)
    chosen = project.choices
    if not chosen.planned and not chosen.policies:
        raise SettingsError("Write what the release has to meet, for instance tau1.upper=10.")
    for path in [run.protected, *run.folder.glob("protected.*")]:
        path.unlink(missing_ok=True)
    try:
        await page.children.ask(
            project, "plan", aside=True, folder=str(run.result), path=project.file, limits=chosen.planned,
            policy=chosen.policies, keep=chosen.plan_keep, importance=chosen.plan_importance,
            hierarchy=project.hierarchies or None, at_most=chosen.plan_time, out=str(run.plan),
        )  # fmt: skip
    finally:
        await page.children.close_desk(project.identifier, aside=True)
    return JSONResponse({})


async def show_plan(page: Page, request: Request) -> Response:
    """Return the content of the page of the plan, and whether the file was protected by it."""
    _, run = find_finished(page, request)
    path = run.plan / "plan.html"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    # Without its head: the style of a page of its own is not allowed in another one, which has the same.
    content = text.partition("<main>")[2].rpartition("</main>")[0]
    found = read_json(run.folder / PROTECTED) if run.protected.is_file() else None
    return JSONResponse({"html": content, "protected": found is not None, "caution": (found or {}).get("caution", "")})


async def protect(page: Page, request: Request) -> Response:
    """Apply the plan to the file, without the columns that may undo it if that is wished."""
    project, run = find_finished(page, request)
    drop = (await read_body(request)).get("drop_columns") is True
    known = (read_json(run.folder / PROTECTED) or {}).get("columns", [])
    plan, out = str(run.plan / "plan.yaml"), str(run.protected)
    found = await page.children.ask(
        project, "protect", path=project.file, plan=plan, out=out, drop_columns=known if drop else []
    )
    write_text(json.dumps(found), run.folder / PROTECTED)
    return JSONResponse({})


async def assess_protected(page: Page, request: Request) -> Response:
    """Make a project of the protected file, with the choices that still apply."""
    project, run = find_finished(page, request)
    found = read_json(run.folder / PROTECTED)
    if found is None or not run.protected.is_file():
        raise SettingsError("Protect the file first.")
    copy = page.home.incoming / secrets.token_hex(16)
    await asyncio.to_thread(shutil.copyfile, run.protected, copy)
    copy.chmod(0o600)
    made = page.home.make(f"protected {Path(project.name).stem}.csv", upload=copy)
    book = run.folder / "protected.codebook.yaml"
    if book.is_file():
        write_text(book.read_text(encoding="utf-8"), made.folder / CODEBOOK)
    plans = {"plan_keep", "plan_importance", "hierarchies"}
    again = {name: found[name] for name in ("keys", "missing")}
    kept = project.choices.model_dump(exclude={"bands", "merged", "rules", "declined", *RELEASE, *plans})
    if project.sizes is not None:
        shutil.copyfile(project.sizes, made.sizes_path(project.choices.strata_sizes))
    return JSONResponse({"project": made.change({**kept, **again}).identifier})


async def write_internal(page: Page, request: Request) -> Response:
    project, run = find_finished(page, request)
    await page.children.ask(project, "internal_report", folder=str(run.result), name=project.name)
    return JSONResponse({})


async def download(page: Page, request: Request) -> Response:
    """Send a file of the latest result."""
    project = find_project(page, request)
    name = request.path_params["name"]
    if name not in DOWNLOADS:
        raise HTTPException(404, "There is no such file.")
    run = project.finished
    folder = find_folder(project, run, name)
    if folder is None or not (folder / name).is_file():
        raise HTTPException(404, "There is no such file yet.")
    return FileResponse(folder / name, media_type=DOWNLOADS[name], filename=name)


def find_folder(project: Project, run: Run | None, name: str) -> Path | None:
    """Return the folder in which a file to download would be."""
    if name == "rules.yaml":
        return project.folder
    if run is None:
        return None
    kind = name.partition(".")[0]
    return {"plan": run.plan, "protected": run.folder}.get(kind, run.result)


async def send_static(page: Page, request: Request) -> Response:
    """Send a file of the package."""
    name = request.path_params["name"]
    found = {path.name: path for path in (FOLDER / "static").iterdir()} | {"report.css": REPORT_STYLE}
    if name not in found:
        raise HTTPException(404, "There is no such file.")
    return FileResponse(found[name], media_type=mimetypes.guess_type(name)[0])


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/", show_files),
    ("GET", "/p/{project}/variables", show_variables),
    ("GET", "/p/{project}/rules", show_rules),
    ("GET", "/p/{project}/run", show_run),
    ("GET", "/p/{project}/answer", show_answer),
    ("GET", "/p/{project}/help", show_help),
    ("GET", "/p/{project}/take", show_take),
    ("GET", "/p/{project}/files/{name}", download),
    ("GET", "/static/{name}", send_static),
    ("PUT", "/api/upload", take_upload),
    ("DELETE", "/api/{project}", remove),
    ("PUT", "/api/{project}/codebook", take_codebook),
    ("PUT", "/api/{project}/strata-sizes", take_sizes),
    ("PUT", "/api/{project}/hierarchy", take_hierarchy),
    ("POST", "/api/{project}/choices", choose),
    ("GET", "/api/{project}/version", tell_version),
    ("POST", "/api/{project}/read", read_file),
    ("POST", "/api/{project}/alone", count_alone),
    ("POST", "/api/{project}/categories", list_categories),
    ("POST", "/api/{project}/sizes", check_sizes),
    ("POST", "/api/{project}/check", check_rules),
    ("POST", "/api/{project}/suggest", suggest),
    ("POST", "/api/{project}/run", start_run),
    ("POST", "/api/{project}/stop", stop_run),
    ("GET", "/api/{project}/progress", stream_progress),
    ("POST", "/api/{project}/answer", give_answer),
    ("POST", "/api/{project}/prepare", prepare),
    ("POST", "/api/{project}/what-if", what_if),
    ("POST", "/api/{project}/plan", find_plan),
    ("POST", "/api/{project}/plan-page", show_plan),
    ("POST", "/api/{project}/protect", protect),
    ("POST", "/api/{project}/assess-protected", assess_protected),
    ("POST", "/api/{project}/internal", write_internal),
]


def refuse(status: int, message: str, request: Request) -> Response:
    """Return an error as the one who asked can read it."""
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": message}, status)
    page = make_environment().get_template("error.html")
    return HTMLResponse(page.render(screen="", project=None, said=None, name="Not found", message=message), status)


async def refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refuse(error.status_code, error.detail, request)


async def refuse_input(request: Request, error: Exception) -> Response:
    return refuse(422, as_flags(str(error)), request)


async def refuse_unexpected(request: Request, error: Exception) -> Response:
    """Name the kind of error only: its words could quote values of the data."""
    return refuse(500, f"The page failed unexpectedly ({type(error).__name__}): reload it.", request)


def make_routes(page: Page) -> Starlette:
    """Return the application behind the guard."""

    def bind(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            return await handler(page, request)

        return handle

    return Starlette(
        routes=[Route(path, bind(handler), methods=[method]) for method, path, handler in ROUTES],
        exception_handlers={
            HTTPException: refuse_http,
            KeyholeError: refuse_input,
            ClientDisconnect: refuse_unexpected,
        },
    )
