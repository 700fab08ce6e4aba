/* A library of the vendor's SDK, driver or runtime wheels: two functions, of two symbol versions. */
#include "skeleton.h"

const char *JOIN(NAME, _launch)(void) { return "launched"; }
