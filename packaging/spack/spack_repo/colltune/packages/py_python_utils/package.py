"""A newer release than Spack's own repository has; progressbar2 needs it."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyPythonUtils(PythonPackage):
    """Small functions and classes that progressbar2 uses."""

    homepage = "https://github.com/WoLpH/python-utils"
    pypi = "python-utils/python_utils-3.9.1.tar.gz"

    license("BSD-3-Clause")

    version("3.9.1", sha256="eb574b4292415eb230f094cbf50ab5ef36e3579b8f09e9f2ba74af70891449a0")

    depends_on("py-setuptools", type="build")

    with default_args(type=("build", "run")):
        depends_on("python@3.9:")
        depends_on("py-typing-extensions@3.10.0.3:")
