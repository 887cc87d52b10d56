"""A report as a matplotlib figure: the time of each kernel, and the roofline.

Takes times and points, gives a `Figure`. Invariant: matplotlib is imported here alone, when it is
wanted.

    report.figure().savefig("kernels.png")
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from fjit.errors import MissingPackageError
from fjit.report.draw import Point, Roof


class Time(NamedTuple):
    """A kernel's nanoseconds, as estimated and as measured."""

    name: str
    estimated: float
    measured: float | None


def figure(
    title: str, times: Sequence[Time], points: Sequence[Point], roof: Roof | None
) -> Any:  # matplotlib's own type, which is not installed everywhere
    """Bars of estimated and measured time beside a roofline plot."""
    try:
        module = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingPackageError(
            "report.figure() draws with matplotlib, which is not installed: pip install 'fjit[viz]'"
        ) from error
    made = module.Figure(figsize=(11, 4), layout="constrained")
    left, right = made.subplots(1, 2)
    _bars(left, times)
    _roofline(right, points, roof)
    made.suptitle(title)
    return made


def _bars(axes: Any, times: Sequence[Time]) -> None:
    places = range(len(times))
    estimated = [time.estimated / 1e3 for time in times]
    axes.barh([p - 0.2 for p in places], estimated, 0.4, label="estimated")
    if any(time.measured for time in times):
        measured = [(time.measured or 0.0) / 1e3 for time in times]
        axes.barh([p + 0.2 for p in places], measured, 0.4, label="measured")
    axes.set_yticks(list(places), [time.name for time in times])
    axes.invert_yaxis()
    axes.set_xlabel("microseconds")
    axes.legend()


def _roofline(axes: Any, points: Sequence[Point], roof: Roof | None) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    if roof is not None:
        low = min([0.05, *(p.intensity for p in points)]) / 2
        high = max([50.0, *(p.intensity for p in points)]) * 2
        for name, bandwidth in roof.bandwidths:
            xs = [low, roof.flops / bandwidth, high]
            axes.plot(xs, [min(roof.flops, bandwidth * x) for x in xs], label=name)
        axes.legend()
    for point in points:
        axes.plot([point.intensity], [point.estimated], "o", fillstyle="none", color="C0")
        if point.measured:
            axes.plot([point.intensity], [point.measured], "o", color="C0")
        axes.annotate(point.name, (point.intensity, point.estimated))
    axes.set_xlabel("flops per byte")
    axes.set_ylabel("flops per second")
