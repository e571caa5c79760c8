"""What a public project has beside its code: a workflow, forms for issues, hooks."""

import os
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def read(path):
    return yaml.safe_load((ROOT / path).read_text())


def test_the_workflow_calls_what_everybody_calls():
    steps = read(".github/workflows/ci.yml")["jobs"]["run"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert len(commands) == 1
    assert commands[0].split()[-1] == ".ci/run"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_a_workflow_tries_each_python_that_the_project_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    tried = read(".github/workflows/versions.yml")["jobs"]["python"]["strategy"]["matrix"]["python"]
    assert tried == named


def test_forms_ask_something_and_no_field_is_there_twice():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
    assert len(forms) == 2
    for form in forms:
        asked = yaml.safe_load(form.read_text())
        ids = [field["id"] for field in asked["body"]]
        assert len(ids) == len(set(ids))
        assert any(field.get("validations", {}).get("required") for field in asked["body"])


def test_hooks_call_tools_of_the_environment_that_make_makes():
    hooks = [hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    tools = {hook["entry"].split()[0] for hook in hooks}
    assert tools == {".venv/bin/ruff"}
