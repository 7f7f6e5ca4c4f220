"""docs/ops.md and docs/expressions.md say what the library has."""

import os
import pathlib
import re
import subprocess

import pytest

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


def test_d20_settings_are_those_that_are_documented():
    """Requirement D20: no page promises a setting that nothing reads, and none that is read is kept quiet."""
    def texts(folder, *patterns):
        return "".join(p.read_text() for pattern in patterns for p in sorted((ROOT / folder).rglob(pattern)))

    read = set(re.findall(r'(?:env_\w+|getenv)\("(WEFT_\w+)"', texts("src", "*.cpp") + texts("tests/stress", "*.*")))
    build = set(re.findall(r"\bWEFT_[A-Z_]+\b", texts("cmake", "*.cmake") + (ROOT / "CMakeLists.txt").read_text()))
    headers = "".join(p.read_text() for p in (ROOT / "include" / "weft").glob("*.h") if p.name != "c_api.h")
    pages = texts("docs", "*.md") + (ROOT / "README.md").read_text() + headers
    documented = set(re.findall(r"\bWEFT_[A-Z]+(?:_[A-Z]+)*\b", pages))
    assert {"WEFT_CACHE", "WEFT_CACHE_BYTES", "WEFT_POOL_BYTES"} <= documented
    assert not documented - read - build
    assert not {name for name in read if not name.startswith("WEFT_TEST_")} - documented


def test_the_house_is_the_tree():
    """docs/architecture.md names every folder, and names none that is not there."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    house = re.search(r"## The house\n\n```\n(.*?)```", page, re.S).group(1)
    named = {line.split()[0] for line in house.splitlines() if not line.startswith(" ")}
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if files.returncode:
        pytest.skip("no git checkout")
    folders = {tuple(pathlib.PurePath(f).parts[:-1]) for f in files.stdout.splitlines()}
    wanted = {f"{top[0]}/" for top in folders if top and top[0] not in ("include", "src")} - {".ci/"}
    wanted |= {"include/weft/", ".ci/run"} | {f"src/{f[1]}/" for f in folders if len(f) > 1 and f[0] == "src"}
    assert named == wanted
    tests = re.search(r"^tests/(.*?)^\w", house, re.S | re.M).group(1)
    assert set(re.findall(r"\b(\w+)/", tests)) == {f[1] for f in folders if len(f) > 1 and f[0] == "tests"}
    commands = re.search(r"^script/\s+(.*?):", house, re.M).group(1).split()
    assert set(commands) == {p.name for p in (ROOT / "script").iterdir() if p.is_file() and not p.suffix}


def test_pages_name_files_that_are_there():
    """`layer/file` is short for src/layer/file.h or .cpp; a star stands for some."""
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(r"`((?:\w[\w.*-]*/)+[\w.*-]+)`", page.read_text()):
            found = [p for top in (ROOT, ROOT / "src", ROOT / "include") for p in [*top.glob(name), *top.glob(name + ".*")]]
            generated = name.startswith(("build/", "demo/out/"))
            assert found or generated, f"{page.name}: {name}"
