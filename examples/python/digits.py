"""Handwritten digits told apart by a small network, trained on the device.

scikit-learn's 1,797 digits of 8 x 8 pixels where it is installed, else digits drawn from a font with noise and shifts.

python digits.py [rounds] [picture.png]
"""

import sys

import numpy as np
import png

import weft

FONT = [
    "0110 1001 1001 1001 1001 0110", "0010 0110 0010 0010 0010 0111", "0110 1001 0001 0010 0100 1111",
    "1110 0001 0110 0001 0001 1110", "0010 0110 1010 1111 0010 0010", "1111 1000 1110 0001 0001 1110",
    "0110 1000 1110 1001 1001 0110", "1111 0001 0010 0010 0100 0100", "0110 1001 0110 1001 1001 0110",
    "0110 1001 1001 0111 0001 0110",
]  # fmt: skip


def drawn(n, rng):
    """n digits of 8 x 8 pixels with what they are."""
    glyphs = np.array([[[int(p) for p in row] for row in g.split()] for g in FONT], np.float32)
    labels = rng.integers(0, 10, n)
    images = np.zeros((n, 8, 8), np.float32)
    for image, label in zip(images, labels):
        y, x = rng.integers(0, 3), rng.integers(0, 4)
        image[y : y + 6, x : x + 4] = glyphs[label] * rng.uniform(0.6, 1, (6, 4))
    return np.clip(images + rng.normal(0, 0.15, images.shape), 0, 1).astype(np.float32), labels


def load():
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return drawn(1797, np.random.default_rng(0))
    digits = load_digits()
    return digits.images.astype(np.float32) / 16, digits.target


def predict(w, x):
    h = weft.nn.relu(x @ w["in"] + w["in_bias"])
    return h, weft.nn.softmax(h @ w["out"] + w["out_bias"])


@weft.jit
def train(w, x, wanted):
    """One step down the gradient of the cross entropy, which is written out here."""
    h, p = predict(w, x)
    d_out = (p - wanted) / x.shape[0]
    d_h = weft.where(h > 0, d_out @ w["out"].T, 0.0)
    gradient = {
        "in": x.T @ d_h, "in_bias": weft.sum(d_h, axis=0), "out": h.T @ d_out, "out_bias": weft.sum(d_out, axis=0),
    }  # fmt: skip
    loss = -weft.mean(weft.sum(wanted * weft.log(p + 1e-9), axis=1))
    return {k: w[k] - 0.5 * gradient[k] for k in w}, loss


def main(rounds=400, path="digits.png"):
    images, labels = load()
    rng = np.random.default_rng(0)
    half = len(labels) // 2
    x = weft.asarray(images.reshape(len(labels), -1))
    known, asked = x[:half], x[half:]
    wanted = weft.nn.one_hot(labels[:half], 10)
    w = {
        "in": weft.asarray(rng.normal(0, 0.15, (64, 48))), "in_bias": weft.zeros(48),
        "out": weft.asarray(rng.normal(0, 0.15, (48, 10))), "out_bias": weft.zeros(10),
    }  # fmt: skip
    for k in range(rounds):
        w, loss = train(w, known, wanted)
        if k % max(1, rounds // 4) == 0:
            print(f"round {k}: loss {float(loss):.3f}")
    answers = weft.argmax(predict(w, asked)[1], axis=1).numpy()
    right = float(np.mean(answers == labels[half:]))
    draw(path, images[half:], answers, labels[half:])
    print(f"{right:.2%} of {len(answers)} digits that it had not seen are right; {path} shows some")
    return right


def draw(path, images, answers, truth, columns=20, rows=6, zoom=4):
    """Green frames around right answers, red around wrong ones, which come first."""
    order = np.argsort(answers != truth, kind="stable")[::-1][: columns * rows]
    picture = np.ones((rows * (8 * zoom + 4), columns * (8 * zoom + 4), 3))
    for place, i in enumerate(order):
        top, left = (n * (8 * zoom + 4) for n in divmod(place, columns))
        cell = picture[top : top + 8 * zoom + 4, left : left + 8 * zoom + 4]
        cell[:] = (0.2, 0.6, 0.3) if answers[i] == truth[i] else (0.9, 0.1, 0.1)
        cell[2:-2, 2:-2] = 1 - np.kron(images[i], np.ones((zoom, zoom)))[:, :, None]
    png.save(path, picture)


if __name__ == "__main__":
    main(*(kind(given) for kind, given in zip((int, str), sys.argv[1:])))
