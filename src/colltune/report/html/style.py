"""How a report looks: one style sheet, and colours with patterns that the colour-blind can tell.

The colours of algorithms are those of Okabe and Ito (Color Universal Design, 2008), the scale of
gains is viridis; a pattern and a number or letter stand for the same.
"""

from __future__ import annotations

from colltune.plot_data.decisions import Why
from colltune.report.markup import Markup, element

_ALGORITHMS = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00", "#0072b2")
_HATCHES = (
    "",
    "M0 8 8 0",
    "M0 4H8",
    "M0 0 8 8",
    "M4 0V8",
    "M0 8 8 0M0 0 8 8",
)
N_STYLES = len(_ALGORITHMS) * len(_HATCHES)
KEPT = "kept"
_WHY = {
    Why.GAIN: ("G", "#0072b2", ""),
    Why.CONFIRMED: ("M", "#009e73", ""),
    Why.NO_DEFAULT: ("U", "#56b4e9", ""),
    Why.FASTEST: ("F", "#c8c8c8", ""),
    Why.WITHDRAWN: ("W", "#cc79a7", "M4 0V8"),
    Why.ERROR: ("E", "#e69f00", "M0 8 8 0"),
    Why.OUTSIDE: ("O", "#f0e442", "M0 8 8 0M0 0 8 8"),
    Why.NOTHING: ("N", "#ececec", "M0 4H8"),
    Why.FAR: ("X", "#888888", "M0 0 8 8"),
    Why.WITHHELD: ("H", "#aaaaaa", "M4 0V8"),
}
GAINS = (1.0, 1.2, 1.5, 2.0, 4.0)
"""Where the bins of the gain map begin."""
_GAIN_COLOURS = ("#fde725", "#5ec962", "#21918c", "#3b528b", "#440154")


def algorithm_style(rank: int) -> str:
    """Return the pattern of the algorithm of this rank, from 1 on; 0 is the default."""
    return KEPT if rank == 0 else f"a{(rank - 1) % N_STYLES}"


def why_style(why: Why) -> str:
    """Return the pattern of a reason."""
    return f"w{_WHY[why][0]}"


def why_letter(why: Why) -> str:
    """Return the letter of a reason."""
    return _WHY[why][0]


def gain_style(at: int) -> str:
    """Return the pattern of a bin of `GAINS`, -1 for the default kept."""
    return KEPT if at < 0 else f"g{at}"


def definitions() -> Markup:
    """Return the patterns, to stand once in the page."""
    patterns = [_pattern(KEPT, "#c8c8c8", "")]
    for at in range(N_STYLES):
        hatch = _HATCHES[at % len(_HATCHES)]
        patterns.append(_pattern(f"a{at}", _ALGORITHMS[at % len(_ALGORITHMS)], hatch))
    patterns += [_pattern(f"w{letter}", colour, hatch) for letter, colour, hatch in _WHY.values()]
    patterns += [_pattern(f"g{at}", colour, "") for at, colour in enumerate(_GAIN_COLOURS)]
    return element(
        "svg",
        element("defs", *patterns),
        class_="definitions",
        width=0,
        height=0,
        aria_hidden="true",
    )


def _pattern(name: str, colour: str, hatch: str) -> Markup:
    return element(
        "pattern",
        element("rect", width=8, height=8, fill=colour),
        element("path", d=hatch, class_="hatch") if hatch else None,
        id=name,
        width=8,
        height=8,
        patternUnits="userSpaceOnUse",
    )


def swatch(style: str, label: str = "") -> Markup:
    """Return a small field in a style, as a map has them."""
    return element(
        "svg",
        element("rect", x=0.5, y=0.5, width=25, height=15, fill=f"url(#{style})", class_="edge"),
        element("text", label, x=13, y=12, class_="code") if label else None,
        class_="swatch",
        width=26,
        height=16,
        viewBox="0 0 26 16",
        aria_hidden="true",
    )


