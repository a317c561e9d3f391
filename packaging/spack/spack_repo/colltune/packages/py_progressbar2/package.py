"""A newer release than Spack's own repository has; pygam needs it."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyProgressbar2(PythonPackage):
    """Progress bars."""

    homepage = "https://github.com/WoLpH/python-progressbar"
    pypi = "progressbar2/progressbar2-4.6.0.tar.gz"

    license("BSD-3-Clause")

    version("4.6.0", sha256="fe48c8955a84428af77bff2642ba47041e1b8f7c867a5b7cc94f8bc255a8f0cf")

    depends_on("py-setuptools", type="build")
    depends_on("py-setuptools-scm", type="build")

    with default_args(type=("build", "run")):
        depends_on("python@3.10:")
        depends_on("py-python-utils@3.8.1:")
