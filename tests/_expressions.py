"""Expressions of the language at random, by a grammar with a seed."""

from __future__ import annotations

from random import Random

FLOATS = ("gradient.norm", "delta.norm", "delta.mean", "effect.cosine")
WHOLE = ("call", "step", "delta.beyond", "gradient.nan")
TRUTHS = ("update.created", "gradient.present")


def number_text(random: Random, depth: int) -> str:
    """An expression that is a number."""
    if depth == 0 or random.random() < 0.3:
        return random.choice(
            [
                *FLOATS,
                *WHOLE,
                *("0", "1", "7", "1e3", "0.5", "inf", "nan", "1e-300", "9223372036854775808"),
            ]
        )
    below = [number_text(random, depth - 1) for _ in range(2)]
    kind = random.randrange(8)
    if kind < 4:
        return f"({below[0]} {random.choice(['+', '-', '*', '/', '//', '%'])} {below[1]})"
    if kind == 4:
        return f"-{below[0]}"
    if kind == 5:
        return f"{random.choice(FLOATS + WHOLE)} ** {random.choice([0, 1, 2, 3, -1, -2])}"
    if kind == 6:
        return f"{random.choice(['abs', 'sqrt', 'log10'])}({below[0]})"
    return f"{random.choice(['min', 'max'])}({below[0]}, {below[1]})"


def comparison_text(random: Random, depth: int) -> str:
    """A comparison, or a chain of them, of numbers."""
    parts = [number_text(random, depth)]
    for _ in range(random.choice([1, 1, 2])):
        sign = random.choice(["<", "<=", ">", ">=", "==", "!="])
        parts += [sign, number_text(random, depth)]
    return " ".join(parts)


def truth_text(random: Random, depth: int) -> str:
    """An expression that is true or false."""
    if depth == 0 or random.random() < 0.3:
        return random.choice(
            [
                *TRUTHS,
                comparison_text(random, 1),
                "isnan(gradient.norm)",
                "isfinite(delta.norm)",
                "isinf(delta.mean)",
                "layer == 'encoder.pert'",
                'layer in ("a", "encoder.pert")',
                '"pert" in layer',
                "call in (1, 2, 3, 4)",
                "step not in (0, 1)",
                "update.created is True",
                "gradient.present is not False",
                "gradient.norm is None",
            ]
        )
    kind = random.randrange(3)
    if kind == 0:
        return f"not ({truth_text(random, depth - 1)})"
    word = " and " if kind == 1 else " or "
    parts = [f"({truth_text(random, depth - 1)})" for _ in range(random.randint(2, 3))]
    return word.join(parts)
