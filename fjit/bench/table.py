"""Rows as text and as JSON.

Takes rows, gives one plain table for each group, a summary and a comparison with rows of an earlier
run. Invariant: a ratio is printed only for times of the same run.

    case        shape      dtype threads numpy ms fjit ms  x numpy x best  GB/s % copy
    sum axis 0  2000x2000  f32   1          0.491   0.310     1.58   1.58  51.6     97
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from fjit.bench.cases import Shape
from fjit.bench.runner import Row
from fjit.errors import FjitValueError

FORMAT: Final = 1
_MOVING: Final = ("bandwidth", "math")  # groups whose fraction of a copy means something
# Of a group; the others are in milliseconds.
_UNITS: Final = {"small": ("us", 1e6), "tracing": ("us", 1e6), "memory": ("MB", 1e-6)}


def render(rows: Sequence[Row]) -> str:
    """Return a table for each group and the geometric means of the ratios."""
    groups = dict.fromkeys(row.group for row in rows)
    parts = [_group([row for row in rows if row.group == group]) for group in groups]
    return "\n\n".join([*parts, summary(rows)])


def _group(rows: list[Row]) -> str:
    unit, factor = _UNITS.get(rows[0].group, ("ms", 1e3))
    peers = list(dict.fromkeys(name for row in rows for name in (*row.times, *row.notes)))
    header = ["case", "shape", "dtype", "threads", *(f"{name} {unit}" for name in peers)]
    header += ["x numpy", "x best"] + ["GB/s", "% copy"] * (rows[0].group in _MOVING)
    lines = [_line(row, peers, factor)[: len(header)] for row in rows]
    text = [f"[{rows[0].group}]", *columns([header, *lines], left=3), *notes(rows)]
    return "\n".join(text)


def _line(row: Row, peers: list[str], factor: float) -> list[str]:
    times = [_time(row, name, factor) for name in peers]
    mine = row.times.get("fjit")
    rate = row.nbytes / mine if mine and row.copy_rate else None
    best = row.over(row.best) if row.best else None
    return [
        row.case,
        shape_text(row.shape),
        row.dtype,
        row.threads,
        *times,
        _ratio(row.over("numpy")),
        _ratio(best),
        "-" if rate is None else f"{rate / 1e9:.1f}",
        "-" if rate is None else f"{100 * rate / row.copy_rate:.0f}",
    ]


def _time(row: Row, name: str, factor: float) -> str:
    if name in row.times:
        return significant(row.times[name] * factor)
    note = row.notes.get(name, "")
    kinds = {"wrong": "wrong", "over the limit": "over limit", "": "refused"}
    return next(cell for start, cell in kinds.items() if note.startswith(start)) if note else "-"


def one_line(row: Row) -> str:
    """The times of one row: numpy 3.00, fjit 1.00, jax 2.00 ms; 3.00 x numpy."""
    unit, factor = _UNITS.get(row.group, ("ms", 1e3))
    names = dict.fromkeys((*row.times, *row.notes))
    times = ", ".join(f"{name} {_time(row, name, factor)}" for name in names)
    ratio = row.over("numpy")
    return f"{times} {unit}" + (f"; {ratio:.2f} x numpy" if ratio else "")


def significant(value: float) -> str:
    """Three digits: 0.0123, 1.23, 123."""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(max(digits, 0), 6)}f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape))


def columns(lines: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return the lines with aligned columns, the first `left` of them to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def notes(rows: Iterable[Row]) -> list[str]:
    """Why peers have no time, each reason once, with the first cases it holds for."""
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, note in row.notes.items():
            reasons.setdefault(f"{name}: {note}", {})[f"{row.case} {row.dtype}"] = None
    return [f"  {reason} ({_some(list(where))})" for reason, where in reasons.items()]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return "; ".join(names[:3]) + more


def summary(rows: Sequence[Row]) -> str:
    """Return the geometric mean and the smallest of fjit's ratios, by group and threads."""
    lines = [["group", "threads", "cases", "x numpy", "least", "x best", "least"]]
    for group, threads in dict.fromkeys((row.group, row.threads) for row in rows):
        chosen = [row for row in rows if (row.group, row.threads) == (group, threads)]
        counted = [row for row in chosen if row.over("numpy") is not None]
        cells = [group, threads, f"{len(counted)} of {len(chosen)}"]
        cells += _mean_and_least(counted, lambda row: row.over("numpy"))
        cells += _mean_and_least(counted, lambda row: row.over(row.best) if row.best else None)
        lines.append(cells)
    return "\n".join(["[geometric means]", *columns(lines, left=1)])


def _mean_and_least(rows: list[Row], ratio: Callable[[Row], float | None]) -> list[str]:
    ratios = [value for value in map(ratio, rows) if value]
    if not ratios:
        return ["-", "-"]
    return [f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}"]


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


# JSON


def save(rows: Sequence[Row], machine: dict[str, str], file: Path) -> None:
    """Write the rows; a reader, or an interrupted run, finds all of them or the old file."""
    content = {"format": FORMAT, "machine": machine, "rows": [asdict(row) for row in rows]}
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def load(file: Path) -> list[Row]:
    """Return the rows that `save` wrote; raises FjitValueError for any other file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']} instead of {FORMAT}")
        return [Row(**{**row, "shape": tuple(row["shape"])}) for row in content["rows"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FjitValueError(f"{file} does not hold rows of `fjit bench --json`: {error}") from None


def compare(old: Sequence[Row], new: Sequence[Row]) -> str:
    """Return how fjit's ratio to NumPy changed, which a slower machine leaves as it is."""
    before = {row.key: row for row in old}
    lines = [["case", "shape", "dtype", "threads", "old x numpy", "new x numpy", "new/old"]]
    changes: list[float] = []
    for row in new:
        was = before[row.key].over("numpy") if row.key in before else None
        now = row.over("numpy")
        if was and now:
            changes.append(now / was)
            cells = [_ratio(was), _ratio(now), _ratio(now / was)]
            lines.append([row.case, shape_text(row.shape), row.dtype, row.threads, *cells])
    if not changes:
        return "[against the earlier run]\nno case is in both"
    mean = f"geometric mean of new/old: {geometric_mean(changes):.2f}"
    return "\n".join(["[against the earlier run]", *columns(lines, left=3), mean])
