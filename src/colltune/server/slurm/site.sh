# What the Slurm hooks of colltune need to know about this site; POSIX sh, read by all of them.
# It belongs to root, like the hooks themselves. `colltune site slurm hooks` never overwrites it.

# The service, https://HOST:PORT, or its unix socket on the host that asks. Without either, as with
# http:// on this host, whoever answers at the port is believed.
COLLTUNE_SITE_URL=http://127.0.0.1:8765
COLLTUNE_SITE_SOCKET=

# A folder for what jobs are told, on a file system that all nodes have, and without which jobs
# could not run anyway: ranks of one job that read different things wait for each other for ever.
# It must belong to the user who runs the prolog (SlurmUser or root), and nobody else may write it.
COLLTUNE_SITE_FOLDER=/shared/colltune/jobs

# The MPI libraries and releases that this site has, and which one a job uses whose loaded modules
# do not tell; empty: such jobs keep MPI's own decisions.
COLLTUNE_SITE_LIBRARIES="openmpi/4.1.4"
COLLTUNE_SITE_DEFAULT=

# The partitions whose jobs are tuned; empty: all.
COLLTUNE_SITE_PARTITIONS=

# Processes per node that are prepared where Slurm does not tell a job's: its processors per node
# divided by each of these, and one.
COLLTUNE_SITE_PARTS="1 2 4 8"

# Seconds that the service has to answer, and that the hook takes at most.
COLLTUNE_SITE_LIMIT_S=0.2
COLLTUNE_SITE_TOTAL_S=2

# Days after which a job's folder is removed even if no epilog was run for it: longer than any job.
COLLTUNE_SITE_DAYS=60

# What production jobs tell the service. Empty: nothing; all: every job is recorded; asked: jobs that
# ask with COLLTUNE_RECORD=on or a comment of colltune:record. One call in so many is timed. In the
# folder lies LIBRARY-RELEASE/libcolltune.so for each MPI; it belongs to root or the site's user.
# Programs are told by "hash" or "names"; users by "none" or by "hash", with the file `secret` here.
COLLTUNE_SITE_RECORD=
COLLTUNE_SITE_RATE=20
COLLTUNE_SITE_LIB=
COLLTUNE_SITE_PROGRAMS=hash
COLLTUNE_SITE_USERS=hash

# Further options of curl, such as --cacert FILE.
COLLTUNE_SITE_CURL=

PATH=/usr/bin:/bin:/usr/sbin:/sbin
