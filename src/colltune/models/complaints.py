"""What is wrong with a bundle, and what cannot be learned."""

from __future__ import annotations

from functools import partial

from colltune.errors import BundleError, Complaint, DataError, OutputError, ProgramError

bundle = partial(Complaint, error=BundleError)
data = partial(Complaint, error=DataError)
output = partial(Complaint, error=OutputError)
program = partial(Complaint, error=ProgramError)

# a line for each, as long as it is: what is said stands beside its code
# fmt: off
NO_MODELS_OF = bundle("no-models-of", "this bundle has no models of {collective}, only of {known}", "Measure {collective} and fit again.")
BUNDLE_OF_UNKNOWN_LIBRARY = bundle("bundle-of-unknown-library", "the bundle {bundle} is for the MPI library {library!r}, which colltune does not know", "known: {known}")
NOT_A_MANIFEST = bundle("not-a-manifest", "{file}: this is not the manifest of a colltune bundle")
NEWER_BUNDLE = bundle("newer-bundle", "{file}: the bundle has format {version}, but this colltune ({release}) reads formats up to {newest}", "Upgrade colltune, or fit the data again.")
CONTENT_OF_ANOTHER_ID = bundle("content-of-another-id", "{file}: the content does not match the bundle's id", "fit it again, or copy it again")
HASH_DIFFERS = bundle("hash-differs", "{file}: cut short or damaged ({length} do not match the manifest's hash)", "fit it again, or copy it again")
FOLDER_IS_NO_BUNDLE = output("folder-is-no-bundle", "{path}: this folder is not a bundle (it has {name})", "Name another folder with --out.")
PARTLY_LOADED = bundle("partly-loaded", "only a part of this bundle was loaded", "Load all of it to save it.")
MANIFEST_DAMAGED = bundle("manifest-damaged", "{file}: damaged: {kind}: {why}", "fit it again, or copy it again")
MODELS_PREDICT_NOTHING = bundle("models-predict-nothing", "the bundle {bundle} cannot be used: its models of {collective} predict no times ({why})", "Fit it again.")
NO_BUNDLE_HERE = bundle("no-bundle-here", "{path}: {what}", "Make one with `colltune fit DATA --out BUNDLE`.")
BUNDLE_IS_A_FILE = bundle("bundle-is-a-file", "{path}: this is a file, but a bundle is a folder")
BUNDLE_FILE_UNREADABLE = bundle("bundle-file-unreadable", "{file}: cannot be read: {why}")
BUNDLE_FILE_DAMAGED = bundle("bundle-file-damaged", "{file}: cut short or damaged ({why})", "fit it again, or copy it again")
BUNDLE_FILE_MISSING = bundle("bundle-file-missing", "{file}: missing from the bundle", "fit it again, or copy it again")
MANIFEST_DIFFERS = bundle("manifest-differs", "{file}: does not match the manifest ({why})", "fit it again, or copy it again")
BUNDLE_NOT_WRITTEN = output("bundle-not-written", "cannot write a bundle to {path}: {why}", "Name another folder with --out.")
BUNDLE_NOT_REPLACED = output("bundle-not-replaced", "cannot write the bundle {path}: {why}", "Name a writable place with --out.")
GROUPS_DO_NOT_DIVIDE = data("groups-do-not-divide", "{groups} cannot divide {nprocs}; possible are {possible}")
NO_COST_MODEL = data("no-cost-model", "no cost model can be fitted: {why}")
NO_TASK_TIMES_COVER = data("no-task-times-cover", "no task times cover a message of {msize}: eq. 4 needs {least} segments or more", "Measure smaller segments.")
TOO_FEW_SEGMENTS = data("too-few-segments", "the formula needs {least} or more, not {segments}")
TIME_PER_LEADER = data("time-per-leader", "{name}: one positive time per node leader is needed")
NOTHING_USABLE = data("nothing-usable", "no measurement is usable: none has the status ok", "Measure again.")
NOTHING_FITTED = data("nothing-fitted", "{why}")
REMOVED_LEARNER = bundle("removed-learner", "the bundle was fitted with the learner {learner}, which colltune no longer has", "Fit the data again.")
UNKNOWN_PREDICTOR = bundle("unknown-predictor", "unknown predictor {kind}; known: {known}", "Fit the bundle again, or upgrade colltune.")
LEARNER_FITS_NOTHING = data("learner-fits-nothing", "{learner} can be fitted to nothing of {collective}; {which}: {why}")
CANNOT_BE_FITTED = data("cannot-be-fitted", "{collective}: {why}")
NO_MGCV = program("no-mgcv", "R has no package mgcv; install R with its recommended package mgcv (on Debian: r-base-core and r-cran-mgcv)")
MACHINE_NOT_NAMED = data("machine-not-named", "--for {value!r}: the machine is missing", "Write machine=NAME.")
NOTHING_FROM_PRIORS = data("nothing-from-priors", "nothing can be learned from the priors: {reasons}")
FOR_WITH_DATA = data("for-with-data", "--for is only for machines without measurements", "Drop it, or drop DATA.")
NO_DATA = data("no-data", "there are no measurements", "Name DATA, or for a machine that was never measured both --prior OTHER and --for machine=NAME.")
FOR_UNKNOWN_KEY = data("for-unknown-key", "--for {value!r}: {part!r} is not one of {known}, each once, separated by commas")
PRIORS_DIFFER = data("priors-differ", "--for {value!r}: the priors have different values of {key} ({values})", "Add {key}=….")
PRIOR_IS_DATA = data("prior-is-data", "the prior has the same context as the data, {context}", "Name it as DATA.")
PRIOR_OF_ANOTHER_LIBRARY = data("prior-of-another-library", "the prior is for {library} ({other}), not {wanted}", "With --any-library its algorithms are matched by name.")
PRIOR_UNUSABLE = data("prior-unusable", "no measurement of the prior ({other}) is usable: none has the status ok")
WORKER_OF_ANOTHER_RELEASE = program("worker-of-another-release", "the Dask worker {where} has colltune {found}", "Install {release} there.")
