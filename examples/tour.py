"""Four real programs, written with plain NumPy, against their fused selves.

    python examples/tour.py [--quick] [--out build/demo]

For each program: NumPy's time, the fused time (one thread, then all), bytes through memory before
and after fusion, the number of kernels before and after, and the largest difference. The pictures
and the reports of all programs are written to the output folder; open index.html there.
"""

import argparse
import os
import time
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_sample_image

import fjit

# ---- (a) a photograph ---------------------------------------------------------------------------


def linear(encoded):
    """Light from sRGB values between 0 and 1."""
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def encoded(light):
    """sRGB values between 0 and 1 from light."""
    light = np.clip(light, 0, 1)
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)


def blur(plane):
    """A separable binomial blur of five taps each way; edges are repeated."""
    p = np.pad(plane, 2, mode="edge")
    p = (p[:-4] + 4 * p[1:-3] + 6 * p[2:-2] + 4 * p[3:-1] + p[4:]) / 16
    return (p[:, :-4] + 4 * p[:, 1:-3] + 6 * p[:, 2:-2] + 4 * p[:, 3:-1] + p[:, 4:]) / 16


@fjit.fuse
def develop(photo, exposure, white, amount):
    """Tone mapping after Reinhard et al. (2002), then an unsharp mask on the luminance."""
    light = exposure * linear(photo.astype(np.float32) / np.float32(255))
    luminance = 0.2126 * light[..., 0] + 0.7152 * light[..., 1] + 0.0722 * light[..., 2]
    mapped = luminance * (1 + luminance / white**2) / (1 + luminance)
    sharp = np.maximum(mapped + amount * (mapped - blur(mapped)), 0)
    gain = sharp / np.maximum(luminance, 1e-6)
    return np.round(255 * encoded(light * gain[..., None])).astype(np.uint8)


# ---- (b) options --------------------------------------------------------------------------------


def normal_cdf(z):
    """Abramowitz and Stegun 26.2.17, good to 7.5e-8."""
    t = 1 / (1 + 0.2316419 * np.abs(z))
    series = 0.319381530 + t * (
        -0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
    )
    tail = np.exp(-0.5 * z * z) * 0.3989422804014327 * t * series
    return np.where(z < 0, tail, 1 - tail)


@fjit.fuse
def black_scholes(spot, strike, years, rate, volatility):
    """Prices of European calls and puts."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
    discounted = strike * np.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d1 - spread)
    return call, call - spot + discounted


# ---- (c) layernorm, softmax, a stencil ----------------------------------------------------------


@fjit.fuse
def layernorm(x, gain, bias):
    """Rows with mean 0 and variance 1, then an affine map."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred**2).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gain + bias


@fjit.fuse
def softmax(x):
    """Rows that sum to 1."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@fjit.fuse
def stencil(u, k):
    """One step of the heat equation on a plate whose border keeps its temperature."""
    new = u.copy()
    new[1:-1, 1:-1] += k * (
        u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    )
    return new


# ---- (d) k-means --------------------------------------------------------------------------------


@fjit.fuse
def kmeans_step(points, centroids):
    """Squared distances, nearest centroid, new centroids, and the sum of squared distances."""
    distances = ((points[:, None, :] - centroids[None, :, :]) ** 2).sum(axis=2)
    nearest = distances.argmin(axis=1)
    member = nearest[:, None] == np.arange(len(centroids))
    total = np.where(member[:, :, None], points[:, None, :], 0).sum(axis=0)
    count = member.sum(axis=0)[:, None]
    new = np.where(count > 0, total / np.maximum(count, 1), centroids)
    return nearest, new, distances.min(axis=1).sum()


# ---- measuring ----------------------------------------------------------------------------------

COLUMNS = (
    "program", "NumPy ms", "fused ms, 1 thread", "fused ms", "speed-up", "MB before", "MB after",
    "kernels before", "kernels after", "first call ms", "largest difference",
)  # fmt: skip


def milliseconds(call, seconds):
    """The shortest of several calls within `seconds`."""
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        stop = time.perf_counter()
        best = min(best, stop - start)
        if stop > end:
            return best * 1e3


def difference(a, b):
    """The largest absolute difference between two results, tuples taken apart."""
    if isinstance(a, tuple):
        return max(difference(x, y) for x, y in zip(a, b, strict=True))
    a, b = np.asarray(a), np.asarray(b)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())


def measure(name, fused, args, seconds):
    """One row of the table, and the fused program's report."""
    plain = fused.__wrapped__
    single = fjit.fuse(plain, threads=1)
    print(f"  {name}: compiling", end="", flush=True)
    start = time.perf_counter()
    result = fused(*args)
    first = (time.perf_counter() - start) * 1e3
    expected = plain(*args)
    print(", NumPy", end="", flush=True)
    before_ms = milliseconds(lambda: plain(*args), seconds)
    print(", fused", end="", flush=True)
    single(*args)
    single_ms = milliseconds(lambda: single(*args), seconds)
    after_ms = milliseconds(lambda: fused(*args), seconds)
    print(", report", flush=True)
    before = fjit.fuse(plain, fusion="none").explain(*args, compile=False)
    after = fused.explain(*args)
    row = (
        name, f"{before_ms:.2f}", f"{single_ms:.2f}", f"{after_ms:.2f}",
        f"{before_ms / after_ms:.1f}x", *(f"{moved(r) / 1e6:.1f}" for r in (before, after)),
        *(f"{len(r.kernels) + len(r.calls)}" for r in (before, after)),
        f"{first:.0f}", f"{difference(expected, result):.2g}",
    )  # fmt: skip
    return row, after, result


