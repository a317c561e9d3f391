"""What a release makes of a parameter file that is in effect, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, cached_property

from colltune.domain import Collective
from colltune.mpi.catalogue import Algorithm, CollectiveEntry
from colltune.mpi.job_variables import script_findings
from colltune.mpi.openmpi import mca
from colltune.mpi.openmpi.decide import decide
from colltune.mpi.openmpi.decide.components import (
    BASIC,
    HAN,
    SELF,
    TUNED,
    owner,
    why_no_start,
)
from colltune.mpi.openmpi.decide.tuned import (
    configuration_of,
    fanout_name,
    forced_numbers,
    number_of,
    parameter_names,
)
from colltune.mpi.openmpi.mca import (
    HAN_RULES_FILE,
    PARAMETER_FILES,
    PREFIX,
    RULES_FILE,
    USE_HAN_RULES,
    USE_RULES,
    flag_of,
    forcing_name,
    integer_of,
    is_integer,
)
from colltune.mpi.openmpi.parameters import reading
from colltune.mpi.openmpi.parameters.reading import Kind, Setting
from colltune.mpi.openmpi.tuned_format import TunedRules
from colltune.mpi.openmpi.tuned_lint import Place, algorithm_findings
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    Call,
    Entries,
    Entry,
    Fault,
    Finding,
    Outcome,
    Rule,
    Rules,
)

NAME = "openmpi-parameters"
_FLAGS = frozenset(
    {USE_RULES, USE_HAN_RULES, "coll_hcoll_enable", "coll_ucc_enable"}
    | {"coll_han_reproducible", "coll_han_dump_dynamic_rules"}
)
_TUNED = frozenset(
    {
        *("priority", "verbose", "init_tree_fanout", "init_chain_fanout", "use_dynamic_rules"),
        *("dynamic_rules_filename", "alltoall_small_msg", "alltoall_intermediate_msg"),
        *("alltoall_large_msg", "alltoall_min_procs", "bcast_algorithm_knomial_radix"),
        *("scatter_min_procs", "scatter_intermediate_msg", "scatter_large_msg", "stream"),
        "reduce_algorithm_knomial_radix",
    }
)
_HAN = re.compile(
    r"priority|verbose|reproducible|packbuf_bytes|packbuf_max_count|max_dynamic_errors|topo_level"
    r"|(use_dynamic_file_rules|dynamic_rules_filename|dump_dynamic_rules)"
    r"|(bcast|reduce|allreduce)_segsize"
    r"|(allgather|allreduce|bcast|gather|gatherv|reduce|scatter|scatterv)_(up|low)_module"
    r"|(alltoall|alltoallv)_(lower_module|low_module|pstages|smsc_\w+|\w*_avg_send_limit)"
    r"|use_simple_\w+|use_\w+_algorithm"
    r"|\w+_dynamic_(intra_node|inter_node|global_communicator)_module"
)


class ParameterFile(TunedRules):
    """A parameter file that is in effect; variables of the environment go before it."""

    format = NAME

    def __init__(self, text: str, source: str, release: str) -> None:
        super().__init__(source, release)
        self.read = reading.read(text)
        self.followed = reading.follow(self.read.found, source, release)
        self.environment = mca.environment(
            {setting.name: setting.value for setting in self.followed.settings if setting.name}
        )
        self.variables = mca.Variables(self.environment)
        self.forced = {rule.collective: rule for rule in self._forced()}
        named = [rule for parsed in (self.tuned, self.han_file) if parsed for rule in parsed.rules]
        self.rules = (*self.forced.values(), *named)

    @property
    def tuned(self) -> Rules | None:
        return self.followed.parsed.get("tuned")

    @property
    def han_file(self) -> Rules | None:
        return self.followed.parsed.get("han")

    @cached_property
    def entries(self) -> Entries:  # type: ignore[override]
        """What coll/tuned is told, as ranges: forced algorithms reach all communicators."""
        if not self.variables.flag(mca.USE_RULES, False):
            return {}
        named = self.tuned
        found = dict(named.entries) if isinstance(named, TunedRules) else {}
        for collective, rule in self.forced.items():
            if collective not in found or self.forced_first:
                entry = self.catalogue.collectives[collective]
                always = (rule._replace(numbers=forced_numbers(entry, self.variables)),)
                found[collective] = (Entry(collective, rule.line, 0, LARGEST_COMM_SIZE, always),)
        return found

    @property
    def forced_first(self) -> bool:
        """Whether the release asks for forced algorithms before the rules file."""
        return not self.catalogue.series.startswith("4.")

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`; `environment` goes before the file."""
        variables = self.environment | dict(environment or {})
        # a rules file that the environment replaces by another one is not known
        tuned = self.tuned if self._same(mca.RULES_FILE, variables) else None
        han = self.han_file if self._same(mca.HAN_RULES_FILE, variables) else None
        outcome = decide(
            self.release,
            call,
            variables,
            tuned,
            han,  # type: ignore[arg-type]
        )
        rule = self.forced.get(call.collective)
        if rule is None or rule.configuration is None or call.comm_size < 2:
            return outcome
        told = self._same(mca.forcing_name(call.collective), variables)
        in_effect = told and mca.Variables(variables).flag(mca.USE_RULES, False)
        if not in_effect or not (self.forced_first or outcome.chosen.is_default):
            return outcome
        return replace(outcome, rule=rule, chosen=rule.configuration)

    def _same(self, name: str, variables: Mapping[str, str]) -> bool:
        variable = f"{mca.PREFIX}{name}"
        return variables.get(variable) == self.environment.get(variable)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        named = [parsed for parsed in (self.tuned, self.han_file) if parsed]
        sizes = {size for parsed in named for size in parsed.comm_sizes(collective)}
        return tuple(sorted(sizes | ({2} if collective in self.forced else set())))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        points = {0}
        for parsed in (self.tuned, self.han_file):
            if parsed is not None:
                points.update(parsed.switch_points(collective, comm_size, nodes))
        return tuple(sorted(points))

    def setting(self, name: str) -> Setting | None:
        return next((s for s in reversed(self.read.found) if s.name == name), None)

    def _forced(self) -> list[Rule]:
        found = []
        for entry in self.catalogue.collectives.values():
            name = mca.forcing_name(entry.collective)
            numbers = forced_numbers(entry, self.variables)
            if numbers.algorithm:
                setting = self.setting(name)
                line = setting.line if setting is not None else 0
                chosen = configuration_of(entry, numbers)
                found.append(Rule(line, self.variables.shown(name), entry.collective, chosen))
        return sorted(found, key=lambda rule: rule.line)


