"""Spack's recipe of colltune; packaging/README.md tells how it is used."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyColltune(PythonPackage):
    """Picks the fastest algorithm of every MPI collective, and proves that MPI obeys."""

    license("BSD-3-Clause")

    # built from a checkout or an unpacked release, see `spack develop`
    version("0.1.0")

    variant("mpi", default=True, description="An MPI to measure with")
    variant("plots", default=False, description="Pictures and reports")
    variant("learners", default=False, description="Two of the published learners")
    variant("service", default=False, description="Answers over HTTP: colltune serve")
    variant("postgresql", default=False, description="What jobs report, kept in PostgreSQL")
    variant("s3", default=False, description="Registries and datasets in an object store")
    variant("dask", default=False, description="Fits on a cluster")
    variant("notebooks", default=False, description="The kernel and packages of the notebooks")

    depends_on("py-hatchling@1.28:", type="build")

    with default_args(type=("build", "run")):
        depends_on("python@3.11:")
        depends_on("py-click@8.1:8")
        depends_on("py-joblib@1.4:")
        depends_on("py-numpy@2.0:")
        depends_on("py-pandas@2.2:")
        depends_on("py-pyarrow@16:")
        depends_on("py-pyyaml@6:")
        depends_on("py-rich@13.7:")
        depends_on("py-scikit-learn@1.5:")
        depends_on("py-scipy@1.13:")
        depends_on("py-threadpoolctl@3.1:")
        depends_on("py-tree-sitter@0.25:")
        depends_on("py-tree-sitter-bash@0.25:")
        depends_on("py-typer@0.19:0.24")

    # datasets are Parquet files
    depends_on("arrow+parquet+python+snappy+zstd", type=("build", "run"))

    with default_args(type="run"):
        depends_on("mpi", when="+mpi")

        with when("+plots"):
            depends_on("py-matplotlib@3.8:")

        with when("+learners"):
            depends_on("py-pygam@0.10:")
            depends_on("py-xgboost@2.1:")

        with when("+service"):
            depends_on("py-fastapi@0.115:")
            depends_on("py-httptools@0.6:")
            depends_on("py-prometheus-client@0.21:")
            depends_on("py-pydantic-settings@2.6:")
            depends_on("py-sqlalchemy@2.0.36:")
            depends_on("py-structlog@24.4:")
            depends_on("py-uvicorn@0.32:")
            depends_on("py-uvloop@0.21:")

        with when("+postgresql"):
            depends_on("py-psycopg@3.2:")

        with when("+s3"):
            depends_on("py-fsspec@2025.2:")
            depends_on("py-s3fs@2025.2:")

        with when("+dask"):
            depends_on("py-dask-jobqueue@0.9:")
            depends_on("py-distributed@2024.10:")

        with when("+notebooks"):
            depends_on("py-ipykernel@6.29:")
            depends_on("py-matplotlib@3.8:")
            depends_on("py-pygam@0.10:")
            depends_on("py-xgboost@2.1:")

    import_modules = ["colltune", "colltune.cli", "colltune.selector", "colltune.models"]