_MOST_COLUMNS = 16
_WORDS = ",".join(f".w{at} tr>:nth-child({at + 1})" for at in range(_MOST_COLUMNS))
STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#5a5a5a;--line:#ccc;--band:#f4f4f4;
--default:#c25400;--selected:#0069a6;--best:#666;--bad:#b00020}
@media (prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e8e8e8;--soft:#a8a8a8;--line:#444;
--band:#22252b;--default:#ff9f4a;--selected:#5fc1ff;--best:#aaa;--bad:#ff7a8a}}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#444;--line:#bbb;
--band:#f4f4f4;--default:#c25400;--selected:#0069a6;--best:#666;--bad:#b00020}}
body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;margin:0 auto;
padding:1rem 1.5rem 4rem;max-width:76rem}
h1{font-size:1.7rem;margin:.4rem 0}h2{font-size:1.35rem;margin:2.6rem 0 .4rem;padding-top:.6rem;
border-top:2px solid var(--line)}h3{font-size:1.08rem;margin:1.6rem 0 .3rem}
p{max-width:52rem;margin:.4rem 0}a{color:var(--selected)}nav a{margin-right:.9rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.8rem 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
figure{margin:.6rem 0 .4rem;overflow-x:auto}figcaption{color:var(--soft);max-width:52rem;
margin-bottom:.4rem}
.table{overflow-x:auto;margin:.5rem 0}table{border-collapse:collapse;font-size:.87rem;
font-variant-numeric:tabular-nums}caption{text-align:left;color:var(--soft);padding-bottom:.2rem;
max-width:52rem}th,td{padding:.12rem .6rem;border-bottom:1px solid var(--line);text-align:right;
vertical-align:top}thead th{border-bottom:2px solid var(--line);font-weight:600}
tbody th{font-weight:400}td,tbody th{white-space:nowrap}th:first-child{text-align:left}
WORDS{text-align:left;white-space:normal}
.beside{display:flex;flex-wrap:wrap;gap:0 2rem}.beside>div{max-width:100%;min-width:0}
.beside>div+div{flex:1 1 22rem}.beside figcaption,.beside .keys{max-width:32rem}
tbody tr:nth-child(even){background:var(--band)}
details{margin:.4rem 0}summary{cursor:pointer;color:var(--selected)}
.note{border-left:4px solid var(--default);padding:.1rem .8rem;background:var(--band)}
.panels{display:flex;flex-wrap:wrap;gap:.4rem 1rem}.definitions{position:absolute}
.keys{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;font-size:.87rem}
svg{vertical-align:middle;max-width:none}svg text{fill:var(--ink);font:10px system-ui,sans-serif}
svg .code{fill:#000;stroke:#fff;stroke-width:2.5px;paint-order:stroke;text-anchor:middle;
font-weight:600}svg .soft{fill:var(--soft)}svg .unseen{fill:var(--soft);font-style:italic}
svg .seen{font-weight:700}svg .end{text-anchor:end}svg .middle{text-anchor:middle}
svg .head{font-weight:600;font-size:11px}.hatch{stroke:#000;stroke-opacity:.45;stroke-width:1.1;
fill:none}.edge{stroke:var(--paper);stroke-width:.6}.veil{fill:var(--paper);fill-opacity:.55;
stroke:var(--ink);stroke-dasharray:3 2;stroke-width:.9}.axis{stroke:var(--soft);fill:none}
.grid{stroke:var(--line);stroke-width:.6;fill:none}.line{fill:none;stroke-width:2}
.default{stroke:var(--default)}.selected{stroke:var(--selected);stroke-dasharray:6 3}
.best{stroke:var(--best);stroke-width:1.4}.dot{stroke:none}.dot.default{fill:var(--default)}
.dot.selected,.dot.point{fill:var(--selected)}.ring{fill:none;stroke:var(--default);
stroke-width:1.3}.cross{stroke:var(--default);stroke-width:1.8;fill:none}
.range{stroke:var(--selected);stroke-width:3}.promise{stroke:var(--bad);stroke-dasharray:4 3}
.harm{fill:var(--bad);fill-opacity:.1}
@media print{body{max-width:none;padding:0;font-size:9.5pt}nav,summary,a{color:inherit}
figure,.panels svg,tr{break-inside:avoid}figure,.table{overflow:visible}.beside{display:block}
table{font-size:7.5pt}th,td{padding:.08rem .3rem}section h2{break-before:page}
h2,h3,caption{break-after:avoid}figure>svg,.panels>svg{max-width:100%;height:auto}
.note,tbody tr:nth-child(even){print-color-adjust:exact}@page{margin:14mm}}
""".replace("WORDS", _WORDS)
