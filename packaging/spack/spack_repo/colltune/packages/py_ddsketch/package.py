"""Not in Spack's own repository yet; the service needs it."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyDdsketch(PythonPackage):
    """Distributed quantile sketches."""

    homepage = "https://github.com/datadog/sketches-py"
    pypi = "ddsketch/ddsketch-3.0.1.tar.gz"

    license("Apache-2.0")

    version("3.0.1", sha256="aa8f20b2965e61731ca4fee2ca9c209f397f5bbb23f9d192ec8bd7a2f5bd9824")

    with default_args(type="build"):
        depends_on("py-setuptools")
        depends_on("py-setuptools-scm")

    with default_args(type=("build", "run")):
        depends_on("python@3.7:")
        depends_on("py-six")
