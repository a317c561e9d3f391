"""Not in Spack's own repository yet."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyPygam(PythonPackage):
    """Generalized additive models."""

    homepage = "https://github.com/dswah/pyGAM"
    pypi = "pygam/pygam-0.12.0.tar.gz"

    license("Apache-2.0")

    version("0.12.0", sha256="7c098dfbfbb7a6b9fa4e1a579380e3b0b866fe8fa56f9d852ffdeaecfe56d5ea")

    depends_on("py-setuptools@61:", type="build")

    with default_args(type=("build", "run")):
        depends_on("python@3.10:3.14")
        depends_on("py-numpy@1.5:")
        depends_on("py-progressbar2@4.2:4")
        depends_on("py-scipy@1.11.1:1.16")
