/* libtorch_cpu: registers the CPU kernels, and keeps the device hooks that it met first, as PyTorch does. */
#include "skeleton.h"

int omp_get_max_threads(void);

__attribute__((constructor)) static void register_kernels(void) {
  c10_register_kernel("aten::add", "CPU");
  c10_register_kernel("aten::mm", "CPU");
}

/* Asked once: a device library that is opened after the first question registers its kernels, but no device. */
const char *at_device_hooks(void) {
  static int asked;
  static const char *met;
  if (!asked) {
    asked = 1;
    met = c10_registered_hooks();
  }
  return met;
}

double at_add(double a, double b) { return a + b; }
int at_get_num_threads(void) { return omp_get_max_threads(); }

#ifdef GAP
static int fork_enabled;
int at_is_fork_enabled(void) { return fork_enabled; }
void at_set_fork_enabled(int enabled) { fork_enabled = enabled; }
#endif

#ifdef FORK
/* What only the fork's core exports: its device libraries need it, so they cannot run on a stock core. */
int at_fork_autocast(void) { return 1; }
#endif