def lint(file: ParameterFile) -> tuple[Finding, ...]:
    found = list(file.followed.findings)
    if file.read.script is not None:
        found += script_findings(file.read.script, lambda name: name.startswith(PREFIX))
    for line, text in file.read.others:
        message = f"{text[:60]!r} sets no parameter: the library prints an error and skips it"
        mend = "write name = value, or --mca name value"
        found.append(Finding(line, Fault.MALFORMED, message, mend))
    for setting in file.read.found:
        found += _spelling(file, setting)
        found += _name(file, setting)
    found += _twice(file.read.found)
    found += _components(file)
    found += _activation(file)
    found += _forced(file)
    found += _outranked(file)
    return tuple(sorted(set(found)))


def _spelling(file: ParameterFile, setting: Setting) -> Iterator[Finding]:
    if setting.kind is Kind.SINGLE_DASH and not file.catalogue.series.startswith("4."):
        text = f"mpirun of Open MPI {file.release} refuses to start with -mca in a file of --tune"
        yield Finding(setting.line, Fault.ENDS_PROGRAM, text, "write --mca")
    if setting.rest:
        text = (
            f"{setting.rest[:60]!r} is left over, because the value of {setting.name} ends at the "
            "blank"
        )
        mend = "quote a value with blanks"
        yield Finding(setting.line, Fault.MALFORMED, text, mend)
    if setting.kind is Kind.ASSIGNED and re.search(r"\s(#|//)", setting.value):
        text = f"the comment after {setting.name} becomes part of its value"
        yield Finding(setting.line, Fault.MALFORMED, text, "put it on its own line")
    if setting.name in _FLAGS and flag_of(setting.value) is None:
        text = f"{setting.text[:80]} is not a switch, so the default applies"
        yield Finding(setting.line, Fault.MALFORMED, text, "write 1 or 0")
    if _is_number(setting.name) and setting.value and not is_integer(setting.value):
        read = integer_of(setting.value)
        then = "the default applies" if read is None else f"the library reads {read}"
        text = f"{setting.text[:80]} is no number of 32 bits, so {then}"
        yield Finding(setting.line, Fault.MALFORMED, text, "write a whole number")
    is_file = setting.name in (*reading.RULES, *PARAMETER_FILES)
    if is_file and setting.value and not setting.value.startswith(("/", "~")):
        yield Finding(
            setting.line,
            Fault.NOT_ACTIVATED,
            f"{setting.value[:80]} is not an absolute path: each rank resolves it in its own "
            "working directory, and ranks that find no file decide differently",
            "write the absolute path",
        )


