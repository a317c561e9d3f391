"""What is wrong with a site's folder."""

from __future__ import annotations

from functools import partial

from colltune.errors import ColltuneError, Complaint, OutputError, SiteError

colltune = partial(Complaint, error=ColltuneError)
output = partial(Complaint, error=OutputError)
site = partial(Complaint, error=SiteError)

# a line for each, as long as it is: what is said stands beside its code
# fmt: off
CLUSTER_MISSING = site("cluster-missing", "{path}: table [cluster] is missing", "add it, as `colltune site retrain --print-unit site` shows it")
FOLDER_OF_ANOTHER_RELEASE = site("folder-of-another-release", "{folder}: was written by colltune {wrote}, this is {release}", "see what changes with `colltune site upgrade {folder} --check`")
ANSWER_NOT_UTF8 = site("answer-not-utf8", "an answer is no text in UTF-8", "write it so")
MISREAD_CHARACTERS = site("misread-characters", "{value!r} has characters that Slurm or systemd would misread: only letters, digits and _./+- may be in it", "name another folder, or install colltune elsewhere")
STAMP_FORMAT = site("stamp-format", "{path}: format {format}", "this colltune {release} reads {known}: use the release that wrote it")
STAMP_DAMAGED = site("stamp-damaged", "{path}: damaged ({why})", "remove it: files that differ from what would be written then count as edited, and are kept")
ANSWERS_DIFFER = site("answers-differ", "{path}: key {key} is {now}, not {told}", "Edit that file, and run `colltune site init` again without options.")
FILE_NOT_READ = output("file-not-read", "{path}: {why}", "move it away")
LIBRARIES_COULD_BE_CHANGED = output("libraries-could-be-changed", "{why}, but Slurm and all jobs run what is in {folder}", "See that nobody has changed it (what is removed is written anew), correct it with chown and chmod go-w, or name another folder.")
ANOTHER_RELEASE_HERE = colltune("another-release-here", "the {library} found here is release {release}")