def moved(report):
    """Bytes read and written by all kernels."""
    return report.bytes_read + report.bytes_written


# ---- the tour -----------------------------------------------------------------------------------


def photograph(quick):
    """The picture before, and the arguments of `develop`."""
    photo = load_sample_image("china.jpg")
    return (photo[::4, ::4].copy() if quick else photo), 1.6, 1.5, 0.9


def options(quick):
    """Random spot prices, strikes and years to maturity."""
    n = 40_000 if quick else 4_000_000
    rng = np.random.default_rng(0)
    return rng.uniform(50, 150, n), rng.uniform(50, 150, n), rng.uniform(0.1, 2, n), 0.02, 0.3


def programs(quick):
    """Names, functions and arguments."""
    rng = np.random.default_rng(0)
    rows, size = (64, 128) if quick else (4096, 2048)
    x = rng.normal(size=(rows, 1024)).astype(np.float32)
    gain, bias = rng.normal(size=(2, 1024)).astype(np.float32)
    digits = load_digits().data
    yield "photograph", develop, photograph(quick)
    yield "black-scholes", black_scholes, options(quick)
    yield "layernorm", layernorm, (x, gain, bias)
    yield "softmax", softmax, (x,)
    yield "stencil", stencil, (rng.random((size, size)), 0.2)
    yield "k-means step", kmeans_step, (digits, digits[:10].copy())


def cluster(points, centroids):
    """k-means to its end; how many steps, and the share of digits that share their cluster's most
    frequent label."""
    labels = load_digits().target
    steps, last = 0, np.inf
    while True:
        nearest, centroids, total = kmeans_step(points, centroids)
        steps += 1
        if total >= last:
            break
        last = total
    purity = sum(np.bincount(labels[nearest == k]).max() for k in np.unique(nearest)) / len(labels)
    print(f"  k-means: {steps} steps, sum of squares {total:.0f}, purity {purity:.2f}")


def table(rows):
    """Aligned text, one row a program."""
    cells = [COLUMNS, *rows]
    names = [f"{title:20}" for title in COLUMNS]
    columns = [[f"{row[k]:>14}" for row in cells[1:]] for k in range(len(COLUMNS))]
    return "\n".join(a + "".join(b) for a, b in zip(names, columns, strict=True))


def write_page(out, rows, reports):
    """index.html: the pictures, the table, and links to the reports."""
    head = "".join(f"<th>{escape(c)}</th>" for c in COLUMNS)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    links = "\n".join(
        f'<li><a href="{name.replace(" ", "-")}.html">{escape(name)}</a></li>' for name in reports
    )
    (out / "index.html").write_text(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>fjit: tour</title>'
        "<style>td, th { border: 1px solid; padding: 2px 6px; text-align: right }"
        " table { border-collapse: collapse } img { max-width: 48% }</style></head><body>\n"
        f"<h1>Plain NumPy, fused</h1>\n<table>\n<tr>{head}</tr>\n{body}\n</table>\n"
        f"<p>Reports: every kernel, every fusion taken or refused.</p>\n<ul>\n{links}\n</ul>\n"
        '<p><img src="before.png" alt="before"> <img src="after.png" alt="after"></p>\n'
        "</body></html>\n",
        encoding="utf-8",
    )
    for name, report in reports.items():
        report.save(out / f"{name.replace(' ', '-')}.html")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small arrays, one call each")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="where files go")
    choices = parser.parse_args()
    out, seconds = choices.out, 0.0 if choices.quick else 0.7
    out.mkdir(parents=True, exist_ok=True)
    print(f"fjit {fjit.__version__}, NumPy {np.__version__}, {os.cpu_count()} processors")
    rows, reports = [], {}
    for name, fused, args in programs(choices.quick):
        row, reports[name], result = measure(name, fused, args, seconds)
        rows.append(row)
        if fused is develop:
            Image.fromarray(args[0]).save(out / "before.png")
            Image.fromarray(result).save(out / "after.png")
        elif fused is kmeans_step:
            cluster(*args)
    write_page(out, rows, reports)
    print(f"\n{table(rows)}\n\nwritten: {out}/index.html and what it links to\n")
    print(reports["photograph"])


if __name__ == "__main__":
    main()
