"""The article's figures: histogram of tau1, box plot with 95 % whiskers, trace of the number of profiles."""

from pathlib import Path

from benchmarks.article.experiments import Result


def have_matplotlib() -> bool:
    """Say how to get matplotlib where it is absent; it is no dependency of keyhole."""
    try:
        import matplotlib
    except ImportError:
        print("Figures are left out: pip install matplotlib.")
        return False
    matplotlib.use("Agg")
    return True


def draw_figure(results: list[Result], path: Path) -> None:
    """Draw one row for each sample; the truth is red, the median orange and the mean dashed green."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(results), 3, figsize=(12, 2.6 * len(results)), squeeze=False)
    for row, result in zip(axes, results, strict=True):
        tau1 = result.found.draws["tau1"].ravel()
        truth = result.experiment.truth
        row[0].hist(tau1, bins=min(max(int(tau1.max() - tau1.min()) + 1, 5), 40), color="#8fb3d9")
        row[0].set_title(f"{result.experiment.name}: tau1", fontsize=9)
        row[1].boxplot(
            tau1, whis=(2.5, 97.5), showfliers=False, showmeans=True, meanline=True,
            medianprops={"color": "orange"}, meanprops={"color": "green", "linestyle": "--"},
        )  # fmt: skip
        row[1].set_xticks([])
        row[1].set_title(f"{result.settings}, whiskers 95 %", fontsize=9)
        if truth is not None:
            row[0].axvline(truth, color="red")
            row[1].axhline(truth, color="red")
        for chain in result.found.draws["profiles"]:
            row[2].plot(chain, linewidth=0.6)
        row[2].set_title("profiles, by draw, one line a chain", fontsize=9)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def draw_profiles_figure(rows: list[dict[str, float]], truth: float | None, path: Path) -> None:
    """Draw tau1 of the parametric model against the number of profiles, with 95 % intervals, and the held-out score."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.6))
    place = range(len(rows))
    names = [f"{row['profiles']:g}" for row in rows]
    mean = [row["tau1"] for row in rows]
    low = [row["tau1"] - row["low"] for row in rows]
    high = [row["high"] - row["tau1"] for row in rows]
    left.errorbar(place, mean, yerr=[low, high], fmt="o", capsize=3)
    if truth is not None:
        left.axhline(truth, color="red")
    left.set_title("tau1 and 95 % interval by K", fontsize=9)
    right.plot(place, [row["held_out"] for row in rows], "o-")
    right.set_title("log probability of a held-out record by K", fontsize=9)
    for axis in (left, right):
        axis.set_xticks(place, names)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
