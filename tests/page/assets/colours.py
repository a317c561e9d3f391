"""Colours as the eye sees them: contrast, and what is left of a difference in colour blindness."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
SHEET = Path(__file__).parents[3] / "src" / "colltune" / "page" / "assets" / "style.css"
# Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision
# Deficiency, IEEE TVCG 15(6), 2009, severity 1.0; they apply to linear RGB
DEFICIENCIES: dict[str, Numbers] = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
_TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour: str) -> Numbers:
    """Return linear red, green and blue, 0 to 1, of ``#rrggbb``."""
    values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted(float(_TO_XYZ[1] @ linear(c)) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def distance(one: str, other: str, deficiency: str) -> float:
    """Return how far apart two colours look (CIE 1976, Lab); about 2.3 is just noticeable."""
    seen = [np.clip(DEFICIENCIES[deficiency] @ linear(c), 0, 1) for c in (one, other)]
    return float(np.linalg.norm(_lab(seen[0]) - _lab(seen[1])))


def _lab(rgb: Numbers) -> Numbers:
    scaled = (_TO_XYZ @ rgb) / _WHITE
    f = np.where(scaled > (6 / 29) ** 3, np.cbrt(scaled), scaled * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def themes() -> dict[str, dict[str, str]]:
    """Return the variables of the style sheet's light and dark theme."""
    light, dark = re.findall(r":root \{([^}]*)\}", SHEET.read_text(encoding="utf-8"))[:2]
    found = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in (light, dark)]
    return {"light": found[0], "dark": found[0] | found[1]}


def fields(theme: str) -> dict[str, tuple[str, str]]:
    """Return the fill and the text colour of each kind of field, by its class."""
    variables = themes()[theme]

    def plain(value: str) -> str:
        return variables[value[6:-1]] if value.startswith("var(") else value

    rules = re.findall(
        r"^\.(\w+) \{ --fill: ([^;]+); --text: ([^;]+);", SHEET.read_text(encoding="utf-8"), re.M
    )
    return {name: (plain(fill), plain(text)) for name, fill, text in rules}
