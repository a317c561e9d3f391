"""The environment variables of a job: how files name them, and which concern collectives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from colltune.mpi.job_files import DOCKERFILE, MANIFEST, has_directives
from colltune.mpi.rules import Fault, Finding
from colltune.mpi.shell import Assigned, Script
from colltune.text import counted

_LONGEST_LINE = 4096
_CONTINUED = re.compile(r"\\\r?\n")
_PARAMETER = re.compile(r"[ \t]*(?:--?(?:g?o?mca|x)[ \t]|[a-z]\w*(?:[ \t]+=|=[ \t])|[a-z]\w*_\w+=)")
_SCRIPT = re.compile(
    r"[ \t]*(?:export|setenv|pushenv|unsetenv|unset|declare|module|ml|source|\.|if|for|set|env|srun"
    r"|mpirun|mpiexec|prterun|orterun|function)\b[\w.]*[ \t(]|[ \t]*\w+[ \t]*\(\)[ \t]*\{?$"
    r"|[ \t]*(?:(?:SINGULARITYENV|APPTAINERENV)_)?[A-Z][A-Z0-9_]*_\w+="
)
_BEGIN = re.compile(
    rf"\ufeff?(?:#!.*\b(?:ba|da|k|z|tc|c)?sh\b|#%Module|{DOCKERFILE.pattern}"
    rf"|{MANIFEST.pattern}"
    r"|\s*+(?:--.*\n\s*+)*+(?:help|whatis|setenv|load|prepend_path|family)\s*\(?\s*(?:\[\[|[\"']))"
)
_SURELY = 3
_CONCERNED = ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_", "MV2_", "MVP_", "I_MPI_ADJUST", "I_MPI_TUNING")


def concerns_collectives(name: str) -> bool:
    """Tell whether a variable may bear on which algorithm runs, and not just on the launcher."""
    return "coll" in name.lower() or name.startswith(_CONCERNED)


def notes_on(
    script: Script, ours: Callable[[str], bool] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield with its line what is not known of the variables of a script that are `ours`.

    By default these are those that concern collectives.
    """
    ours = ours or concerns_collectives
    for each in script.found:
        if each.unknown and ours(each.name):
            yield each.line, f"{each.name} depends on {each.unknown}, which only the job knows"
    for each in script.hidden:
        if ours(each.name):
            yield each.line, f"{each.name} is set but not exported, so that no program finds it"
    values: dict[str, Assigned] = {}
    for each in script.known:
        before = values.setdefault(each.name, each)
        if before.value != each.value and ours(each.name):
            what = f"programs find {before.value} and {each.value} in {each.name}"
            yield each.line, f"{what}; the last one is taken"
    if script.sourced:
        names = ", ".join(dict.fromkeys(name for _, name in script.sourced))
        yield script.sourced[0][0], f"what is sourced is not read here; check it, too: {names}"
    names = "OMPI_MCA_|MPIR_CVAR_|I_MPI_ADJUST_"
    if line := next((line for line, text in script.written if mentions(text, names)), 0):
        yield line, "what this writes into another file is not read here; check that file, too"
    if script.others:
        count = len(script.others)
        verbs = ("sets", "is") if count == 1 else ("set", "are")
        what = f"{counted(count, 'line')} that {verbs[0]} nothing {verbs[1]} passed over"
        yield script.others[0], what


def script_findings(script: Script, ours: Callable[[str], bool]) -> Iterator[Finding]:
    """Yield what is to be said of the variables of a script that are `ours`."""
    for line, note in notes_on(script, ours):
        yield Finding(line, Fault.REMARK, note, "none needed")
    for line in script.cut:
        what = "a shell ends the value at the first ';', so that the rest is lost"
        yield Finding(line, Fault.MALFORMED, what, "put the value in quotes: export NAME='value'")
    for before, after in script.replaced:
        if ours(before.name) and before.value != after.value:
            what = f"{before.name} is set again on line {after.line}, before any program starts"
            yield Finding(before.line, Fault.DEAD_RULE, what, "remove one of them")


def mentions(text: str, names: str) -> bool:
    """Tell whether a line of a script, or of a list of variables, sets or unsets one of `names`."""
    if text[:64].lstrip("\ufeff \t\r\n").startswith(("{", "[", "colltune-table ")):
        return False
    name = rf"(?:(?:SINGULARITY|APPTAINER)ENV_)?(?:{names})\w*"
    verb = r"(?:(?:un)?setenv|pushenv|unset|export|-?-g?env)[ \t(]+[\"']?"
    begin = r"(?:[ \t\ufeff]*[^#\s].*?|[ \t\ufeff]*|#(?:SBATCH|PBS|\$|BSUB)\s.*?)"
    key = rf"{name}[\"']?(?::(?!\S)|\] *=|, *)|\bname[\"']?(?:: *|=)[\"']?{name}"
    sets = re.compile(rf"{begin}(?:(?<!\w){name}[ \t]*\+?=|{verb}{name}|{key})")
    named, end = re.compile(names), 0
    while found := named.search(text, end):
        begun, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
        end = end if end >= 0 else len(text)
        if sets.match(text[begun : min(end, begun + _LONGEST_LINE)]):
            return True
    return False


def is_surely_script(text: str) -> bool:
    """Tell whether a shell, a batch system, a builder of images or ``module`` reads `text`."""
    if _is_marked(text):
        return True
    parameters, scripts = _lines_alike(text)
    return scripts >= _SURELY and not parameters


def is_script(text: str) -> bool:
    """Tell whether a shell reads `text`, rather than Open MPI's reader of parameters."""
    if text.startswith("#!") or _is_marked(text):
        return True
    parameters, scripts = _lines_alike(text)
    return scripts >= parameters


def _is_marked(text: str) -> bool:
    return _BEGIN.match(text) is not None or has_directives(text)


def _lines_alike(text: str) -> tuple[int, int]:
    """Return how many lines look like Open MPI's parameters, and how many like a script."""
    parameters = scripts = 0
    for line in _CONTINUED.sub(" ", text).splitlines():
        if line.lstrip().startswith(("#", "//")):
            continue
        parameters += _PARAMETER.match(line) is not None
        scripts += _SCRIPT.match(line) is not None
    return parameters, scripts
