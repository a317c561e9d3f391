"""What is wrong with a measuring request, or kept it from being measured."""

from __future__ import annotations

from functools import partial

from colltune.errors import CampaignError, Complaint, DataError, OutputError, ProgramError

campaign = partial(Complaint, error=CampaignError)
data = partial(Complaint, error=DataError)
output = partial(Complaint, error=OutputError)
program = partial(Complaint, error=ProgramError)

# a line for each, as long as it is: what is said stands beside its code
# fmt: off
SET_OTHERWISE = campaign("set-otherwise", "{name}={value} is set by {source}, but the measurement needs {wanted}. {mend}, or leave out what it decides.")
DECIDED_BY_USER = campaign("decided-by-user", "{name}={value}, set by {source}, decides what {library} runs, so no algorithm can be measured under its own name. {mend}.")
BUILT_FOR_ANOTHER_MPI = program("built-for-another-mpi", "{path} was built for another MPI than the one that starts it: its {probed_nprocs} processes do not find each other", "{mend}")
RAW_NOT_WRITTEN = output("raw-not-written", "the benchmark cannot write its raw output. Is the disk full? Earlier measurements are kept.\n{told}")
NOT_RAW = data("not-raw", "{path}: line 1 is {line_1!r}, which is not raw output that this colltune can read", "Upgrade colltune.")
UNKNOWN_RAW_VERSION = data("unknown-raw-version", "{path}: version {version} is unknown", "upgrade colltune")
NOT_CELLS = data("not-cells", "{path}: not a list of a launch's cells ({why})")
NOTHING_TO_REPLAY = campaign("nothing-to-replay", "the backend replay needs --replay DATASET")
MPIBENCHMARK_NOT_WRITTEN = output("mpibenchmark-not-written", "mpibenchmark cannot write its raw output. Is the disk full? Earlier measurements are kept.\n{told}")
REPROMPI_WITHOUT_LIBCOLLTUNE = campaign("reprompi-without-libcolltune", "backend reprompi cannot measure the algorithms of libcolltune", "Use backend native, or leave out --interposed.")
NOT_AS_ASKED = program("not-as-asked", "{path}: mpibenchmark did not do what was asked: {wrong}")
NO_WINDOWS = program("no-windows", 'windows cannot be kept on {shape}: {why}. Give each process a core of its own, or allow barriers: synchronisation = ["window", "barrier"]')
ONLY_PLANNED = program("only-planned", "this campaign can only be planned, not simulated")
MPI_OF_ANOTHER_RELEASE = program("mpi-of-another-release", "{mpirun} belongs to {library} {found}, not {release}", "Name the MPI of the job with --mpi.")
FILE_DOES_NOT_EXIST = program("file-does-not-exist", "COLLTUNE_INTERPOSED={named}: this file does not exist")
LOADED_BY_ALL = program("loaded-by-all", "COLLTUNE_INTERPOSED={named}: {why}", "All processes of a job would load it. Put it where nobody else can change it, with colltune app interpose --out FILE.")
LAUNCHER_DOES_NOT_START = campaign("launcher-does-not-start", "launcher {name!r} cannot start programs of {library}", "Use {able}.")
MATCHES_NOTHING = campaign("matches-nothing", "space.{key}: {pattern!r} matches no configuration that can be measured here", "Known: {known}.")
BACKSLASH = campaign("backslash", "{word!r} has a backslash, which sbatch cannot read from a batch script", "Rename it.")
CONTROL_CHARACTER = campaign("control-character", "{word!r} has a line break or another control character, which a batch script cannot contain", "Rename it.")
NOT_SLURMS = program("not-slurms", "environment variable {name}={text!r} is not what Slurm writes", "unset it or start colltune outside of the job")
TOO_LITTLE_TIME = campaign("too-little-time", "a time limit of {time_s:g} s leaves no time to measure, because a task is stopped up to {stop_s} s before its end", "Give at least {minutes:g} minutes.")
GRANTED_TOO_FEW_NODES = campaign("granted-too-few-nodes", "the campaign has the shape {shape}, but job {job} was granted {granted} nodes", "submit it with --nodes={nodes}, or take {nodes} out of space.nodes")
GRANTED_TOO_FEW_PROCESSES = campaign("granted-too-few-processes", "the campaign has the shape {shape}, but job {job} may start {ppn} processes on {able} of its nodes", "submit it with --ntasks-per-node={ppn}, or take {ppn} out of space.ppn")
NO_SUCH_PART = campaign("no-such-part", "part {part} must be I/N with 1 <= I <= N")
TOO_MANY_PARTS = campaign("too-many-parts", "campaign: there are {parts} parts, but only {shapes}", "Use fewer parts.")
NO_SIZES = campaign("no-sizes", "campaign: msizes_bytes_of needs sizes of at least 0")
ONE_PROCESS = campaign("one-process", "one process per core is one process here, which has nobody to talk to", "Allow more cores (processor binding, control group), or name a number of processes (ppn) to measure what holds for jobs on a shared core only.")
NOT_COVERED = campaign("application-not-covered", "the application calls {called}, but the campaign ({collectives} on {shapes}) does not cover its communicators", "Add the missing values to space.collectives, space.nodes and space.ppn.")
NOT_MEASURED = Complaint("weight-not-measured", "is not measured", "Add it to space.collectives, or remove it here.")
WEIGHS_NOTHING = Complaint("weight-of-nothing", "{sizes} contains none of the campaign's message sizes", "Change the range.")
WEIGHTS_OVERLAP = Complaint("weights-overlap", "{sizes} overlaps another range", "Give each size one weight.")
NOT_POSITIVE = campaign("not-positive", "a wall time must be positive, not {value}")
REMOVED = campaign("removed-strategy", "unknown strategy {name!r}", "it was removed; take {instead} in its place")
PLATFORM_IS_ALL = campaign("platform-is-all", "smpi.platform describes everything", "Remove topology and parameters.")
FLAT_HAS_NONE = campaign("flat-has-none", "smpi.parameters: a flat topology has no parameters", "Remove them.")
WRONG_PARAMETERS = campaign("wrong-parameters", "smpi.parameters of a {topology} must be {wanted}")
FEW_ROUTERS = campaign("few-routers", "smpi.parameters {parameters!r}: a dragonfly of {groups} groups needs {groups} routers in a chassis, not {routers}", "change one of them")
NO_HOSTS = campaign("no-hosts", "smpi.parameters {parameters!r} describe no hosts")
FEW_HOSTS = campaign("few-hosts", "the simulated platform has {hosts}, but space.nodes asks for {nodes}", "Use a larger platform, or fewer nodes.")
NOT_A_PLATFORM = campaign("not-a-platform", "{file}: not a platform of SimGrid: {why}")
