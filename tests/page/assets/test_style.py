"""The page's colours can be told apart and read."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.page.assets.colours import DEFICIENCIES, contrast, distance, fields, themes

TEXT, LARGE = 4.5, 3.0  # WCAG 2.2, level AA: text; parts of controls and focus rings
APART = 15.0  # six times what is just noticeable
FAMILIES = {
    "configurations": ("kept", *(f"c{i}" for i in range(7))),
    "gains": ("kept", *(f"g{i}" for i in range(5))),
    "reasons": ("rG", "rU", "rF", "rE", "rO", "rN", "rX"),
}
WORDS = [
    (ink, paper)
    for paper in ("paper", "raised", "good-back", "bad-back", "warn-back", "info-back")
    for ink in ("ink", "soft", "accent")
] + [("accent-ink", "accent"), ("bad", "paper"), ("good", "paper"), ("kept-ink", "kept")]


def test_fields_of_a_map_look_different_to_everybody() -> None:
    """No two colours of a map come near each other, in whichever way one sees colours."""
    for theme, deficiency, names in product(("light", "dark"), DEFICIENCIES, FAMILIES.values()):
        known = fields(theme)
        for one, other in combinations(names, 2):
            apart = distance(known[one][0], known[other][0], deficiency)
            assert apart > APART, (theme, deficiency, one, other)


def test_codes_can_be_read_on_their_fields(subtests: pytest.Subtests) -> None:
    """The code in every kind of field contrasts with its colour as WCAG AA asks of text."""
    for theme in ("light", "dark"):
        with subtests.test(theme=theme):
            known = fields(theme)
            assert {name for family in FAMILIES.values() for name in family} <= known.keys()
            weak = {name: contrast(*pair) for name, pair in known.items() if contrast(*pair) < TEXT}
            assert not weak


def test_words_can_be_read(subtests: pytest.Subtests) -> None:
    """Text contrasts with every background it stands on as WCAG AA asks."""
    for theme in ("light", "dark"):
        with subtests.test(theme=theme):
            colours = themes()[theme]
            weak = {pair for pair in WORDS if contrast(colours[pair[0]], colours[pair[1]]) < TEXT}
            assert not weak
            rings = (
                ("focus", "paper"),
                ("accent", "paper"),
                ("soft", "paper"),
                ("warn", "warn-back"),
            )
            assert not {p for p in rings if contrast(colours[p[0]], colours[p[1]]) < LARGE}


def test_the_simulation_knows_what_colour_blindness_hides() -> None:
    """Red and green of equal lightness nearly vanish for the red-green blind, not for others."""
    red, green = "#c0392b", "#5f7a1f"
    assert distance(red, green, "deuteranopia") < distance(red, green, "normal") / 2
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
