"""White balance, contrast and a vignette on a photograph: plain NumPy, few passes over memory.

    python examples/image_pipeline.py [picture.png]

With a file name the result is written there.
"""

import sys

import numpy as np
from PIL import Image
from skimage import data

import fjit


@fjit.fuse
def enhance(photo, contrast, strength):
    x = photo.astype(np.float32) / 255
    means = x.mean(axis=(0, 1))
    balanced = x * (means.mean() / means)  # grey-world assumption
    curved = 0.5 + contrast * (balanced - 0.5)
    rows, columns = photo.shape[:2]
    down = np.linspace(-1, 1, rows, dtype=np.float32)[:, None]
    right = np.linspace(-1, 1, columns, dtype=np.float32)[None, :]
    vignette = 1 - strength * (down**2 + right**2)
    return (np.clip(curved * vignette[..., None], 0, 1) * 255 + 0.5).astype(np.uint8)


def main():
    photo = data.coffee()
    result = enhance(photo, 1.2, 0.3)
    expected = enhance.__wrapped__(photo, 1.2, 0.3)
    levels = np.abs(result.astype(int) - expected).max()
    print(f"photograph {photo.shape}, mean colour {photo.mean(axis=(0, 1)).round(1)}")
    print(f"result     {result.shape}, mean colour {result.mean(axis=(0, 1)).round(1)}")
    print(f"largest difference to NumPy: {levels} of 255 levels")
    for kernel in enhance.explain(photo, 1.2, 0.3).kernels:
        read, written = kernel.bytes_read / 1e6, kernel.bytes_written / 1e6
        print(f"{kernel.name}: {read:.2f} MB read, {written:.2f} MB written")
    if len(sys.argv) > 1:
        Image.fromarray(result).save(sys.argv[1])


if __name__ == "__main__":
    main()
