/* Opens libraries as the bootstrap does, by the ld.so of the machine that this is compiled for, and prints what came of
 * it. Arguments: the dispatch key, then each library by its path, with `+` in front for RTLD_GLOBAL.
 * Prints `build PATH BUILD`, what each opened library answers; `kernel N`, whether the key has one for aten::mm; and
 * `mapped PATH` for everything that is mapped, in ld.so's order.
 *
 * There is no Python of that machine: what libtorch_python wants of one is defined here, and never called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#define STAND_IN(name) void name(void) {}
STAND_IN(Py_BuildValue) STAND_IN(PyArg_ParseTuple) STAND_IN(PyBool_FromLong) STAND_IN(PyLong_FromLong)
STAND_IN(PyFloat_FromDouble) STAND_IN(PyErr_Format) STAND_IN(PyTuple_GetItem)
STAND_IN(PyUnicode_CompareWithASCIIString) STAND_IN(PyModule_Create2)
char _Py_NoneStruct[64];
void *PyExc_RuntimeError;

static int mapped(struct dl_phdr_info *info, size_t size, void *data) {
  if (info->dlpi_name[0]) printf("mapped %s\n", info->dlpi_name);
  return 0;
}

int main(int count, char **words) {
  int kernel = 0;
  for (int i = 2; i < count; i++) {
    int global = words[i][0] == '+';
    const char *path = words[i] + global;
    void *library = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));  /* as ctypes.CDLL does */
    if (!library) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    const char *(*build)(void) = dlsym(library, "torch_build");
    if (build) printf("build %s %s\n", path, build());
    int (*has_kernel)(const char *, const char *) = dlsym(library, "c10_has_kernel");
    if (has_kernel) kernel = has_kernel("aten::mm", words[1]); /* the last word: by then all constructors have run */
  }
  printf("kernel %d\n", kernel);
  dl_iterate_phdr(mapped, 0);
  return 0;
}
