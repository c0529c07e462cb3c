"""The words of the command line: every command has its options, and a formula that begins with a minus is not an option."""

import inspect

import pytest

from adjoint import export
from adjoint.cli.commands import COMMANDS
from adjoint.cli.parser import SUMMARIES, TARGETS, commands_of, exporter_options, named_targets, parser_for, protected

PARSER = parser_for(COMMANDS)


def test_every_command_has_a_summary_and_a_function():
    assert set(SUMMARIES) == set(COMMANDS) == set(commands_of(PARSER))
    for name, made in commands_of(PARSER).items():
        assert made.get_default("run") is COMMANDS[name]
        assert "--color" in made.format_help()


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["grad", "-x**2", "x=1"], ["grad", " -x**2", "x=1"]),
        (["grad", "-(x)", "x=-1", "--json"], ["grad", " -(x)", "x=-1", "--json"]),
        (["export", "x", "-o", "-"], ["export", "x", "-o", "-"]),
        (["--version"], ["--version"]),
    ],
)
def test_formulas_that_look_like_options(words, kept):
    assert protected(words, PARSER) == kept


def test_short_names_of_exporters_are_accepted():
    for short in TARGETS:
        assert PARSER.parse_args(["export", "x", "x=1", "--to", short]).to == short


def test_every_option_of_an_exporter_is_one_of_the_command_line():
    helped = commands_of(parser_for(COMMANDS, export.EXPORTERS))["export"].format_help()
    for target in export.EXPORTERS:
        parameters = inspect.signature(getattr(export, target)).parameters
        assert set(parameters) >= export.SHARED_OPTIONS
        own = {p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY} - export.SHARED_OPTIONS
        assert set(exporter_options([target])) == own
        assert all(f"--{name} " in helped for name in own)


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        (["export", "x", "--to", "c"], ["c"]),
        (["export", "x", "--to=js"], ["javascript"]),
        (["export", "--help"], list(export.EXPORTERS)),
        (["grad", "x", "--to", "c"], []),
        ([], []),
    ],
)
def test_only_the_exporter_that_is_named_is_loaded(words, targets):
    assert named_targets(words) == targets


@pytest.mark.parametrize(
    "words", [["trace", "x", "--limit", "1"], ["graph", "x", "--latex", "--python"], ["export", "x"], ["no"]]
)
def test_mistakes_are_usage_errors(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        PARSER.parse_args(words)
    assert stopped.value.code == 2
    assert "usage: adjoint" in capsys.readouterr().err
