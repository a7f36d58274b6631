# Spack recipe of Flotilla. In a repository of packages of your own:
#
#   spack repo create flotilla-repo && mkdir flotilla-repo/packages/flotilla
#   cp modules/spack/package.py flotilla-repo/packages/flotilla/ && spack repo add flotilla-repo
#   spack dev-build flotilla@0.1.0        in a clone of Flotilla
from spack.package import *


class Flotilla(CMakePackage):
    """Plans and trains transformers on whatever mix of accelerators a Slurm site can give."""

    # There is no released archive: the recipe builds the clone that it is pointed at (spack dev-build, spack develop).
    has_code = True
    license("Apache-2.0", checked_by="the authors")

    version("0.1.0")

    depends_on("cxx", type="build")
    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3:")
    depends_on("hdf5@1.10:+mpi")
    depends_on("hwloc@2:")
    depends_on("ucx@1.12:")
    depends_on("boost@1.74:+program_options")
    depends_on("onednn@2.6:")
    depends_on("nlohmann-json@3.11:")
    depends_on("tomlplusplus@3:")
    depends_on("googletest@1.12:", type="test")

    generator("ninja")
    # Ranks that share no MPI world are refused at start: Open MPI must be started by srun or by its own mpirun.
    conflicts("%gcc@:11", msg="Flotilla is C++20 as g++ 12 has it")

    def cmake_args(self):
        return [self.define("FLOTILLA_TESTS", self.run_tests)]
