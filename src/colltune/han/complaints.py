"""What is wrong with task times of coll/han, and what cannot be told from them."""

from __future__ import annotations

from functools import partial

from colltune.errors import CampaignError, Complaint, DataError, OutputError, ProgramError

campaign = partial(Complaint, error=CampaignError)
data = partial(Complaint, error=DataError)
output = partial(Complaint, error=OutputError)
program = partial(Complaint, error=ProgramError)

# a line for each, as long as it is: what is said stands beside its code
# fmt: off
TASKS_CANNOT_PREDICT = data("tasks-cannot-predict", "{configuration} on {shape}: tasks of {tasks_of} cannot predict the time of {segments}")
NO_TASK_TIMES_FOR = data("no-task-times-for", "there are no task times for {collective} of {msize} on {shape}", "Measure them by `colltune han measure`.")
NO_EXHAUSTIVE_SEARCH = data("no-exhaustive-search", "no instance has both task times and an exhaustive search", "Measure whole collectives by `colltune measure --only '*.han_intra*'` on the same machine.")
NO_SETUP_WITH_TIMES = data("no-setup-with-times", "no setup of {collective} on {shape} has task times for all the message sizes", "Measure them by `colltune han measure`.")
NOT_RAW_TASKS = data("not-raw-tasks", "{path}: line 1 is {line_1!r}, which is not raw output of this colltune")
NO_LONG_SERIES = data("no-long-series", "no series of tasks on {shape} is long enough to show how tasks overlap in segments of {segsize_bytes} bytes; segment sizes of series that are: {known}", "Measure messages of several segments by `colltune han measure`.")
NOT_OF_OPEN_MPI = program("not-of-open-mpi", "{mpirun} belongs to {title}, but HAN is part of Open MPI", "Name an mpirun of Open MPI.")
TASKS_NOT_WRITTEN = output("tasks-not-written", "cannot write {path}: {why}")
FOLDER_OF_ANOTHER_VERSION = data("folder-of-another-version", "{path}: this folder was written by another version of colltune", "Remove it.")
TASKS_FOLDER_WRONG = data("tasks-folder-wrong", "{path}: {why}", "Remove its folder.")
TASKS_LINE_UNREADABLE = data("tasks-line-unreadable", "{path}: line {number} cannot be read: {text!r}")
NO_SEGMENT_SIZE = campaign("no-segment-size", "give at least one segment size and one module within nodes")
ODD_SEGMENT_SIZE = campaign("odd-segment-size", "a segment size of {segsize} bytes is not a multiple of 4 above 0")
NOTHING_TO_MEASURE = campaign("nothing-to-measure", "give at least one collective, one shape and one message size")
EMPTY_MESSAGES = campaign("empty-messages", "messages must have 1 byte or more")
NOT_A_KNOWN_WORD = campaign("not-a-known-word", "{name}: {what} is not one of {known}")
NO_TASKS_OF_COLLECTIVE = campaign("no-tasks-of-collective", "{collective}: task times exist only for {known}")
SHAPE_WITHOUT_HAN = campaign("shape-without-han", "{shape}: {why}")
TASKS_EMPTY = data("tasks-empty", "{path}: the file is empty", "Name a file that `colltune han measure` wrote.")
TASKS_OF_ANOTHER_CONTEXT = data("tasks-of-another-context", "{path} has task times of {its_context}, not of {context}", "Name another file.")
TASKS_LINE_NOT_OBJECT = data("tasks-line-not-object", "{path}: line {number} is not a JSON object")
NOT_TASK_TIMES = data("not-task-times", "{path}: line 1: this is not a file of task times ({format})")
NEWER_TASK_TIMES = data("newer-task-times", "{path}: line 1: the file has version {version}, but this colltune reads versions up to {newest}")
TASKS_CONTEXT_LACKS = data("tasks-context-lacks", "{path}: line 1: the context lacks machine, library or library_version")
TASKS_NOT_WORDS = data("tasks-not-words", "{path}: line {number}: asked does not hold lists of words")
TASKS_KEY_MISSING = data("tasks-key-missing", "{path}: line {number}: key {key} is missing")
TASKS_NEED_TIMES = data("tasks-need-times", "{configuration} on {shape}: {segments} need positive times of {tasks} on {leaders}")
TASKS_LINE_NOT_JSON = data("tasks-line-not-json", "{path}: line {number} is not JSON: {why}")
TASKS_LINE_WRONG = data("tasks-line-wrong", "{path}: line {number}: {why}")
