"""Functions of scientific packages, run under rebinding on plain arrays, give what they gave.

No tracer takes part: arrays are handed out as they are, `np.zeros` and `np.float64` have stand-ins.
What is tested is that the packages' globals, closures, classes, caches and decorators survive.
"""

import numpy as np
import pytest

from fjit.frontend.guards import Reads
from fjit.frontend.hooks import Hooks
from fjit.frontend.rebind import rebind
from fjit.frontend.standins import Protocol, make_builtins, scalar_type

color = pytest.importorskip("skimage.color")
exposure = pytest.importorskip("skimage.exposure")
feature = pytest.importorskip("skimage.feature")
filters = pytest.importorskip("skimage.filters")
restoration = pytest.importorskip("skimage.restoration")
transform = pytest.importorskip("skimage.transform")
interpolate = pytest.importorskip("scipy.interpolate")
linalg = pytest.importorskip("scipy.linalg")
ndimage = pytest.importorskip("scipy.ndimage")
optimize = pytest.importorskip("scipy.optimize")
signal = pytest.importorskip("scipy.signal")
stats = pytest.importorskip("scipy.stats")

RNG = np.random.default_rng(0)
IMAGE, RGB, VECTOR = RNG.random((32, 32)), RNG.random((16, 16, 3)), RNG.random(50)
GRID = (np.arange(32), np.arange(32))


def line(t, a, b):
    return a * t + b


def fit(y):
    return optimize.curve_fit(line, np.arange(50.0), y)[0]


def minimum(x):
    return optimize.minimize(lambda p: ((p - x[:3]) ** 2).sum(), np.zeros(3)).x


CASES = [
    (color.rgb2lab, RGB),
    (color.rgb2hsv, RGB),
    (exposure.equalize_hist, IMAGE),
    (exposure.equalize_adapthist, IMAGE),
    (exposure.rescale_intensity, IMAGE),
    (feature.canny, IMAGE),
    (feature.hog, IMAGE),
    (filters.frangi, IMAGE),
    (filters.sobel, IMAGE),
    (filters.unsharp_mask, IMAGE),
    (restoration.denoise_tv_chambolle, IMAGE),
    (transform.rotate, IMAGE, 30),
    (transform.resize, IMAGE, (16, 16)),
    (interpolate.CubicSpline(np.arange(50.0), VECTOR), VECTOR),
    (interpolate.RegularGridInterpolator(GRID, IMAGE), RNG.random((5, 2)) * 30),
    (linalg.expm, IMAGE[:4, :4]),
    (ndimage.zoom, IMAGE, 2),
    (fit, VECTOR),
    (minimum, VECTOR),
    (signal.find_peaks, VECTOR),
    (signal.savgol_filter, VECTOR, 7, 2),
    (signal.welch, VECTOR, 1.0, "hann", 32),
    (stats.norm.ppf, VECTOR),
    (stats.spearmanr, VECTOR, VECTOR[::-1]),
    (stats.ttest_ind, VECTOR, VECTOR[::-1]),
]


def name(case):
    return getattr(case[0], "__qualname__", type(case[0]).__name__)


def never(value):
    return False


def zeros(*args, **keywords):
    return np.zeros(*args, **keywords)


def hooks():
    return Hooks(
        is_traced=never,
        lift_array=lambda array, path: array,
        error=RuntimeError,
        replacements={id(np.zeros): zeros, id(np.float64): scalar_type(np.float64, never, "no")},
        builtins=make_builtins(Protocol(never, lambda c, a, b: a if c else b)),
    )


@pytest.mark.parametrize("case", CASES, ids=name)
def test_results_stay_the_same(case):
    function, *arguments = case
    wanted, reads = function(*arguments), Reads()
    result = rebind(function, hooks(), reads)(*arguments)
    np.testing.assert_equal(result, wanted)
    assert type(result) is type(wanted)
    assert reads.holds(function) and reads.effects == [] and reads.guards()
    np.testing.assert_equal(function(*arguments), wanted)
