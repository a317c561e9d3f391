"""Not in Spack's own repository yet; the service needs it."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyStructlog(PythonPackage):
    """Structured logging."""

    homepage = "https://www.structlog.org"
    pypi = "structlog/structlog-26.1.0.tar.gz"

    license("MIT OR Apache-2.0")

    version("26.1.0", sha256="f63a716cbd1b1291cf7661de7794b455acfa4c43c5bcf1630e6ad5ddc1adb3b7")

    with default_args(type="build"):
        depends_on("py-hatchling")
        depends_on("py-hatch-vcs")
        depends_on("py-hatch-fancy-pypi-readme@22.8.0:")

    with default_args(type=("build", "run")):
        depends_on("python@3.10:")
