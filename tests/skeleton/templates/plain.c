/* A library that only others refer to: libtorch, libtorch_global_deps, libshm, and hash-named dependencies. */
#include "skeleton.h"