def _is_number(name: str) -> bool:
    """Tell whether a parameter of coll/tuned is a number, and no switch, name or choice."""
    others = {USE_RULES, RULES_FILE, *map(forcing_name, Collective)}
    return name.startswith("coll_tuned_") and name in _known_names() - others


def _name(file: ParameterFile, setting: Setting) -> Iterator[Finding]:
    name = setting.name
    if name.startswith("coll_tuned_"):
        known = name in _known_names()
    elif name.startswith("coll_han_"):
        known = _HAN.fullmatch(name.removeprefix("coll_han_")) is not None
    else:
        return
    if not known:
        text = f"Open MPI {file.release} has no parameter {name[:80]}, and prints no message"
        near = get_close_matches(name, _known_names(), 1)
        mend = f"write {near[0]}" if near else "correct or remove it"
        yield Finding(setting.line, Fault.UNKNOWN, text, mend)


@cache
def _known_names() -> frozenset[str]:
    """Return the names of coll/tuned's parameters, and of those that switch files of rules."""
    found = {f"coll_tuned_{name}" for name in _TUNED}
    for collective in Collective:
        ends = ("", "_count", *(f"_{end}" for end in parameter_names(collective)))
        found |= {f"{forcing_name(collective)}{end}" for end in ends}
    return frozenset(found | {USE_HAN_RULES, HAN_RULES_FILE, "coll_han_priority"})


def _twice(settings: list[Setting]) -> Iterator[Finding]:
    seen: dict[str, Setting] = {}
    for setting in settings:
        before = seen.get(setting.name)
        if setting.name and before is not None and before.value != setting.value:
            text = f"{setting.name} is already on line {before.line}; the last one counts"
            yield Finding(setting.line, Fault.OVERRIDDEN, text, "remove one")
        seen[setting.name] = setting


def _components(file: ParameterFile) -> Iterator[Finding]:
    names = ("coll", *(f"coll_{name}_priority" for name in (BASIC, "libnbc", SELF)))
    settings = [setting for name in names if (setting := file.setting(name)) is not None]
    if not settings:
        return
    line = settings[0].line
    why = why_no_start(file.variables)
    if why:
        guilty = next((s for s in settings if s.name in why), settings[0])
        mend = "leave coll out, or write one ^ first and no blanks: coll=^han"
        if guilty.name != "coll":
            mend = "give it a priority of 0 or more"
        yield Finding(guilty.line, Fault.ENDS_PROGRAM, why, mend)
        return
    alone = Call(Collective.EXSCAN, 1, 1)
    if owner(file.catalogue, file.variables, alone, dynamic=False).name == BASIC:
        what = "coll/basic has priority over coll/self, and an exscan of one process crashes in it"
        mend = "keep coll/self, with the higher priority"
        yield Finding(line, Fault.ENDS_PROGRAM, what, mend)


def _activation(file: ParameterFile) -> Iterator[Finding]:
    """Yield a finding for what has no effect without another parameter."""
    pairs = [(RULES_FILE, USE_RULES), (HAN_RULES_FILE, USE_HAN_RULES)]
    stems = {forcing_name(collective) for collective in Collective}
    forcing = (s.name for s in file.read.found if s.value not in ("", "0", "ignore"))
    pairs += [(name, USE_RULES) for name in forcing if name in stems]
    for name, switch in dict.fromkeys(pairs):
        setting = file.setting(name)
        if setting is not None and not file.variables.flag(switch, False):
            text = f"{name} has no effect without {switch}=1"
            yield Finding(setting.line, Fault.NOT_ACTIVATED, text, f"set {switch} to 1")
    for name, switch in pairs[:2]:
        setting = file.setting(switch)
        unused = setting is not None and file.variables.flag(switch, False)
        alone = not file.variables.text(name) and not (file.forced and switch == USE_RULES)
        if setting is not None and unused and alone:
            text = f"{switch} has no effect without {name}"
            yield Finding(setting.line, Fault.REMARK, text, f"set {name}")


