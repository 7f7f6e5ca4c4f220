"""Nearest-neighbour classification of handwritten digits by one `weft eval`, checked against scikit-learn.

The data: 1,797 scanned digits of 8 x 8 pixels (scikit-learn's copy of the UCI set). The first half is known, the second
half is asked for: for each asked digit the known one at the least squared distance gives the answer.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# |a - b|^2 = |a|^2 - 2 a.b + |b|^2: one matrix product, two row sums, one reduction. Row i of d: asked digit i.
EXPRESSION = "d = sum(b*b, 1, keepdims=1) - 2*(b @ a.T) + sum(a*a, 1); argmin(d, axis=1)"
OUT = pathlib.Path(__file__).parent / "out"


def nearest(folder, known, asked):
    """Index of the nearest known digit for each asked one, worked out by the command weft."""
    np.save(folder / "known.npy", known)
    np.save(folder / "asked.npy", asked)
    command = [
        os.environ["WEFT_CLI"], "eval", EXPRESSION, f"a={folder / 'known.npy'}", f"b={folder / 'asked.npy'}",
        "-o", str(folder / "nearest.npy"), "--stats",
    ]
    print(f"$ weft eval '{EXPRESSION}' a=known.npy b=asked.npy -o nearest.npy --stats", flush=True)
    subprocess.run(command, check=True)
    return np.load(folder / "nearest.npy")


def draw(path, images, truth, answers, accuracy):
    """Some digits with the answers given, then the misses with what they are."""
    misses = np.flatnonzero(truth != answers)
    shown = np.concatenate([np.arange(20), misses[:20]])
    figure, axes = plt.subplots(4, 10, figsize=(10, 5.2))
    for place, axis in zip(shown, axes.flat):
        right = truth[place] == answers[place]
        axis.imshow(images[place], cmap="gray_r", interpolation="nearest")
        title = f"{answers[place]}" if right else f"{answers[place]}, is {truth[place]}"
        axis.set_title(title, fontsize=11, color="black" if right else "crimson")
    for axis in axes.flat:
        axis.axis("off")
    figure.suptitle(
        f"Nearest neighbour by weft eval: {accuracy:.2%} of {len(truth)} digits right; "
        f"above: the first 20, below: {min(20, len(misses))} of {len(misses)} misses",
        fontsize=11,
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    digits = load_digits()
    x = digits.data.astype(np.float32)
    half = len(x) // 2
    known, asked = x[:half], x[half:]
    known_labels, asked_labels = digits.target[:half], digits.target[half:]
    print(f"{len(known)} known digits, {len(asked)} to tell; {x.shape[1]} pixels each")

    with tempfile.TemporaryDirectory() as folder:
        answers = known_labels[nearest(pathlib.Path(folder), known, asked)]
    reference = KNeighborsClassifier(1, algorithm="brute").fit(known, known_labels).predict(asked)

    accuracy, wanted = np.mean(answers == asked_labels), np.mean(reference == asked_labels)
    print(f"accuracy: weft {accuracy:.4%}, scikit-learn {wanted:.4%}")
    OUT.mkdir(exist_ok=True)
    draw(OUT / "digits.png", digits.images[half:], asked_labels, answers, accuracy)
    print(f"picture: {OUT / 'digits.png'}")
    if not np.array_equal(answers, reference):
        sys.exit(f"weft and scikit-learn differ on {np.sum(answers != reference)} digits")


if __name__ == "__main__":
    main()
