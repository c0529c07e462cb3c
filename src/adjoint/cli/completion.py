"""Shell completion, generated from the commands, so that it is always up to date."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

SHELLS = ("bash", "zsh", "fish")


def script(shell: str, commands: Mapping[str, argparse.ArgumentParser], summaries: Mapping[str, str]) -> str:
    """The script that the shell loads."""
    options = {name: _options(parser) for name, parser in commands.items()}
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](options, summaries)


def _options(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The long options of a command, with their help."""
    return {
        option: (action.help or "").replace("%%", "%").replace("'", "").replace("[", "(").replace("]", ")")
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    }


def _bash(options: Mapping[str, Mapping[str, str]], summaries: Mapping[str, str]) -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(known)}" ;;' for name, known in options.items())
    return f"""# adjoint completion for bash: source <(adjoint completion bash)
_adjoint() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" words
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=( $(compgen -W "{" ".join(summaries)} --help --version" -- "$cur") )
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
    completion) words="{" ".join(SHELLS)}" ;;
  esac
  if [ "${{COMP_WORDS[1]}}" = completion ] || [[ "$cur" == -* ]]; then
    COMPREPLY=( $(compgen -W "$words" -- "$cur") )
  else
    COMPREPLY=( $(compgen -f -X '!*.py' -- "$cur") $(compgen -d -- "$cur") )
  fi
}}
complete -o nospace -F _adjoint adjoint
"""


def _zsh(options: Mapping[str, Mapping[str, str]], summaries: Mapping[str, str]) -> str:
    commands = "\n".join(f"    '{name}:{text}'" for name, text in summaries.items())
    cases = "\n".join(
        f"    {name}) _arguments {' '.join(_zsh_option(o, text) for o, text in known.items())} '*:file:_files -g \"*.py\"' ;;"
        for name, known in options.items()
        if name != "completion"
    )
    return f"""#compdef adjoint
# adjoint completion for zsh: adjoint completion zsh > "${{fpath[1]}}/_adjoint"
_adjoint() {{
  local -a commands
  commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{cases}
    completion) _values shell {" ".join(SHELLS)} ;;
  esac
}}
if [ "$funcstack[1]" = _adjoint ]; then _adjoint "$@"; else compdef _adjoint adjoint; fi
"""


def _zsh_option(option: str, text: str) -> str:
    return f"'{option}[{text.replace(':', ' ')}]'"


def _fish(options: Mapping[str, Mapping[str, str]], summaries: Mapping[str, str]) -> str:
    lines = ["# adjoint completion for fish: adjoint completion fish | source"]
    for name, text in summaries.items():
        lines.append(f"complete -c adjoint -n __fish_use_subcommand -f -a {name} -d '{text}'")
    for name, known in options.items():
        for option, text in known.items():
            lines.append(f"complete -c adjoint -n '__fish_seen_subcommand_from {name}' -l {option[2:]} -d '{text}'")
    lines.append(f"complete -c adjoint -n '__fish_seen_subcommand_from completion' -f -a '{' '.join(SHELLS)}'")
    return "\n".join(lines) + "\n"