def _forced(file: ParameterFile) -> Iterator[Finding]:
    for entry in file.catalogue.collectives.values():
        setting = file.setting(forcing_name(entry.collective))
        if setting is None:
            if file.variables.text(forcing_name(entry.collective)) is None:
                yield from _values(file, entry, None)
            continue
        number = number_of(entry, setting.value)
        if number is None:
            most = max(algorithm.number for algorithm in entry.algorithms)
            yield Finding(
                setting.line,
                Fault.RULE_DROPPED,
                f"Open MPI {file.release} has no {entry.collective} algorithm "
                f"{setting.value[:60]!r}; it prints a help text and decides by itself",
                f"write 0 to {most}, or a name that ompi_info lists",
            )
            continue
        algorithm = entry.numbered(number)
        if algorithm is not None:
            yield from _algorithm(file, entry, algorithm, setting)


def _algorithm(
    file: ParameterFile, entry: CollectiveEntry, algorithm: Algorithm, setting: Setting
) -> Iterator[Finding]:
    numbers, line = forced_numbers(entry, file.variables), setting.line
    yield from algorithm_findings(entry, algorithm, numbers, Place(line, file.release))
    yield from _values(file, entry, algorithm)
    rules = file.tuned
    if rules is not None and any(rule.collective is entry.collective for rule in rules.rules):
        if file.forced_first:
            text = (
                f"{setting.name} has priority over the rules of {entry.collective} in the rules "
                "file"
            )
        else:
            text = (
                f"the rules of {entry.collective} in the rules file have priority over "
                f"{setting.name}"
            )
        yield Finding(line, Fault.OVERRIDDEN, text, "remove one of them")


def _values(
    file: ParameterFile, entry: CollectiveEntry, algorithm: Algorithm | None
) -> Iterator[Finding]:
    """Yield a finding for what stands beside an algorithm that ignores it, or beside none."""
    stem, honoured = forcing_name(entry.collective), algorithm.parameters if algorithm else ()
    used = {
        "segmentsize": "segsize" in honoured,
        fanout_name(entry.collective): "fanout" in honoured,
        "max_requests": "requests" in honoured or entry.collective is Collective.SCATTER,
    }
    for end in parameter_names(entry.collective):
        setting = file.setting(f"{stem}_{end}")
        if setting is None:
            continue
        if algorithm is None:
            # that of alltoall is also the limit of rules that have none
            if end != "max_requests" or entry.collective is not Collective.ALLTOALL:
                text = f"{setting.name} has no effect, because {stem} forces no algorithm"
                yield Finding(setting.line, Fault.NO_EFFECT, text, f"set {stem}")
        elif not used.get(end) and setting.value not in ("", "0"):
            text = f"{entry.collective} {algorithm.name} ignores {setting.text[:80]}"
            yield Finding(setting.line, Fault.NO_EFFECT, text, "remove it")


def _outranked(file: ParameterFile) -> Iterator[Finding]:
    """Yield a finding for each forced algorithm before which another component decides."""
    if why_no_start(file.variables):
        return
    for collective, rule in file.forced.items():
        within, across = (
            owner(file.catalogue, file.variables, Call(collective, 4, 1, nodes), dynamic=True)
            for nodes in (1, 2)
        )
        if within.name != TUNED:
            what = f"coll/{within.name} decides {collective}: {within.reason.rstrip('.')}"
            mend = f"give coll/{within.name} a lower priority, or switch it off"
            yield Finding(rule.line, Fault.OUTRANKED, what, mend)
        elif across.name == HAN and file.han_file is None:
            yield from _by_han(file, collective, rule)


def _by_han(file: ParameterFile, collective: Collective, rule: Rule) -> Iterator[Finding]:
    module = f"coll_han_{collective}_dynamic_global_communicator_module"
    if file.variables.text(module) is None:
        yield Finding(
            rule.line,
            Fault.NOT_EVERYWHERE,
            f"coll/han decides {collective} on communicators that span nodes; a forced "
            "algorithm holds only within nodes and for coll/han's parts",
            f"set coll_han_priority to 0, or {module} to 3",
        )
