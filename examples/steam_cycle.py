"""The efficiency of a steam cycle, and what it depends on: python examples/steam_cycle.py docs/pictures/steam-cycle.svg

The steam tables are those of the package iapws (pip install 'adjoint[adopt]'), as they are. The gradient is exact, and compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import adjoint as ad

steam = ad.adopt("iapws.iapws97")


def efficiency(boiler, temperature, condenser):
    """Of an ideal Rankine cycle: pressures in MPa, temperature of the live steam in K."""
    T = steam._TSat_P(condenser)
    liquid, vapour = steam._Region1(T, condenser), steam._Region2(T, condenser)
    pump = liquid["v"] * (boiler - condenser) * 1000  # kJ/kg
    live = steam._Region2(temperature, boiler)
    quality = (live["s"] - liquid["s"]) / (vapour["s"] - liquid["s"])
    exhaust = liquid["h"] + quality * (vapour["h"] - liquid["h"])
    return (live["h"] - exhaust - pump) / (live["h"] - liquid["h"] - pump)


sensitivity = ad.jit(ad.value_and_grad(efficiency, argnums=(0, 1, 2)))
NAMES = ("boiler pressure", "steam temperature", "condenser pressure")
COLOURS = ("#2a6fbb", "#c2571a", "#3b8f4a")


def curves(pressures, temperature=813.15, condenser=0.005):
    """Points of efficiency per cent that one per cent more of each quantity brings, for each boiler pressure."""
    values, changes = [], []
    for p in pressures:
        at = (p, temperature, condenser)
        value, slopes = sensitivity(*at)
        values.append(100 * value)
        changes.append([x * slope for x, slope in zip(at, slopes, strict=True)])
    return np.array(values), np.array(changes)


def line(x, y, colour):
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def text(x, y, words, anchor="start", colour="#333"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def picture():
    """Two panels over the boiler pressure: the efficiency, and its change for one per cent more of each quantity."""
    pressures = np.linspace(2.0, 15.0, 40)
    values, changes = curves(pressures)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 320" font-family="sans-serif" font-size="13">']
    panels = [(60, "efficiency, %", values[:, None]), (430, "points of efficiency for 1 % more", changes)]
    for left, title, curves_ in panels:
        low, high = np.min(curves_), np.max(curves_)
        low, high = low - 0.08 * (high - low), high + 0.08 * (high - low)

        def height(v, low=low, high=high):
            return 270 - 220 * (v - low) / (high - low)

        x = left + 290 * (pressures - 2) / 13
        parts.append(f'<rect x="{left}" y="50" width="290" height="220" fill="none" stroke="#bbb"/>')
        parts.append(text(left, 38, title))
        parts += [text(left + 290 * (p - 2) / 13, 288, p, "middle") for p in (2, 5, 10, 15)]
        parts += [text(left - 6, height(v) + 4, f"{v:.3g}", "end") for v in (np.min(curves_), np.max(curves_))]
        parts += [line(x, height(curve), COLOURS[i]) for i, curve in enumerate(curves_.T)]
        parts.append(text(left + 145, 308, "boiler pressure, MPa", "middle"))
    middle = np.array([height(v) for v in changes[len(changes) // 2]])
    parts += [text(580, y - 6, name, "middle", c) for name, y, c in zip(NAMES, middle, COLOURS, strict=True)]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    value, slopes = sensitivity(10.0, 813.15, 0.005)
    print(f"efficiency {value:.4f}")
    for name, slope in zip(NAMES, slopes, strict=True):
        print(f"  by {name:<19} {slope:+.3e}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(picture())
