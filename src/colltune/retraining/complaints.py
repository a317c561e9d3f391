"""What is wrong with a site, and kept a night's work from being done."""

from __future__ import annotations

from functools import partial

from colltune.errors import BundleError, Complaint, DataError, ProgramError, SiteError

bundle = partial(Complaint, error=BundleError)
data = partial(Complaint, error=DataError)
program = partial(Complaint, error=ProgramError)
site = partial(Complaint, error=SiteError)

# a line for each, as long as it is: what is said stands beside its code
# fmt: off
NO_MEASUREMENTS_OF = data("no-measurements-of", "no measurements of {machine} in {datasets}{why}", "Check data.datasets and site.machine.")
SAME_SLOT = data("same-slot", "measurements of {context} and of {other} would be in the same slot", "Name the fabric that counts in site.fabric.")
PLACE_UNREADABLE = data("place-unreadable", "{place}: cannot be read: {why}")
HOOK_FAILED = program("hook-failed", "{what}")
SECRET_NOT_ASCII = site("secret-not-ascii", "hooks.webhook.secret_file {file}: the first line is not a secret of printable ASCII")
SECRET_UNREADABLE = site("secret-unreadable", "hooks.webhook.secret_file {file}: {why}")
BUNDLE_OF_ANOTHER_MACHINE = bundle("bundle-of-another-machine", "{registry}: the bundle {bundle} in force is for {context}, but the site is {machine}", "Use one registry per machine.")
NO_USABLE_STATUS = data("no-usable-status", "no measurement is usable: none has the status ok", "Measure again.")
NO_MAIL = Complaint("no-mail", "colltune no longer sends mail itself", 'Remove the table, and name a program that sends mail in hooks.command, such as ["/usr/local/bin/mail-json", "root@localhost"].')
NEEDS_MEASUREMENTS = Complaint("confirm-needs-measurements", "needs backfill.measurements, a folder of datasets")
NOT_ONE_OF = Complaint("not-one-of", "{value!r} is not one of {known}")
HAS_PASSWORD = Complaint("has-password", "contains a password", "Leave it out, and write it to the file that PGPASSFILE names.")
NEEDS_DASK = Complaint("needs-dask", 'a scheduler or Slurm needs backend = "dask"')
TWO_CLUSTERS = Complaint("two-clusters", "excludes [compute.slurm]", "Keep one.")
NOT_AN_MPI = site("not-an-mpi", "{value!r} is not like openmpi/4.1.6 or openmpi/4.1.6=/opt/openmpi/bin/mpirun")
