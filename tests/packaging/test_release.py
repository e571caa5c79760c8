"""What `make release-check` says before a release: versions, changelog, git, and what is in the sdist."""

import importlib.util
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path):
    """A checkout that could be released as 1.2.3."""
    root = tmp_path / "checkout"
    (root / "src/barnabas").mkdir(parents=True)
    (root / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (root / "src/barnabas/__init__.py").write_text('__version__ = "1.2.3"\n')
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 - 2026-12-01\n\n## 1.2.2 - 2026-11-01\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*GIT, *words], cwd=root, check=True)
    return root


def test_nothing_is_missing(release, checkout):
    assert [*release.problems(checkout), *release.problems_of_git(checkout, "1.2.3")] == []


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("pyproject.toml", '[project]\nversion = "1.2"\n', "1.2 is no version"),
        ("src/barnabas/__init__.py", '__version__ = "1.2.2"\n', "__version__ is not 1.2.3"),
        ("src/barnabas/__init__.py", "", "__version__ is not 1.2.3"),
        (
            "CHANGELOG.md",
            "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-12-01\n",
            "newest head is ['Unreleased']",
        ),
        ("CHANGELOG.md", "# Changelog\n\n## 1.2.3\n", "write '## 1.2.3 - YYYY-MM-DD'"),
    ],
)
def test_what_is_wrong_is_said(release, checkout, file, text, said):
    (checkout / file).write_text(text)
    assert any(said in one for one in release.problems(checkout))
    assert "1 files are changed" in next(release.problems_of_git(checkout, "1.2.3"))


def test_a_tag_that_is_there(release, checkout):
    subprocess.run([*GIT, "tag", "v1.2.3"], cwd=checkout, check=True)
    assert list(release.problems_of_git(checkout, "1.2.3")) == ["git: there is a tag v1.2.3 already"]


def test_an_sdist_that_is_not_what_git_has(release, checkout, tmp_path):
    packed = tmp_path / "barnabas-1.2.3"
    shutil.copytree(checkout, packed, ignore=shutil.ignore_patterns(".git", "CHANGELOG.md"))
    (packed / "PKG-INFO").write_text("")
    (packed / "secret").write_text("")
    with tarfile.open(tmp_path / "sdist.tar.gz", "w:gz") as archive:
        for path in packed.rglob("*"):
            if path.is_file():
                archive.add(path, path.relative_to(tmp_path))
    differences = release.missing_and_too_much(tmp_path / "sdist.tar.gz", checkout)
    assert differences == ["sdist: CHANGELOG.md is missing", "sdist: secret is too much"]
