"""Expressions that somebody with bad intent would write, by hand and by a grammar with a seed."""

from __future__ import annotations

from random import Random

CRAFTED = [
    *(
        "__import__('os').system('id')",
        "open('/etc/passwd').read() == ''",
        "exec('1')",
        "eval('1')",
    ),
    *("().__class__.__bases__[0].__subclasses__()", "call.__class__ is None", "layer.format(1)"),
    *("'{0.__class__}'.format(call) == ''", "f'{call.__class__}' == ''", "f'{1}' f'{2}' == ''"),
    *("getattr(call, '__class__') is None", "(lambda: 1)() > 0", "[x for x in shared] is None"),
    *("{x for x in shared} is None", "{1: 2} is None", "{**globals()}", "*shared", "call := 3"),
    *(
        "(x := call) > 3",
        "(yield) > 3",
        "(await call) > 3",
        "call if call else call",
        "print(call)",
    ),
    *("9 ** 9 ** 9 > 1", "call ** 99999 > 1", "(call ** 16) ** 16 > 1", "2 ** (2 ** 31) > 1"),
    *("'a' * 999999999 == layer", "layer * 999999999 == layer", "[0] * 999999999 == shared"),
    *("layer % call == ''", "'%s' % call == ''", "'%99999999d' % call == ''", "b'x' == layer"),
    *("1 << 999999999 > 1", "call | 1 > 1", "call & 1 > 1", "~call > 1", "call @ call > 1"),
    *(
        "call; call",
        "call\nimport os",
        "call # comment",
        "import os",
        "call\\\n > 1",
        "call\x00 > 1",
    ),
    *("call\t> 1", "\ufeffcall > 1", "call\u00a0> 1", "call\u2028> 1", "\u202ecall > 1"),
    *("ca\u200bll > 1", "\U0001d41call > 1", "\uff43all > 1", "\u0441all > 1", "call > \u0661"),
    *(
        "call > \uff11",
        "'\ud800' == layer",
        "'\\N{BULLET}' == layer",
        "r'\\' == layer",
        "u'x' == layer",
    ),
    *("rb'x' == layer", "'a' 'b' == layer", "'''a''' == layer", '"""a""" == layer', "'' == ''"),
    *(
        "1_000_000 > call",
        "0x10 > call",
        "0b1 > call",
        "0o7 > call",
        "1j > call",
        "1if call else 2",
    ),
    *(
        "1or call",
        "0xfor call",
        "1e999999999 > call",
        "1e-999999999 > call",
        "007 > call",
        "1..real > 1",
    ),
    *("9" * 900 + " > call", "0." + "9" * 900 + " > call", "call > 18446744073709551616"),
    *(
        "(" * 28 + "call" + ")" * 28 + " > 1",
        "(" * 400 + "call" + ")" * 400,
        "[" * 400,
        "-" * 900 + "1",
    ),
    *("not " * 200 + "update.created", "call" + " + call" * 120 + " > 1", "call" + " < call" * 120),
    *("update.created" + " and update.created" * 50, "call" + ".x" * 400, "call" + "[0]" * 200),
    *(
        "abs(" * 200 + "call",
        "abs(" * 25 + "call" + ")" * 25 + " > 1",
        "min(" + "call, " * 90 + "1) > 1",
    ),
    *(
        "call in (" + "1, " * 300 + "1)",
        "call in (" * 20,
        "a" * 5000,
        " " * 5000,
        "call > 1 " * 500,
    ),
    *("shares(delta, delta)", "shares(__class__, input)", "shares(*shared)", "changed(**shared)"),
    *(
        "changed(__import__('os'))",
        "changed(changed(call))",
        "len(len(call)) > 1",
        "len(storages[0]) > 0",
    ),
    *(
        "max(call) > 1",
        "max(*shared) > 1",
        "min(call, key=print) > 1",
        "abs(call, call) > 1",
        "sqrt() > 1",
    ),
    *(
        "sqrt(-1) > 1",
        "log10(0) > 1",
        "call / 0 > 1",
        "call % 0 > 1",
        "call // 0 > 1",
        "0 ** -1 > 1",
    ),
    *("inf - inf == 0", "nan == nan", "inf // 1 == 1", "inf % 2 == 1", "sqrt(1e308 * 1e308) > 1"),
    *(
        "call is call",
        "call is not 'a'",
        "None is None",
        "True is True",
        "None",
        "True",
        "...",
        "()",
    ),
    *("__debug__", "__builtins__", "self", "record", "previous", "_", "__name__ == ''", "field"),
    *(
        "gradient.norm.__add__(1) > 1",
        "gradient['norm'] > 1",
        "gradient.__dict__ is None",
        "gradient()",
    ),
    *(
        "tensors.after.delta.shape[0:2] == 1",
        "findings[-99999999999999999999] == 'a'",
        "findings[1e3] == 'a'",
    ),
    *("findings[None] == 'a'", "findings[call] == 'a'", "findings[True] == 'a'", "layer[0] == 'e'"),
    *(
        "unknown[0] is None",
        "shared[0][0] == 'a'",
        "shared == ()",
        "() in shared",
        "shared in shared",
    ),
]

_WORDS = [
    *(
        "call",
        "gradient.norm",
        "delta.beyond",
        "layer",
        "update.created",
        "update.returned",
        "shared",
    ),
    *(
        "tensors.after.delta.shape",
        "tensors.after.delta",
        "findings",
        "delta",
        "storages",
        "unknown",
    ),
    *(
        "0",
        "1",
        "-1",
        "1e308",
        "9" * 19,
        "9" * 40,
        "inf",
        "nan",
        "'a'",
        "'%s'",
        "True",
        "False",
        "None",
    ),
    *("__class__", "__import__('os')", "open('x')", "os.system('x')", "().__class__", "lambda: 0"),
    *(
        "[x for x in shared]",
        "{}",
        "f'{call}'",
        "b'a'",
        "x",
        "_",
        "print",
        "exec",
        "getattr",
        "abs",
    ),
]
_SIGNS = [
    *("+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", "==", "!=", " in ", " not in ", " is "),
    *(
        " is not ",
        " and ",
        " or ",
        "@",
        "&",
        "|",
        "^",
        "<<",
        ":=",
        "=",
        ",",
        ".",
        ";",
        " if ",
        " for ",
    ),
]
_AROUND = [
    *("({})", "-{}", "not {}", "abs({})", "len({})", "sqrt({})", "min({}, {})", "changed({})"),
    *(
        "shares({}, {})",
        "{}[0]",
        "{}[-1]",
        "{}.norm",
        "{}.__class__",
        "{}()",
        "({}, {})",
        "[{}, {}]",
    ),
    *(
        "{{{}}}",
        "*{}",
        "await {}",
        "lambda: {}",
        "isnan({})",
        "log10({}) ** 16",
        "({}) ** 16",
        "{} ** {}",
    ),
]


def generated(seed: int, n: int) -> list[str]:
    """Expressions of a grammar that knows the language's words and those of its enemies."""
    random = Random(seed)
    return [_expression(random, random.randint(1, 5)) for _ in range(n)]


def _expression(random: Random, depth: int) -> str:
    if depth == 0:
        return random.choice(_WORDS)
    if random.random() < 0.5:
        parts = [_expression(random, depth - 1) for _ in range(random.choice((2, 2, 3)))]
        text = parts[0]
        for part in parts[1:]:
            text += f"{random.choice(_SIGNS)}{part}"
        return text
    shape = random.choice(_AROUND)
    holes = shape.replace("{{", "").replace("}}", "").count("{}")
    return shape.format(*(_expression(random, depth - 1) for _ in range(holes)))
