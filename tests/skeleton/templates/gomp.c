/* Stands in for GNU's libgomp: one function, of the real one's symbol version. */
#include "skeleton.h"

int omp_get_max_threads(void) { return 1; }
