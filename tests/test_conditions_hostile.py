"""A thousand hostile expressions: none runs code outside the language, none hangs."""

from __future__ import annotations

import json
import subprocess
import sys

from _hostile_expressions import CRAFTED, generated

CHILD = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
import difflib, random, tracemalloc
from _records import healthy, records
from pertdbg.conditions import Condition, ConditionError, complete, parse
from pertdbg.conditions.fields import nearest

texts = json.load(sys.stdin)
calls = [(healthy(3), healthy(2)), (healthy(1), None)]
calls += [(one, None) for one in records(1, 4)]
parse("gradient.norm > 1 and layer == 'x'").holds(*calls[0])
nearest("gradiant")
"\\x00".encode("unicode_escape")  # of error messages; Python imports the codec when first used
complete("grad")

# What is asked for is memory and time of the process; the parser of Python says `compile` for
# making a tree, which runs nothing: code that runs is `exec`.
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
seen = set()
def hook(event, arguments):
    seen.add(event if event != "import" else f"import {arguments[0]}")
sys.addaudithook(hook)
taken = refused = 0
tracemalloc.start()
for text in texts:
    try:
        expression = parse(text)
    except ConditionError as error:
        assert "\\n" not in str(error) and len(str(error)) < 20_000, text
        refused += 1
        continue
    taken += 1
    for record, previous in calls:
        value = expression.value(record, previous)
        assert value is None or type(value) in (bool, int, float, str, tuple) or (
            "group" in expression.kinds
        ), (text, value)
        assert not isinstance(value, int) or value.bit_length() <= 1024, text
        assert isinstance(expression.why_unknown(record, previous), str)
    try:
        Condition.of(text)
    except ConditionError:
        pass
    complete(text)
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
print(json.dumps({"seen": sorted(seen), "taken": taken, "refused": refused, "peak": peak}))
"""


def judged(texts: list[str]) -> dict[str, object]:
    """Read and evaluate expressions in a process of their own, whose end is certain."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, __file__.rpartition("/")[0]],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_thousand_hostile_expressions_run_no_code_and_end(whole: bool) -> None:
    texts = CRAFTED + generated(2024, (10_000 if whole else 1000))
    found = judged(texts)
    assert set(found["seen"]) <= {"compile"}  # type: ignore[call-overload]
    assert found["taken"] + found["refused"] == len(texts)  # type: ignore[operator]
    assert found["taken"] > 20  # type: ignore[operator]
    assert found["peak"] < 20 << 20  # type: ignore[operator]


def test_the_hook_of_that_test_sees_code_that_runs() -> None:
    script = "import sys; s = set(); sys.addaudithook(lambda e, _: s.add(e)); eval('1'); print(s)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "'exec'" in done.stdout
