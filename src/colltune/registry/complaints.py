"""What is wrong with a registry and what is asked of it."""

from __future__ import annotations

from functools import partial

from colltune.errors import BundleError, Complaint, OutputError, RegistryConflict

bundle = partial(Complaint, error=BundleError)
output = partial(Complaint, error=OutputError)
registryconflict = partial(Complaint, error=RegistryConflict)

# a line for each, as long as it is: what is said stands beside its code
# fmt: off
TEXT_TOO_LONG = bundle("text-too-long", "the name and the note may have {longest_text} characters each")
NEWER_EVENT = bundle("newer-event", "{where}: this event has format {version}, which is newer than this colltune reads ({format_version})", "Upgrade colltune.")
DAMAGED_EVENT = bundle("damaged-event", "{where}: cut short or damaged ({why})", "Copy it again, or remove it to go on as if it had not happened.")
HISTORY_CHANGED = bundle("history-changed", "{where}: disappeared while the history was read", "Try again.")
LINK_NOT_SWITCHED = output("link-not-switched", "{bundle} is in force in {slot}, but the symbolic link for people was not switched: {why}", "Promote it again.")
NOT_AN_ID_OF_A_BUNDLE = bundle("not-an-id-of-a-bundle", "{value} is not a bundle's id, which has 64 digits of 0-9 and a-f")
NOT_A_PREFIX = bundle("not-a-prefix", "{value} is not the beginning of a bundle's id: write 4 to 64 digits of 0-9 and a-f")
NOT_A_SLOT = bundle("not-a-slot", "{value} is not a slot: write a library and its release such as openmpi-4.1.4, with letters, digits and . _ + -")
NOT_WRITTEN = output("not-written", "cannot write {registry}/{key}: {why}", "Check the credentials in the environment and the permissions of the bucket.")
NO_EXCLUSIVE_CREATION = output("no-exclusive-creation", "cannot write {registry}/{key}: a store of kind {kind} has no exclusive creation that colltune knows, so one of two simultaneous promotions could get lost", "Use a shared folder, or one of {known}.")
STORE_REPLACES = output("store-replaces", "cannot write {registry}/{key}: this store ignores If-None-Match and replaces files, so one of two simultaneous promotions could get lost", "Use another store, or a shared folder.")
ANOTHER_BUNDLE = bundle("another-bundle", "{registry}/{folder}: this folder contains the bundle {bundle}, but its name says otherwise", "Remove it.")
NO_SUCH_REGISTRY = bundle("no-such-registry", "{registry}: no such registry", "Make one with `colltune site bundles add BUNDLE`.")
COPY_NOT_WRITTEN = output("copy-not-written", "cannot write {copy}: {why}", "Name a writable folder in COLLTUNE_CACHE.")
REGISTRY_MISSING = bundle("registry-missing", "the registry is missing", "Name its folder or URL with --registry.")
NO_SUCH_REPORT = bundle("no-such-report", "there is no report on {kind!a}", "known: {known}")
SHARED_CORES = bundle("shared-cores", "bundle {bundle} was measured on shared cores ({shared}), which says nothing about jobs whose processes have a core each", "Measure with as many processes as cores.")
NO_BUNDLE_BEGINS = bundle("no-bundle-begins", "{registry}: no bundle's id begins with {prefix}", "`colltune site bundles list` shows them")
SEVERAL_BUNDLES_BEGIN = bundle("several-bundles-begin", "{registry}: the ids of {count} begin with {prefix}", "Give more digits.")
NOTHING_TO_ROLL_BACK = bundle("nothing-to-roll-back", "{registry}: no bundle is in force in {slot}, so there is nothing to roll back")
FIRST_BUNDLE = bundle("first-bundle", "{registry}: {bundle} is the first bundle of {slot}, so there is nothing to roll back to")
NOT_A_SHARE = bundle("not-a-share", "{share:g} is not a share of the jobs", "Give one above 0, at most 1.")
NOT_A_REGULAR_FILE = bundle("not-a-regular-file", "{path}: not a regular file, but a bundle has only regular files")
BUNDLE_UNREADABLE = bundle("bundle-unreadable", "{path}: cannot be read: {why}")
REPORT_NOT_JSON = bundle("report-not-json", "the report on {kind} is not JSON: {why}")
IRREGULAR_FILE = bundle("irregular-file", "{path}: not a regular file", "Remove it.")
NO_REGISTRY_HERE = bundle("no-registry-here", "{registry}: {what}", "Make one with `colltune site bundles add BUNDLE`.")
NOT_A_FOLDER_OF_ITS_OWN = bundle("not-a-folder-of-its-own", "{path}: this is a symbolic link or not a folder, but a registry contains the bundles themselves", "Add the bundle with `colltune site bundles add`.")
REGISTRY_NOT_WRITTEN = output("registry-not-written", "cannot write {path}: {why}", "Make room, or correct the permissions.")
NO_SUCH_BUNDLE = bundle("no-such-bundle", "{path}: the registry has no such bundle", "`colltune site bundles list` shows its bundles.")
NOT_AS_EXPECTED = registryconflict("not-as-expected", "{slot}: {expected} was expected {state}, but it is {there}", "Nothing was changed.")
NO_TRIAL = registryconflict("no-trial", "{slot}: no bundle is on trial, so there is none to stop")
BEING_REMOVED = registryconflict("being-removed", "{registry}: the bundle {bundle} is being removed", "Add it again later.")
CHANGED_AT_ONCE = registryconflict("changed-at-once", "{slot}: somebody else changed it at the same time", "Look at it, and try again.")
NOTHING_TO_TRY_AGAINST = registryconflict("nothing-to-try-against", "{slot}: {there} is in force, so there is nothing to try {bundle} against", "Promote it.")
