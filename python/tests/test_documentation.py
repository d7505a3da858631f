"""The programs in the documentation run."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("path", ["README.md", "docs/PYTHON.md", "python/README.md"])
def test_programs_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("The United States and freedom. Freedom, peace, freedom")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, path, "exec"), names)
    names["con"].close()
