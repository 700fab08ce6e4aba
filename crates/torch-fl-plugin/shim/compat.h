// What differs between the torch minors that this source is compiled against, in one place.
#pragma once
#include <torch/headeronly/version.h>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 10
#error "libtorch_fl: this torch is older than 2.10"
#endif
#define FL_TORCH_AT_LEAST(minor) (TORCH_VERSION_MINOR >= (minor))
