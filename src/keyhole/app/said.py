"""The command and the Python that do what a screen does, to be pasted."""

from pathlib import Path
from typing import Any

from keyhole.app.choices import Choices, make_options
from keyhole.app.home import Project
from keyhole.errors import KeyholeError
from keyhole.words import command_line, write_groups

FLAGS = {"bands": "band"}
IMPORT = "import keyhole as kh\n\n"


def say(screen: str, project: Project | None) -> dict[str, str]:
    """Return command and Python of a screen; empty while something that they need is not chosen."""
    if project is None:
        return {"command": "keyhole inspect FILE", "python": 'import keyhole as kh\n\nkh.inspect("FILE")'}
    if screen == "variables":
        more = [] if project.codebook is None else ["--codebook", project.codebook]
        argument = "" if project.codebook is None else f", codebook={project.codebook!r}"
        seen = make(["keyhole", "inspect", project.file, *more], f"kh.inspect({project.file!r}{argument})")
        run = say_run(project)  # what is chosen here is shown as soon as it is complete
        python = run["python"].removeprefix(IMPORT)
        return {
            "command": "\n".join(filter(None, [seen["command"], run["command"]])),
            "python": "\n".join(filter(None, [seen["python"], python])),
        }
    done, choices = project.finished, project.choices
    if screen == "rules":
        return say_rules(project)
    if screen == "run":
        return say_run(project)
    if done is None:
        return {"command": "", "python": ""}
    folder = str(done.result)
    if screen == "help":
        return say_what_if(project, folder)
    words = ["keyhole", "report", folder, *(["--internal"] if choices.internal or screen == "take" else [])]
    internal = ", internal=True" if choices.internal or screen == "take" else ""
    return make(words, f'a = kh.load({folder!r})\na.report("report.html"{internal})')


def make(words: list[str], python: str) -> dict[str, str]:
    return {"command": command_line(words), "python": f"{IMPORT}{python}"}


def rules_path(project: Project) -> str:
    return str(project.folder / "rules.yaml")


def say_rules(project: Project) -> dict[str, str]:
    """Check the rules, which the page keeps in a file."""
    choices = project.choices
    words = ["keyhole", "zeros", "check", rules_path(project), project.file, "--keys", ",".join(choices.keys)]
    if project.codebook is not None:
        words += ["--codebook", project.codebook]
    for name, text in choices.used_bands.items():
        words += ["--band", f"{name}={text}"]
    for name, groups in choices.used_merges.items():
        words += ["--merge", f"{name}={write_groups(groups)}"]
    bands = f", bands={choices.used_bands!r}" if choices.used_bands else ""
    bands += f", merge={choices.used_merges!r}" if choices.used_merges else ""
    bands += f", codebook={project.codebook!r}" if project.codebook is not None else ""
    return make(words, f"kh.zeros.check({rules_path(project)!r}, {project.file!r}, keys={choices.keys!r}{bands})")


def say_run(project: Project) -> dict[str, str]:
    """Assess the file with what is chosen now."""
    try:
        options = make_options(project.choices)
    except KeyholeError:
        return {"command": "", "python": ""}
    if project.codebook is not None:
        options["codebook"] = project.codebook
    if project.sizes is not None:
        options["strata_sizes"] = project.sizes
    if project.choices.rule_list():
        options["zeros"] = rules_path(project)
    out = f"{Path(project.name).stem or 'file'}.keyhole"
    arguments = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return make(
        ["keyhole", "assess", project.file, *list_flags(options), "--out", out],
        f"a = kh.assess({project.file!r}, {arguments})\na.save({out!r})",
    )


def list_flags(options: dict[str, Any]) -> list[str]:
    """Return the options of `assess` as words of a command."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{FLAGS.get(name, name).replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif name == "keys":
            words += [flag, ",".join(value)]
        elif isinstance(value, dict):
            texts = {key: text if isinstance(text, str) else write_groups(text) for key, text in value.items()}
            words += [word for key, text in texts.items() for word in (flag, f"{key}={text}")]
        elif isinstance(value, list):
            words += [word for item in value for word in (flag, item)]
        else:
            words += [flag, str(value)]
    return words


def say_what_if(project: Project, folder: str) -> dict[str, str]:
    """Ask what is chosen on the screen; without a change there is nothing to ask."""
    choices: Choices = project.choices
    try:
        release = choices.release()
    except KeyholeError:
        release = {}
    merge = release.get("recode", {})
    plan, find = say_plan(project, folder)
    if not any(value for name, value in release.items() if name != "policy"):
        return {"command": plan, "python": f"{IMPORT}a = kh.load({folder!r})\n{find}" if plan else ""}
    words = ["keyhole", "what-if", folder, "--data", project.file]
    for name in choices.drop:
        words += ["--drop", name]
    for name in ("remove", "subsample"):
        words += [f"--{name}", str(release[name])] if name in release else []
    words += [word for name in choices.judged for word in ("--policy", name)]
    for name, groups in merge.items():
        words += ["--merge", f"{name}={write_groups(groups)}"]
    arguments = ", ".join(f"{name}={value!r}" for name, value in release.items() if value)
    asked = f"a.what_if({arguments}, data={project.file!r})"
    said = make(words, f"a = kh.load({folder!r})\n{asked}{find}")
    return {**said, "command": "\n".join(filter(None, [said["command"], plan]))}


def say_plan(project: Project, folder: str) -> tuple[str, str]:
    """Find a plan that meets the limits on the screen, and apply it; nothing without limits."""
    choices = project.choices
    if not choices.planned and not choices.policies:
        return "", ""
    words = ["keyhole", "plan", folder, "--data", project.file]
    weights = [f"{name}={weight:g}" for name, weight in choices.plan_importance.items()]
    options = {
        "--limit": choices.planned, "--policy": choices.policies, "--keep": choices.plan_keep,
        "--importance": weights, "--hierarchy": project.hierarchies,
    }  # fmt: skip
    for name, items in options.items():
        words += [word for item in items for word in (name, item)]
    words += ["--at-most", choices.plan_time, "--out", "plan"]
    protect = ["keyhole", "protect", project.file, "--plan", "plan/plan.yaml", "--out", "protected.csv"]
    more = {
        "policy": choices.policies, "keep": choices.plan_keep, "importance": choices.plan_importance,
        "hierarchy": project.hierarchies,
    }  # fmt: skip
    given = "".join(f", {name}={value!r}" for name, value in more.items() if value)
    python = (
        f"\nplan = a.plan({choices.planned!r}{given}, at_most={choices.plan_time!r}, data={project.file!r})"
        f'\nkh.protect({project.file!r}, plan, out="protected.csv")'
    )
    return f"{command_line(words)}\n{command_line(protect)}", python
