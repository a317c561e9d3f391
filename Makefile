# `make tune` and `make test` do everything, set-up included; see README.md.
SHELL := /bin/sh
PYTHON ?= python3
BUDGET ?= 90s
OUT ?= tuned
MPI ?=
NAME ?=
TESTS ?= tests/integration
NODES = 4
PPN = 2
LATENCY_US = 2000
RATE_MBIT = 1000
RAILS =
FAIR =
RUN =
export PYTHON RUN

.PHONY: tune test unit test-all integration others test-mpi test-foreign runtime setup lint figure bench cluster cluster-down docs screens man dist lock
.DEFAULT_GOAL := tune

tune: runtime
	.venv/bin/colltune tune --budget $(BUDGET) --out "$(OUT)" $(if $(MPI),--mpi "$(MPI)")

# in minutes: all that needs nothing but Python, a C compiler and make
test: setup
	$(MAKE) --no-print-directory -j2 lint unit

unit: setup
	.venv/bin/python -m pytest -n 2 --dist loadfile -m "not slow"

# the rest: real MPIs, Slurm, a browser, documentation, notebooks, wheels, as far as they are here
test-all: setup
	$(MAKE) --no-print-directory -j2 integration others

integration: setup
	.venv/bin/python -m pytest -p no:cacheprovider -m slow tests/integration

others: setup
	.venv/bin/python -m pytest -p no:cacheprovider -m slow --ignore=tests/integration

# installs the MPIs that the integration tests can use into .mpi, then runs those tests on each
test-mpi: setup
	.venv/bin/python -m tests.integration.install
	.venv/bin/python -m tests.integration.run $(TESTS)

# mpi4py's own tests without colltune and with all that it does, on the MPIs of PATH and .mpi, or on
# MPI; goes on where it was interrupted
test-foreign: setup
	.venv/bin/python -m tests.foreign.run $(if $(MPI),"$(MPI)")

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

# measures a figure that docs/benchmarks.md shows; without NAME it lists them
figure: setup
	@.venv/bin/python -m figures $(NAME)

# the old name
bench: figure

# virtual hosts on this machine, see cluster/README.md; RUN="mpirun ..." runs a command on them, and
# where none are up, on some that end with it
CLUSTER := PATH="$$PWD/.venv/bin:$$PATH" .venv/bin/python -m cluster
NETWORK = --nodes $(NODES) --ppn $(PPN) --latency-us $(LATENCY_US) --rate-mbit $(RATE_MBIT) \
  $(if $(RAILS),--rails $(RAILS))
NAMED = $(if $(NAME),--name $(NAME))
cluster: setup
	@$(CLUSTER) $(if $(RUN),run $(if $(FAIR),--fair),up) $(NAMED) $(NETWORK) $(if $(RUN),-- sh -c "$$RUN")

cluster-down: setup
	@$(CLUSTER) down $(NAMED)

# every reference that leads nowhere is an error
docs: setup
	.venv/bin/sphinx-build -W --keep-going -n -q -d build/docs/.doctrees docs build/docs/html
	.venv/bin/python -m docs._ext.man_pages build/docs/man

# the tutorial's pictures of a terminal; on an idle machine, since one of them tunes it
screens: setup
	.venv/bin/python -m docs._ext.screens docs/images

# manual pages as wheels bring them along, from the command line's help
man: setup
	.venv/bin/python -m docs._ext.man_pages packaging/man

# wheel, sdist and bill of materials; whoever makes them from the same files gets the same bytes
dist: setup
	rm -rf dist
	.venv/bin/python packaging/sbom/bill.py
	.venv/bin/python -m hatchling build -d dist
	cp packaging/sbom/colltune.cdx.json dist/colltune-$$(.venv/bin/python -m hatchling version).cdx.json
	cd dist && sha256sum colltune-* > SHA256SUMS

# what running needs; `setup` adds tests, documentation and all extras
runtime: .venv/.runtime

setup: .venv/.complete

.venv/.runtime: requirements/runtime.lock pyproject.toml setup.sh
	sh setup.sh runtime

.venv/.complete: requirements/all.lock pyproject.toml setup.sh
	sh setup.sh

LOCK := .venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header \
  --no-annotate --no-emit-index-url --no-emit-find-links --upgrade

# of the image of the service, the same versions of fewer packages
lock: setup
	$(LOCK) pyproject.toml --all-extras -o requirements/all.lock
	$(LOCK) pyproject.toml --constraints requirements/all.lock --annotate -o requirements/runtime.lock
	$(LOCK) requirements/build.in --constraints requirements/all.lock -o requirements/build.lock
	$(LOCK) requirements/service.in --constraints requirements/all.lock -o requirements/service.lock
	.venv/bin/python packaging/sbom/bill.py
