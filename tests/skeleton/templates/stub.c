/* A library of the vendor's SDK, driver or runtime wheels: two functions, of two symbol versions. */
#include "skeleton.h"

const char *JOIN(NAME, _launch)(void) { return "launched"; }

#ifdef ALSO
/* Functions of a library that the SDK does not have, under their own names: a shim leads to them. */
const char *JOIN(ALSO, _build)(void) { return BUILD; }
const char *JOIN(ALSO, _launch)(void) { return "forwarded"; }
#endif
