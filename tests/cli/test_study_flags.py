"""A study's command: its flags are the keys of the study's options."""

from typing import Any

import pytest
import typer

from attncli.cli import app
from attncli.cli.study_flags import StudyFlag, flags_of
from attncli.config.looks import Look
from attncli.studies import STUDIES, options_model

STUDY_COMMANDS = {name: about for name, about in STUDIES.items() if name != "attention"}
COMMANDS: Any = typer.main.get_command(app)


@pytest.mark.parametrize("study", STUDY_COMMANDS)
def test_every_key_is_a_flag_with_its_description(study: str) -> None:
    fields = options_model(study).model_fields
    others = ("study", "name", "about", "expect", "figure", "sweep")
    keys = {field.alias or name: field for name, field in (*fields.items(), *Look.model_fields.items())}
    keys = {key: field for key, field in keys.items() if key not in others}
    without = {"swap": ["model", "texts"], "doctor": ["data", "mask", "tokens", "model", "texts"]}  # by an argument
    without |= {"fit": ["data", "model", "texts"]}
    without |= {"variance": ["data"], "saturation": ["data"]}  # in YAML only
    keys = {key: field for key, field in keys.items() if key not in without.get(study, [])}
    options = {param.opts[0]: param for param in COMMANDS.commands[study].params}
    for key, field in keys.items():
        flag = {"scorers": "scorer", "implementations": "implementation"}.get(key, key)
        option = options[f"--{flag.replace('_', '-')}"]
        assert option.help[1:].startswith((field.description or "nothing")[1:]), key


LISTS = [flag for study in STUDIES for flag in flags_of(study) if flag.is_list and not flag.is_scorers]


@pytest.mark.parametrize("flag", LISTS, ids=lambda flag: flag.option)
def test_values_with_commas_are_a_list_like_a_repeated_flag(flag: StudyFlag) -> None:
    repeated = flag.override(["16", "64", "3"]).value
    assert len(repeated) == 3
    for values in (["16,64,3"], ["16, 64", "3"], ["16,64", "3,"]):
        assert flag.override(values).value == repeated
    assert flag.override(["16,"]).value == flag.override(["16"]).value
