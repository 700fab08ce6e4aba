/* The program that torch starts for shared memory: prints the builds of the libraries that it met. */
#include <stdio.h>

const char *c10_build(void);
const char *shm_build(void);

int main(void) { return printf("c10 %s, shm %s\n", c10_build(), shm_build()) < 0; }
