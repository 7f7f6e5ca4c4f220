"""docs/ops.md and docs/expressions.md say what the library has."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ops.md").read_text()
HEADERS = ["ops.h", "indexing.h", "nn.h", "random.h", "fft.h"]


def test_the_page_is_what_the_library_lists():
    made = subprocess.run([os.environ["WEFT_OPS_DOC"]], capture_output=True, text=True, check=True).stdout
    assert made.rstrip("\n") == PAGE.rstrip("\n"), "run script/docs"


def test_every_op_of_the_headers_has_a_line():
    listed = {word for names in re.findall(r"^\| `([^`]+)` \|", PAGE, re.M) for word in re.findall(r"\w+", names)}
    # exp and its like are short forms of unary(); sum and its like of reduce(), listed by their own names.
    missing = []
    for header in HEADERS:
        text = (ROOT / "include" / "weft" / header).read_text()
        for name in re.findall(r"^(?:inline )?(?:Tensor|TopK|std::vector<Tensor>|void) (\w+)\(", text, re.M):
            if name not in listed | {"unary", "binary", "reduce", "into"}:
                missing.append(f"{header}: {name}")
    assert not missing


def test_every_function_of_the_language_is_described():
    page = (ROOT / "docs" / "expressions.md").read_text()
    words = set(re.findall(r"\w+", page))
    for source in ("functions.cpp", "library_functions.cpp"):
        text = (ROOT / "src" / "expr" / source).read_text()
        names = re.findall(r'^    \{"(\w+)", "[^"]*",\s+apply_', text, re.M)
        assert len(names) > 30
        assert not set(names) - words
